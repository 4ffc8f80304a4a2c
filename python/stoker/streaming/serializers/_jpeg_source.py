# SPDX-License-Identifier: Apache-2.0
"""From a JPEG image of Pillow back to the file it came from, so that storing it costs neither time nor quality."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from stoker import _core
from stoker.exceptions import CorruptDataError, InvalidArgumentError, UnsupportedDataError

_QUALITY = 95  # for images whose quantisation cannot be taken over


def original_jpeg(image: JpegImageFile) -> bytes:
    """Return the file that ``image`` was opened from, or a new JPEG when ``image`` no longer shows that file.

    The file is taken from the image's open stream or read again by its name. Its size and mode must be those of the
    image, and when the pixels were loaded they are compared too: operations in place (``thumbnail``, ``paste``)
    change them, and another file may have taken the name. So hand over images unloaded where you can; a loaded one
    costs a decode. A new JPEG has the quantisation of the old one and its EXIF data.

    Raises:
        InvalidArgumentError: the image was closed unread and its file is gone or another.
    """
    for data in _candidates(image):
        if _shows(data, image):
            return data
    return _encoded(image)


def _candidates(image: JpegImageFile) -> Iterator[bytes]:
    stream = image.fp
    if stream is not None and not stream.closed and stream.seekable():
        position = stream.tell()
        stream.seek(0)
        data = stream.read()
        stream.seek(position)  # before yielding: the caller may stop here
        yield data
    if image.filename and Path(_text(image.filename)).is_file():
        yield Path(_text(image.filename)).read_bytes()


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode("utf-8", "surrogateescape")


def _shows(data: bytes, image: JpegImageFile) -> bool:
    """Say whether a JPEG file looks like ``image`` as it is now."""
    try:
        width, height, components, _ = _core.probe_jpeg(data)
    except (CorruptDataError, UnsupportedDataError):
        return False
    # The probe gives the size as shown, Pillow as stored: EXIF orientation may swap the sides.
    if {width, height} != set(image.size) or components != len(image.getbands()) or image.tell():
        return False
    if image.tile:  # what is left to load: everything, so nothing was changed
        return True
    with Image.open(BytesIO(data)) as original:
        return original.size == image.size and original.tobytes() == image.tobytes()


def _encoded(image: JpegImageFile) -> bytes:
    if image.tile and (image.fp is None or image.fp.closed):
        msg = (
            f"The JPEG image opened from {_text(image.filename) or 'a stream'} cannot be stored: it was closed before its "
            "pixels were read, and that file is gone or another. Call load() before closing it."
        )
        raise InvalidArgumentError(msg)
    quality = "keep" if image.format == "JPEG" else _QUALITY
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=quality, exif=image.getexif())
    return buffer.getvalue()
