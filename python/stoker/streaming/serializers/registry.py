# SPDX-License-Identifier: Apache-2.0
"""The ordered registry of serializers and the choice of one per leaf."""

from __future__ import annotations

import copy
from typing import Any

from stoker.exceptions import InvalidArgumentError, UnsupportedDataError
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
from stoker.streaming.serializers.scalar import (
    BooleanSerializer,
    BytesSerializer,
    FloatSerializer,
    IntegerSerializer,
    PickleSerializer,
    StringSerializer,
)
from stoker.streaming.serializers.structured import JsonSerializer


def default_serializers() -> dict[str, Serializer]:
    """Return new instances of the built-in serializers, by format name, in the order they are asked on writing."""
    return {
        "str": StringSerializer(),
        "text": TextSerializer(),
        "bool": BooleanSerializer(),
        "int": IntegerSerializer(),
        "float": FloatSerializer(),
        "video": VideoSerializer(),
        "audio": AudioSerializer(),
        "image": ImageSerializer(),
        "nifti": NiftiSerializer(),
        "mesh": MeshSerializer(),
        "pdf": PdfSerializer(),
        "graph": GraphSerializer(),
        "tifffile": TiffSerializer(),
        "tiff": TiffSerializer(),
        "file": FileSerializer(),
        "pil": PilSerializer(),
        "jpeg": JpegSerializer(),
        "jpeg_array": JpegArraySerializer(),
        "bytes": BytesSerializer(),
        "no_header_numpy": NoHeaderNumpySerializer(),
        "numpy": NumpySerializer(),
        "no_header_tensor": NoHeaderTensorSerializer(),
        "tensor": TensorSerializer(),
        "json": JsonSerializer(),
        "pickle": PickleSerializer(),
    }


def merged_serializers(user: dict[str, Serializer] | None) -> dict[str, Serializer]:
    """Return the registry with the user's serializers first; a user's name replaces a built-in one.

    Raises:
        InvalidArgumentError: ``user`` is not a dict of names to Serializer instances.
    """
    for name, serializer in (user or {}).items():
        if not isinstance(name, str) or not isinstance(serializer, Serializer):
            msg = f"serializers must map names to Serializer instances, found {name!r}: {serializer!r}"
            raise InvalidArgumentError(msg)
    mine = dict(user or {})
    return {**mine, **{name: s for name, s in default_serializers().items() if name not in mine}}


def find_serializer(data_format: str, registry: dict[str, Serializer]) -> Serializer:
    """Return a serializer of its own, set up for one stored format string such as ``"image:png"``.

    Raises:
        UnsupportedDataError: no serializer of that name; the message says which one is needed.
    """
    name, _, argument = data_format.partition(":")
    found = registry.get(argument) if argument in registry else registry.get(name)
    if found is None:
        msg = (
            f"The dataset stores a leaf as {data_format!r}, for which there is no serializer. Pass the one that wrote it: "
            f"serializers={{{name!r}: MySerializer()}}. Known: {', '.join(registry)}."
        )
        raise UnsupportedDataError(msg)
    own = copy.copy(found)
    own.setup(data_format)
    return own


def choose_serializer(leaf: Any, registry: dict[str, Serializer]) -> tuple[str, Serializer]:
    """Return name and serializer for a leaf that is about to be written; pickle takes what no other does."""
    for name, serializer in registry.items():
        if serializer.can_serialize(leaf):
            return name, serializer
    msg = f"no serializer takes a leaf of type {type(leaf).__name__}"
    raise UnsupportedDataError(msg)
