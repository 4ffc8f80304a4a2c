# SPDX-License-Identifier: Apache-2.0
"""Images: raw Pillow pixels, JPEG files and lists of them, and encoded images that are only read."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from PIL import Image

from damage import damaged
from datasets import write_dataset
from stoker import StreamingDataset
from stoker.exceptions import CorruptDataError, InvalidArgumentError, UnsupportedDataError
from stoker.streaming.serializers import (
    ImageSerializer,
    JpegArraySerializer,
    JpegSerializer,
    PilSerializer,
    choose_serializer,
    default_serializers,
)

PIL, JPEG, JPEGS, IMAGE = (
    PilSerializer(),
    JpegSerializer(),
    JpegArraySerializer(),
    ImageSerializer(),
)
TOLERANCE = 2  # between two JPEG decoders


def pixels(height: int = 12, width: int = 20, seed: int = 0) -> np.ndarray:
    """Return smooth RGB content, which decoders agree on."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x * 9 + seed, y * 14, (x + y) * 6], -1).astype(np.uint8)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def jpeg_file(mode: str = "RGB", seed: int = 0, **options: Any) -> bytes:
    return encoded(
        Image.fromarray(pixels(seed=seed)).convert(mode), "JPEG", **{"quality": 95, **options}
    )


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def exif(orientation: int) -> Image.Exif:
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


def assert_close(tensor: torch.Tensor, wanted: np.ndarray, tolerance: int = TOLERANCE) -> None:
    assert tensor.dtype is torch.uint8
    assert tensor.is_contiguous()
    assert list(tensor.shape) == [3, *wanted.shape[:2]]
    difference = np.abs(tensor.permute(1, 2, 0).numpy().astype(int) - wanted.astype(int))
    assert difference.max(initial=0) <= tolerance


# ---- pil

MODES = ["1", "L", "LA", "La", "I;16", "I;16L", "I;16B", "RGB", "YCbCr", "HSV", "LAB", "RGBA", "RGBa", "RGBX",
         "CMYK", "I", "F"]  # fmt: skip


def raw_image(mode: str, width: int, height: int) -> Image.Image:
    size = len(Image.new(mode, (width, height)).tobytes())
    noise = np.random.RandomState(width + height).bytes(size)
    return (
        Image.frombytes(mode, (width, height), noise) if size else Image.new(mode, (width, height))
    )


@pytest.mark.parametrize("size", [(7, 5), (8, 1), (1, 9), (0, 4), (3, 0)])
@pytest.mark.parametrize("mode", MODES)
def test_pil_round_trip(mode: str, size: tuple[int, int]) -> None:
    image = raw_image(mode, *size)
    name, serializer = choose_serializer(image, default_serializers())
    assert name == "pil"
    data, data_format = serializer.serialize(image)
    assert data_format is None
    assert data[:12] == struct.pack("<3I", *size, len(mode))
    back = PIL.deserialize(data)
    assert (back.mode, back.size, back.tobytes()) == (image.mode, image.size, image.tobytes())


@pytest.mark.parametrize("kind", ["P", "PA"])
def test_palettes_are_left_to_pickle(kind: str) -> None:
    image = Image.fromarray(pixels()).convert("P").convert(kind)
    name, serializer = choose_serializer(image, default_serializers())
    assert name == "pickle"
    back = serializer.deserialize(serializer.serialize(image)[0])
    assert back.convert("RGBA").tobytes() == image.convert("RGBA").tobytes()


def test_pil_reads_the_numbers_of_a_palette() -> None:
    back = PIL.deserialize(struct.pack("<3I", 3, 2, 1) + b"P" + bytes(range(6)))
    assert (back.mode, back.size, back.tobytes()) == ("P", (3, 2), bytes(range(6)))


