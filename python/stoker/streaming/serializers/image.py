# SPDX-License-Identifier: Apache-2.0
"""Images: raw Pillow pixels, JPEG files as they are, and encoded images of other writers."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from io import BytesIO
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image, ImageOps
from PIL.JpegImagePlugin import JpegImageFile

from stoker import _core
from stoker.exceptions import CorruptDataError, InvalidArgumentError
from stoker.streaming.serializers._cursor import ByteCursor
from stoker.streaming.serializers._jpeg_source import original_jpeg
from stoker.streaming.serializers._read_only import ReadOnlySerializer, decoding
from stoker.streaming.serializers.base import Serializer

_JPEG_MAGIC = b"\xff\xd8\xff"
_RAW_HEADER = struct.Struct("<3I")  # width, height, length of the mode's name
# Bytes per pixel of every mode whose `tobytes` is the whole image. Mode "1" packs eight pixels into a byte.
_PIXEL_BYTES = {
    **dict.fromkeys(("L",), 1),
    **dict.fromkeys(("LA", "La", "I;16", "I;16L", "I;16B"), 2),
    **dict.fromkeys(("RGB", "YCbCr", "HSV", "LAB"), 3),
    **dict.fromkeys(("RGBA", "RGBa", "RGBX", "CMYK", "I", "F"), 4),
}
_PALETTE_PIXEL_BYTES = {"P": 1, "PA": 2}  # read only: the palette is not stored


def jpeg_to_tensor(data: bytes) -> torch.Tensor:
    """Return a JPEG file as a uint8 tensor (3, height, width), RGB, EXIF orientation applied.

    Raises:
        CorruptDataError: the bytes are no JPEG, or the image is damaged or cut.
        UnsupportedDataError: a rare kind of JPEG that the decoder does not know.
    """
    return torch.from_numpy(_core.decode_jpeg(data))


class PilSerializer(Serializer):
    """``pil``: Pillow images that were not opened from a JPEG, as raw pixels with size and mode.

    Images with a palette are left to pickle, which keeps the palette.
    """

    def serialize(self, item: Image.Image) -> tuple[bytes, str | None]:
        """Return u32 width, u32 height, u32 length of the mode, the mode, and the pixels of `Image.tobytes`."""
        mode = item.mode.encode()
        return b"".join((_RAW_HEADER.pack(*item.size, len(mode)), mode, item.tobytes())), None

    def deserialize(self, data: bytes) -> Image.Image:
        """Return the image.

        Raises:
            CorruptDataError: an unknown mode, or another number of pixel bytes than size and mode ask for.
        """
        cursor = ByteCursor(data, "pil leaf", "little")
        width, height, length = _RAW_HEADER.unpack(cursor.take(_RAW_HEADER.size, "header"))
        mode = cursor.text(length, "mode")
        size = _raw_size(mode, width, height)
        if size is None:
            cursor.fail("a mode of Pillow", repr(mode[:40]))
        pixels = cursor.take(size, f"pixels ({width} x {height}, mode {mode})")
        cursor.finish()
        with decoding("a raw image", data):
            return Image.frombytes(mode, (width, height), pixels)

    def can_serialize(self, item: Any) -> bool:
        """Take Pillow images of a mode that raw pixels describe, except JPEG files."""
        return (
            isinstance(item, Image.Image)
            and not isinstance(item, JpegImageFile)
            and _raw_size(item.mode, 0, 0) is not None
            and item.mode not in _PALETTE_PIXEL_BYTES
        )


def _raw_size(mode: str, width: int, height: int) -> int | None:
    """Return the number of pixel bytes of an image, None for a mode that is not known."""
    if mode == "1":
        return (width + 7) // 8 * height
    each = _PIXEL_BYTES.get(mode) or _PALETTE_PIXEL_BYTES.get(mode)
    return None if each is None else each * width * height


class JpegSerializer(Serializer):
    """``jpeg``: JPEG files opened with Pillow, byte for byte; read as a uint8 tensor (3, height, width)."""

    native: ClassVar[str] = "jpeg"

    def serialize(self, item: JpegImageFile) -> tuple[bytes, str | None]:
        """Return the bytes of the file, or of a new JPEG when the image was changed in memory.

        Raises:
            InvalidArgumentError: the image was closed unread and its file is gone.
        """
        return original_jpeg(item), None

    def deserialize(self, data: bytes) -> torch.Tensor:
        """Return the uint8 tensor (3, height, width); see `jpeg_to_tensor`."""
        return jpeg_to_tensor(data)

    def can_serialize(self, item: Any) -> bool:
        """Take images that Pillow opened from a JPEG."""
        return isinstance(item, JpegImageFile)


class JpegArraySerializer(Serializer):
    """``jpeg_array``: lists or tuples of JPEG files; read as a list of uint8 tensors (3, height, width)."""

    def serialize(
        self, item: list[JpegImageFile] | tuple[JpegImageFile, ...]
    ) -> tuple[bytes, str | None]:
        """Return u32 count, u32 sizes and the files.

        Raises:
            InvalidArgumentError: an image was closed unread and its file is gone; the message says which.
        """
        files = []
        for number, image in enumerate(item):
            try:
                files.append(original_jpeg(image))
            except InvalidArgumentError as error:
                error.add_note(f"image {number} of a list of {len(item)}")
                raise
        header = struct.pack(f"<{1 + len(files)}I", len(files), *map(len, files))
        return b"".join((header, *files)), None

    def deserialize(self, data: bytes) -> list[torch.Tensor]:
        """Return one uint8 tensor (3, height, width) per image.

        Raises:
            CorruptDataError: the sizes do not add up, or an image is damaged; the message says which.
        """
        return [_numbered(number, file) for number, file in enumerate(_split(data))]

    def can_serialize(self, item: Any) -> bool:
        """Take lists and tuples of nothing but images that Pillow opened from a JPEG, at least one."""
        return (
            type(item) in (list, tuple)
            and len(item) > 0
            and all(isinstance(image, JpegImageFile) for image in item)
        )


def _split(data: bytes) -> Iterator[bytes]:
    cursor = ByteCursor(data, "jpeg_array leaf", "little")
    count = cursor.unsigned(4, "the number of images")
    table = cursor.take(4 * count, f"the sizes of {count} images")
    sizes = struct.unpack(f"<{count}I", table)
    if sum(sizes) != cursor.left:
        cursor.fail(f"{count} images of together {sum(sizes)} bytes", f"{cursor.left} bytes")
    for number, size in enumerate(sizes):
        yield cursor.take(size, f"image {number}")


def _numbered(number: int, file: bytes) -> torch.Tensor:
    try:
        return jpeg_to_tensor(file)
    except CorruptDataError as error:
        msg = f"jpeg_array leaf, image {number}: {error}"
        raise CorruptDataError(msg) from error


class ImageSerializer(ReadOnlySerializer):
    """``image:<ext>``: encoded images of other writers, of any kind whatever the extension says."""

    def deserialize(self, data: bytes) -> torch.Tensor:
        """Return a uint8 tensor (3, height, width), RGB, EXIF orientation applied, transparency dropped.

        Raises:
            CorruptDataError: the bytes are no image Pillow knows, or it is damaged.
        """
        if data.startswith(_JPEG_MAGIC):
            return jpeg_to_tensor(data)
        with decoding("an image", data), Image.open(BytesIO(data)) as image:
            shown = ImageOps.exif_transpose(image)
            if shown.mode.startswith("I;16"):  # Pillow would cut off at 255 instead of scaling
                shown = Image.fromarray((np.asarray(shown) >> 8).astype(np.uint8))
            pixels = np.asarray(shown.convert("RGB"))
        return torch.from_numpy(pixels.transpose(2, 0, 1).copy())
