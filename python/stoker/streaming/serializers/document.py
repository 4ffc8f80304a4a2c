# SPDX-License-Identifier: Apache-2.0
"""Files as leaves: text, any file, PDF, meshes, NIfTI volumes, TIFF. Only read."""

from __future__ import annotations

import gzip
import math
from abc import abstractmethod
from io import BytesIO
from typing import Any

import numpy as np

from stoker._optional import require
from stoker.streaming.serializers._cursor import ByteCursor
from stoker.streaming.serializers._read_only import ReadOnlySerializer, decoding

_GZIP_MAGIC = b"\x1f\x8b"
_NIFTI2_HEADER_BYTES = 540  # the first number of a file of version 2, in either byte order
_SCENE_TYPES = ("glb", "gltf")  # mesh files that may hold nothing


class TextSerializer(ReadOnlySerializer):
    """``text``: UTF-8."""

    def deserialize(self, data: bytes) -> str:
        """Return the text.

        Raises:
            CorruptDataError: the bytes are not UTF-8.
        """
        return ByteCursor(data, "text leaf", "little").text(len(data), "text")


class FileSerializer(ReadOnlySerializer):
    """``file`` and ``file:<ext>``: any file."""

    def deserialize(self, data: bytes) -> bytes:
        """Return the bytes themselves."""
        return data


class _DecodedFileSerializer(ReadOnlySerializer):
    """A file that an optional library decodes.

    Args:
        decode: False: a leaf is the bytes of the file, and the library is not needed.
    """

    def __init__(self, decode: bool = True) -> None:  # noqa: FBT001, FBT002 - the public signature
        self._decode = decode

    def deserialize(self, data: bytes) -> Any:
        """Return what the library makes of the file, or its bytes.

        Raises:
            ModuleNotFoundError: the library is not installed.
            CorruptDataError: the file is damaged.
        """
        return self._decoded(data) if self._decode else data

    @abstractmethod
    def _decoded(self, data: bytes) -> Any:
        """Decode with the library."""


class PdfSerializer(_DecodedFileSerializer):
    """``pdf``: a ``pdfplumber.PDF``."""

    def _decoded(self, data: bytes) -> Any:
        pdfplumber = require("pdfplumber", "pdfplumber", "PDF leaves")
        with decoding("a PDF file", data):
            return pdfplumber.open(BytesIO(data))


class MeshSerializer(_DecodedFileSerializer):
    """``mesh:<type>``: what ``trimesh.load`` returns for a file of that type (Trimesh, Scene, PointCloud ...)."""

    def __init__(self, decode: bool = True) -> None:  # noqa: FBT001, FBT002 - the public signature
        super().__init__(decode)
        self._file_type = "glb"

    def setup(self, data_format: str) -> None:
        """Take the file type from the format string; without one it is glb."""
        self._file_type = data_format.partition(":")[2] or "glb"

    def _decoded(self, data: bytes) -> Any:
        trimesh = require("trimesh", "trimesh", "mesh leaves")
        with decoding(f"a {self._file_type} mesh", data):
            mesh = trimesh.load(BytesIO(data), file_type=self._file_type)
            if (
                mesh.is_empty and self._file_type not in _SCENE_TYPES
            ):  # what trimesh makes of a cut STL
                msg = "no geometry"
                raise ValueError(msg)
            return mesh


class NiftiSerializer(_DecodedFileSerializer):
    """``nifti`` with any extension: a ``nibabel.Nifti1Image`` (Nifti2Image for version 2), gzipped or not."""

    def _decoded(self, data: bytes) -> Any:
        nibabel = require("nibabel", "nibabel", "NIfTI leaves")
        with decoding("a NIfTI file", data):
            plain = gzip.decompress(data) if data.startswith(_GZIP_MAGIC) else data
            version2 = _NIFTI2_HEADER_BYTES in (
                int.from_bytes(plain[:4], "little"),
                int.from_bytes(plain[:4], "big"),
            )
            image = (nibabel.Nifti2Image if version2 else nibabel.Nifti1Image).from_bytes(plain)
            voxels = image.dataobj  # read when asked for, so a cut file would be noticed too late
            needed = voxels.offset + math.prod(voxels.shape) * voxels.dtype.itemsize
            if needed > len(plain):
                msg = f"{needed} bytes announced, {len(plain)} there"
                raise ValueError(msg)
            return image


class TiffSerializer(_DecodedFileSerializer):
    """``tiff`` and ``tifffile``: a ``numpy.ndarray``, as ``tifffile.imread`` returns it."""

    def _decoded(self, data: bytes) -> np.ndarray[Any, Any]:
        tifffile = require("tifffile", "tifffile", "TIFF leaves")
        with decoding("a TIFF file", data), tifffile.TiffFile(BytesIO(data)) as file:
            if not len(file.pages):  # tifffile would make an empty array of it
                msg = "no image"
                raise ValueError(msg)
            return np.asarray(file.asarray())