GOOD_PIL = struct.pack("<3I", 3, 2, 3) + b"RGB" + bytes(range(18))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "byte 0: expected 12 bytes of header, found 0 bytes"),
        (GOOD_PIL[:11], "expected 12 bytes of header, found 11 bytes"),
        (GOOD_PIL[:14], "expected 3 bytes of mode, found 2 bytes"),
        (GOOD_PIL[:-1], r"expected 18 bytes of pixels \(3 x 2, mode RGB\), found 17 bytes"),
        (GOOD_PIL + b"x", "expected the end, found 1 more bytes"),
        (GOOD_PIL.replace(b"RGB", b"RGZ"), "expected a mode of Pillow, found 'RGZ'"),
        (GOOD_PIL.replace(b"RGB", b"R\xff\xfe"), "mode in UTF-8"),
        (struct.pack("<3I", 2**32 - 1, 2**32 - 1, 3) + GOOD_PIL[12:], "pixels"),
    ],
)
def test_damaged_pil(data: bytes, message: str) -> None:
    with pytest.raises(CorruptDataError, match=message):
        PIL.deserialize(data)


@given(damaged(GOOD_PIL))
def test_pil_mutations(data: bytes) -> None:
    try:
        back = PIL.deserialize(data)
    except CorruptDataError:
        return
    assert len(back.tobytes()) == len(data) - 12 - len(back.mode)


# ---- jpeg


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}])
def test_jpeg_keeps_the_file(mode: str, options: dict[str, Any]) -> None:
    file = jpeg_file(mode, **options)
    name, serializer = choose_serializer(opened(file), default_serializers())
    assert name == "jpeg"
    assert serializer.serialize(opened(file)) == (file, None)
    assert_close(JPEG.deserialize(file), np.asarray(opened(file).convert("RGB")))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("read", [JPEG.deserialize, IMAGE.deserialize])
def test_jpeg_is_turned_as_exif_says(orientation: int, read: Any) -> None:
    upright = pixels()
    # How the stored rows must be turned to be shown (EXIF 2.3, tag 0x0112).
    turn = {
        1: lambda a: a,
        2: np.fliplr,
        3: lambda a: np.rot90(a, 2),
        4: np.flipud,
        5: lambda a: a.swapaxes(0, 1),
        6: lambda a: np.rot90(a, -1),
        7: lambda a: np.rot90(a, 2).swapaxes(0, 1),
        8: np.rot90,
    }[orientation]
    file = encoded(Image.fromarray(upright), "JPEG", quality=95, exif=exif(orientation))
    assert_close(read(file), turn(np.asarray(opened(file))))


def test_jpeg_from_a_file_on_disk(tmp_path: Path) -> None:
    path, file = tmp_path / "é.jpg", jpeg_file()
    path.write_bytes(file)
    with Image.open(path) as image:
        assert JPEG.serialize(image)[0] == file
        assert np.asarray(image).shape == (12, 20, 3), "serializing leaves the image usable"
        assert JPEG.serialize(image)[0] == file, "loaded and unchanged"
    with Image.open(path) as image:
        pass
    assert JPEG.serialize(image)[0] == file, "closed, the file is still there"


def test_jpeg_stream_stays_where_it_was() -> None:
    image = opened(jpeg_file())
    before = image.fp.tell()
    JPEG.serialize(image)
    assert image.fp.tell() == before


def test_jpeg_changed_in_memory_is_encoded_anew() -> None:
    file = jpeg_file(exif=exif(6), subsampling=0)
    image = opened(file)
    image.paste((255, 0, 0), (0, 0, 10, 6))
    data = JPEG.serialize(image)[0]
    assert data != file
    again = opened(data)
    assert again.quantization == image.quantization
    assert again.getexif()[0x0112] == 6
    assert_close(
        torch.from_numpy(np.asarray(again).transpose(2, 0, 1).copy()), np.asarray(image), 40
    )


def test_jpeg_made_smaller_in_place() -> None:
    image = opened(jpeg_file())
    image.thumbnail((10, 10))
    assert JPEG.deserialize(JPEG.serialize(image)[0]).shape == (3, *image.size[::-1])


