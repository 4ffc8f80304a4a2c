# SPDX-License-Identifier: Apache-2.0
"""Leaf serializers: the contract, the built-in ones and the registry that orders them."""

from stoker.streaming.serializers.array import (
    NoHeaderNumpySerializer,
    NoHeaderTensorSerializer,
    NumpySerializer,
    TensorSerializer,
)
from stoker.streaming.serializers.base import Serializer
from stoker.streaming.serializers.document import (
    FileSerializer,
    MeshSerializer,
    NiftiSerializer,
    PdfSerializer,
    TextSerializer,
    TiffSerializer,
)
from stoker.streaming.serializers.graph import GraphSerializer
from stoker.streaming.serializers.image import (
    ImageSerializer,
    JpegArraySerializer,
    JpegSerializer,
    PilSerializer,
)
from stoker.streaming.serializers.media import AudioSerializer, VideoSerializer
from stoker.streaming.serializers.registry import (
    choose_serializer,
    default_serializers,
    find_serializer,
    merged_serializers,
)
from stoker.streaming.serializers.scalar import (
    BooleanSerializer,
    BytesSerializer,
    FloatSerializer,
    IntegerSerializer,
    PickleSerializer,
    StringSerializer,
)
from stoker.streaming.serializers.structured import JsonSerializer

__all__ = [
    "AudioSerializer",
    "BooleanSerializer",
    "BytesSerializer",
    "FileSerializer",
    "FloatSerializer",
    "GraphSerializer",
    "ImageSerializer",
    "IntegerSerializer",
    "JpegArraySerializer",
    "JpegSerializer",
    "JsonSerializer",
    "MeshSerializer",
    "NiftiSerializer",
    "NoHeaderNumpySerializer",
    "NoHeaderTensorSerializer",
    "NumpySerializer",
    "PdfSerializer",
    "PickleSerializer",
    "PilSerializer",
    "Serializer",
    "StringSerializer",
    "TensorSerializer",
    "TextSerializer",
    "TiffSerializer",
    "VideoSerializer",
    "choose_serializer",
    "default_serializers",
    "find_serializer",
    "merged_serializers",
]