def test_jpeg_whose_name_another_file_took(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(jpeg_file())
    with Image.open(path) as image:
        image.load()
    path.write_bytes(jpeg_file(seed=90))
    assert_close(JPEG.deserialize(JPEG.serialize(image)[0]), np.asarray(image), 12)


@pytest.mark.parametrize("loaded", [True, False])
def test_jpeg_whose_file_is_gone(loaded: bool, tmp_path: Path) -> None:
    path = tmp_path / "gone.jpg"
    path.write_bytes(jpeg_file())
    with Image.open(path) as image:
        if loaded:
            image.load()
    path.unlink()
    if loaded:
        assert JPEG.deserialize(JPEG.serialize(image)[0]).shape == (3, 12, 20)
    else:
        with pytest.raises(
            InvalidArgumentError, match=r"gone\.jpg cannot be stored.*Call load\(\)"
        ):
            JPEG.serialize(image)


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"no jpeg at all", b"\xff\xd8\xff", b"\xff\xd8\xff\xd9"]
)
def test_no_jpeg(data: bytes) -> None:
    with pytest.raises(CorruptDataError):
        JPEG.deserialize(data)


@pytest.mark.parametrize("size", [0.3, 0.6, 0.9])
def test_cut_jpeg(size: float) -> None:
    file = jpeg_file()
    with pytest.raises(CorruptDataError):
        JPEG.deserialize(file[: int(len(file) * size)])


@settings(max_examples=200)
@given(damaged(jpeg_file(quality=60)))
def test_jpeg_mutations(data: bytes) -> None:
    try:
        image = JPEG.deserialize(data)
    except (CorruptDataError, UnsupportedDataError):
        return
    assert image.dtype is torch.uint8
    assert image.shape[0] == 3


# ---- jpeg_array


@pytest.mark.parametrize("kind", [list, tuple])
def test_jpeg_array(kind: type, tmp_path: Path) -> None:
    files = [jpeg_file(seed=i, quality=70 + i) for i in range(3)]
    frames = kind(map(opened, files))
    assert choose_serializer(frames, default_serializers())[0] == "jpeg_array"
    data, data_format = JPEGS.serialize(frames)
    assert data_format is None
    assert data == struct.pack("<4I", 3, *map(len, files)) + b"".join(files)
    back = JPEGS.deserialize(data)
    assert type(back) is list
    for tensor, file in zip(back, files, strict=True):
        assert_close(tensor, np.asarray(opened(file)))


def test_jpeg_array_of_nothing() -> None:
    assert JPEGS.deserialize(bytes(4)) == []


@pytest.mark.parametrize("item", [[], [1], "text", None, [Image.new("L", (2, 2))]])
def test_what_is_no_jpeg_array(item: Any) -> None:
    assert not JPEGS.can_serialize(item)
    assert not JPEGS.can_serialize([opened(jpeg_file()), item])


def test_jpeg_array_names_the_image_that_cannot_be_stored(tmp_path: Path) -> None:
    path = tmp_path / "gone.jpg"
    path.write_bytes(jpeg_file())
    with Image.open(path) as image:
        pass
    path.unlink()
    with pytest.raises(InvalidArgumentError) as caught:
        JPEGS.serialize([opened(jpeg_file()), image])
    assert caught.value.__notes__ == ["image 1 of a list of 2"]


FILE = jpeg_file(quality=60)
GOOD_ARRAY = struct.pack("<3I", 2, len(FILE), len(FILE)) + FILE + FILE


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected 4 bytes of the number of images, found 0 bytes"),
        (GOOD_ARRAY[:9], "the sizes of 2 images, found 5 bytes"),
        (GOOD_ARRAY[:-1], f"2 images of together {2 * len(FILE)} bytes, found {2 * len(FILE) - 1}"),
        (GOOD_ARRAY + b"x", f"found {2 * len(FILE) + 1} bytes"),
        (b"\xff\xff\xff\xff" + GOOD_ARRAY[4:], "the sizes of 4294967295 images"),
        (GOOD_ARRAY[: 12 + len(FILE)] + b"x" * len(FILE), "jpeg_array leaf, image 1: "),
    ],
)
def test_damaged_jpeg_array(data: bytes, message: str) -> None:
    with pytest.raises(CorruptDataError, match=message):
        JPEGS.deserialize(data)


@given(damaged(GOOD_ARRAY))
def test_jpeg_array_mutations(data: bytes) -> None:
    try:
        images = JPEGS.deserialize(data)
    except (CorruptDataError, UnsupportedDataError):
        return
    assert all(image.dtype is torch.uint8 for image in images)


# ---- image


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("PNG", "RGB"),
        ("PNG", "RGBA"),
        ("PNG", "L"),
        ("PNG", "LA"),
        ("PNG", "P"),
        ("PNG", "1"),
        ("BMP", "RGB"),
        ("GIF", "P"),
        ("TIFF", "RGB"),
        ("TIFF", "CMYK"),
        ("PPM", "L"),
    ],
)
def test_image_of_any_kind(kind: str, mode: str) -> None:
    file = encoded(Image.fromarray(pixels()).convert(mode), kind)
    serializer = ImageSerializer()
    serializer.setup("image:whatever")
    assert_close(serializer.deserialize(file), np.asarray(opened(file).convert("RGB")), 0)


def test_image_drops_transparency() -> None:
    colours = np.dstack([pixels(), np.full((12, 20), 9, np.uint8)])
    assert_close(IMAGE.deserialize(encoded(Image.fromarray(colours), "PNG")), pixels(), 0)


def test_image_scales_16_bits() -> None:
    wide = (np.arange(240, dtype=np.uint16) * 257).reshape(12, 20)
    wanted = np.repeat((wide >> 8).astype(np.uint8)[..., None], 3, 2)
    assert_close(IMAGE.deserialize(encoded(Image.fromarray(wide), "PNG")), wanted, 0)


def test_image_png_is_turned_as_exif_says() -> None:
    file = encoded(Image.fromarray(pixels()), "PNG", exif=exif(6))
    assert_close(IMAGE.deserialize(file), np.rot90(pixels(), -1), 0)


def test_image_only_reads() -> None:
    assert not IMAGE.can_serialize(Image.new("L", (2, 2)))
    with pytest.raises(TypeError, match="ImageSerializer only reads in this version"):
        IMAGE.serialize(Image.new("L", (2, 2)))


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n", bytes(100)])
def test_no_image(data: bytes) -> None:
    with pytest.raises(CorruptDataError, match=f"expected an image, found {len(data)} bytes"):
        IMAGE.deserialize(data)


@settings(max_examples=200)
@given(damaged(encoded(Image.fromarray(pixels()), "PNG")))
def test_image_mutations(data: bytes) -> None:
    try:
        image = IMAGE.deserialize(data)
    except (CorruptDataError, UnsupportedDataError):
        return
    assert image.dtype is torch.uint8
    assert image.shape[0] == 3


# ---- in a dataset


def test_images_in_a_dataset(tmp_path: Path) -> None:
    def sample(i: int) -> dict[str, Any]:
        return {
            "photo": opened(jpeg_file(seed=i)),
            "frames": [opened(jpeg_file(seed=i)), opened(jpeg_file(seed=i + 1))],
            "mask": Image.fromarray(pixels(seed=i)).convert("L"),
        }

    write_dataset(tmp_path / "d", (sample(i) for i in range(7)))
    dataset = StreamingDataset(tmp_path / "d")
    assert dataset.index.data_format == ["jpeg", "jpeg_array", "pil"]
    for i, read in enumerate(dataset):
        wanted = sample(i)
        assert_close(read["photo"], np.asarray(wanted["photo"]))
        assert_close(read["frames"][1], np.asarray(wanted["frames"][1]))
        assert read["mask"].tobytes() == wanted["mask"].tobytes()
