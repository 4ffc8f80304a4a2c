# SPDX-License-Identifier: Apache-2.0
"""Image transforms: torch's pixels, fused or one by one, from files, tensors, arrays and Pillow images."""

from __future__ import annotations

import colorsys
import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.nn.functional import interpolate, pad

from pictures import jpeg, noise, opened, places, turned
from stoker import _core, vision
from stoker.exceptions import CorruptDataError, InvalidArgumentError
from stoker.vision import (
    CenterCrop,
    ColorJitter,
    Compose,
    Grayscale,
    Normalize,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    ToDtype,
    Transform,
)

KEY = [42, 1, 7, 0]
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
SIDES = st.integers(1, 40)
FILTERS = ["nearest", "bilinear", "bicubic"]


def resized(image: torch.Tensor, size: tuple[int, int], how: str) -> torch.Tensor:
    """Return torch's own resize."""
    if tuple(image.shape[1:]) == size:
        return image
    antialias = how != "nearest"
    # Channels as images of their own: some versions of torch cannot make one pixel of three channels.
    return interpolate(image[:, None], size, mode=how, antialias=antialias)[:, 0]


def decoded(data: bytes) -> torch.Tensor:
    return torch.from_numpy(_core.decode_jpeg(data))


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype is b.dtype and torch.equal(a, b)


# ---- resize


@settings(max_examples=60)
@given(SIDES, SIDES, SIDES, SIDES, st.sampled_from(FILTERS), st.integers(0, 99))
def test_resize_gives_torchs_pixels(h: int, w: int, oh: int, ow: int, how: str, seed: int) -> None:
    image = noise(h, w, seed)
    assert same(Resize((oh, ow), how)(image, key=KEY), resized(image, (oh, ow), how))


@pytest.mark.parametrize("how", FILTERS)
@pytest.mark.parametrize(
    ("h", "w", "size"),
    [(300, 417, (224, 224)), (500, 9, (3, 70)), (1, 1, (5, 7)), (33, 700, (16, 2)), (90, 90, (1, 1))],
)  # fmt: skip
def test_resize_of_larger_images(h: int, w: int, size: tuple[int, int], how: str) -> None:
    image = noise(h, w)
    assert same(Resize(size, how)(image), resized(image, size, how))


@settings(max_examples=80)
@given(SIDES, SIDES, SIDES, st.none() | st.integers(1, 60))
def test_an_int_is_the_shorter_side(h: int, w: int, size: int, extra: int | None) -> None:
    """The longer side keeps the aspect, rounded down, and is at most max_size."""
    most = None if extra is None else size + extra
    short, long = min(h, w), max(h, w)
    new_short, new_long = size, size * long // short
    if most is not None and new_long > most:
        new_short, new_long = max(most * new_short // new_long, 1), most
    wanted = (new_short, new_long) if h <= w else (new_long, new_short)
    assert tuple(Resize(size, max_size=most)(noise(h, w)).shape[1:]) == wanted
    assert Compose([Resize([size], max_size=most)]).steps.output_size(w, h) == wanted


def test_interpolation_by_an_enum_with_names() -> None:
    class Mode:
        value = "bicubic"

    image = noise(20, 30)
    assert same(Resize((7, 9), Mode())(image), resized(image, (7, 9), "bicubic"))


# ---- crops


def middle(image: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Return the centre: black borders first, the odd one right and below; halves round to even."""
    more_w, more_h = max(width - image.shape[2], 0), max(height - image.shape[1], 0)
    image = pad(image, [more_w // 2, (more_w + 1) // 2, more_h // 2, (more_h + 1) // 2])
    top, left = (
        round((have - want) / 2)
        for have, want in ((image.shape[1], height), (image.shape[2], width))
    )
    return image[:, top : top + height, left : left + width]


@settings(max_examples=80)
@given(SIDES, SIDES, SIDES, SIDES)
def test_center_crop(h: int, w: int, oh: int, ow: int) -> None:
    image = noise(h, w)
    assert same(CenterCrop((oh, ow))(image), middle(image, oh, ow))


def sides(padding: Any) -> list[int]:
    """Return padding as left, right, top, bottom."""
    values = [padding] if isinstance(padding, int) else list(padding)
    if len(values) == 4:
        left, top, right, bottom = values
        return [left, right, top, bottom]
    horizontal, vertical = values[0], values[-1]
    return [horizontal, horizontal, vertical, vertical]


@pytest.mark.parametrize("padding", [0, 3, [5], (2, 6), (0, 1, 7, 3), (0, 0, 0, 9)], ids=repr)
@pytest.mark.parametrize("size", [(8, 8), (14, 5), (1, 1)])
def test_random_crop_with_padding(padding: Any, size: tuple[int, int]) -> None:
    image = places(14, 11)
    padded = pad(image, sides(padding))
    windows = padded.unfold(1, size[0], 1).unfold(2, size[1], 1)  # 3, y, x, height, width
    windows = windows.permute(1, 2, 0, 3, 4).reshape(-1, 3, *size)
    crop = RandomCrop(size, padding=padding)
    for seed in range(30):
        got = crop(image, key=[seed])
        assert (windows == got).flatten(1).all(1).any()


def test_random_crop_pads_both_sides_of_an_axis_that_is_too_short() -> None:
    image = places(10, 30)
    padded = pad(image, [0, 0, 5, 5])
    seen = set()
    for seed in range(300):
        got = RandomCrop((15, 30), pad_if_needed=True)(image, key=[seed])
        tops = [t for t in range(6) if torch.equal(padded[:, t : t + 15], got)]
        assert len(tops) == 1
        seen.update(tops)
    assert seen == set(range(6))
    with pytest.raises(InvalidArgumentError, match=r"30 x 15.*30 x 10.*pad_if_needed=True"):
        RandomCrop((15, 30))(image)
    assert RandomCrop((15, 30), padding=(0, 3))(image).shape == (3, 15, 30)


def test_random_crop_is_anywhere_with_equal_chance() -> None:
    image, count = places(12, 9), 1400
    corners = [RandomCrop((6, 3))(image, key=[9, n])[:2, 0, 0].tolist() for n in range(count)]
    x, y = np.bincount([c[0] for c in corners]), np.bincount([c[1] for c in corners])
    assert len(x) == len(y) == 7
    for hits in (x, y):  # 200 expected, five standard deviations
        assert abs(hits - count / 7).max() < 5 * (count / 7) ** 0.5


def box_of(image: torch.Tensor, step: RandomResizedCrop, key: list[int]) -> tuple[int, ...]:
    """Return x, y, width, height of the crop: with "nearest" and no shrinking every pixel tells its place."""
    got = step(image, key=key)
    x, y = got[0, 0].tolist(), got[1, :, 0].tolist()
    return x[0], y[0], x[-1] - x[0] + 1, y[-1] - y[0] + 1


def test_random_resized_crop_area_ratio_and_place() -> None:
    image, count = places(200, 240), 1500
    step = RandomResizedCrop(256, scale=(0.1, 0.4), ratio=(0.5, 2.0), interpolation="nearest")
    boxes = np.array([box_of(image, step, [5, n]) for n in range(count)], float)
    x, y, w, h = boxes.T
    area, ratio = w * h / (200 * 240), np.log(w / h)
    assert 0.097 < area.min() < 0.11
    assert 0.39 < area.max() < 0.403
    assert abs(area.mean() - 0.25) < 0.015, "uniform area"
    assert abs(ratio.mean()) < 0.07, "log-uniform ratio, the same for wide and high"
    assert abs(ratio.std() - np.log(4) / 12**0.5) < 0.03
    assert -0.72 < ratio.min() < -0.65
    for start, room in ((x, 240 - w), (y, 200 - h)):
        relative = start / np.maximum(room, 1)
        assert abs(relative.mean() - 0.5) < 0.05
        assert (start >= 0).all()
        assert (start <= room).all()


@pytest.mark.parametrize("how", ["bilinear", "bicubic"])
def test_random_resized_crop_is_a_crop_then_torchs_resize(how: str) -> None:
    place, image = places(90, 120), noise(90, 120)
    for seed in range(25):
        x, y, w, h = box_of(place, RandomResizedCrop(256, interpolation="nearest"), [seed])
        wanted = resized(image[:, y : y + h, x : x + w], (24, 32), how)
        assert same(RandomResizedCrop((24, 32), interpolation=how)(image, key=[seed]), wanted)


@pytest.mark.parametrize(
    ("size", "ratio", "box"),
    [((10, 200), (0.9, 1.1), (94, 0, 11, 10)), ((200, 10), (0.9, 1.1), (0, 94, 10, 11))],
)
def test_a_random_resized_crop_that_never_fits_takes_the_middle(
    size: tuple[int, int], ratio: tuple[float, float], box: tuple[int, ...]
) -> None:
    step = RandomResizedCrop(256, scale=(0.9, 1.0), ratio=ratio, interpolation="nearest")
    assert {box_of(places(*size), step, [n]) for n in range(5)} == {box}


# ---- flip and colours


def test_flip_mirrors_with_its_probability() -> None:
    image = noise(3, 4)
    mirrored = image.flip(2)
    assert same(RandomHorizontalFlip(1.0)(image), mirrored)
    assert same(RandomHorizontalFlip(0.0)(image), image)
    results = [RandomHorizontalFlip(0.3)(image, key=[n]) for n in range(1000)]
    flips = sum(torch.equal(r, mirrored) for r in results)
    assert abs(flips - 300) < 75
    assert all(torch.equal(r, mirrored) or torch.equal(r, image) for r in results)


def bytes_of(values: np.ndarray) -> torch.Tensor:
    """Return float values (3, H, W) as bytes: limited, then the fraction is dropped."""
    return torch.from_numpy(np.clip(values, 0, 255).astype(np.uint8))


def grey(image: torch.Tensor) -> np.ndarray:
    """Return the luma of ITU-R 601 as whole numbers, in single precision."""
    r, g, b = image.numpy().astype(np.float32)
    return np.floor(np.float32(0.2989) * r + np.float32(0.587) * g + np.float32(0.114) * b)


def mixed(image: torch.Tensor, other: Any, amount: float) -> torch.Tensor:
    values = image.numpy().astype(np.float32)
    return bytes_of(values * np.float32(amount) + np.float32(other) * np.float32(1 - amount))


def hue_turned(image: torch.Tensor, amount: float) -> torch.Tensor:
    out = np.empty(image.shape)
    for y, x in np.ndindex(*image.shape[1:]):
        h, s, v = colorsys.rgb_to_hsv(*(image[:, y, x].numpy() / 255))
        out[:, y, x] = colorsys.hsv_to_rgb((h + amount) % 1, s, v)
    return bytes_of(out * 255.999)


def off_by(a: torch.Tensor, b: torch.Tensor) -> int:
    return int((a.int() - b.int()).abs().max())


@pytest.mark.parametrize("amount", [0.0, 0.3, 0.999, 1.5, 4.0])
def test_brightness_contrast_and_saturation(amount: float) -> None:
    image, fixed = noise(13, 17), (amount, amount)
    black, mean = 0.0, grey(image).astype(np.float64).mean()
    assert off_by(ColorJitter(brightness=fixed)(image), mixed(image, black, amount)) == 0
    assert off_by(ColorJitter(contrast=fixed)(image), mixed(image, mean, amount)) <= 1
    assert off_by(ColorJitter(saturation=fixed)(image), mixed(image, grey(image), amount)) <= 1


@pytest.mark.parametrize("amount", [-0.5, -0.21, 0.1, 0.4])
def test_hue(amount: float) -> None:
    image = noise(15, 11)
    image[:, 0] = image[0, 0]  # a grey row has no hue
    got = ColorJitter(hue=(amount, amount))(image)
    assert off_by(got, hue_turned(image, amount)) <= 1
    assert torch.equal(got[:, 0], image[:, 0])


def test_amounts_of_a_jitter_are_uniform_and_independent() -> None:
    image = torch.full((3, 1, 1), 100, dtype=torch.uint8)
    step = ColorJitter(brightness=0.4)
    values = np.array([int(step(image, key=[n])[0]) for n in range(2000)])
    assert values.min() in range(60, 63)
    assert values.max() in range(137, 141)
    assert abs(values.mean() - 99.5) < 2.5
    assert abs(values.std() - 80 / 12**0.5) < 1.5
    wide = [int(ColorJitter(brightness=3.0)(image, key=[n])[0]) for n in range(50)]
    assert min(wide) >= 0, "never below 0"


def test_changes_of_a_jitter_come_in_every_order() -> None:
    image = noise(5, 5, seed=3)
    both = ColorJitter(brightness=(2.0, 2.0), saturation=(0.3, 0.3))
    bright, pale = ColorJitter(brightness=(2.0, 2.0)), ColorJitter(saturation=(0.3, 0.3))
    orders = [pale(bright(image)), bright(pale(image))]
    hits = [0, 0]
    for n in range(400):
        got = both(image, key=[n])
        hits[[torch.equal(got, o) for o in orders].index(True)] += 1
    assert min(hits) > 150
    every = ColorJitter((2.0, 2.0), (1.7, 1.7), (0.3, 0.3), (0.2, 0.2))
    assert len({every(image, key=[n]).numpy().tobytes() for n in range(400)}) > 12


@pytest.mark.parametrize("channels", [1, 3])
def test_grayscale(channels: int) -> None:
    image = noise(9, 14)
    got = Grayscale(channels)(image)
    wanted = torch.from_numpy(grey(image).astype(np.uint8)).expand(channels, 9, 14)
    assert got.shape == wanted.shape
    assert off_by(got, wanted) == 0


# ---- numbers


DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("last", [False, True])
def test_dtypes_scale_and_normalise(dtype: torch.dtype, last: bool) -> None:
    image = noise(7, 37)
    real = Compose([ToDtype(torch.float32, scale=True), Normalize(MEAN, STD)])(image)
    wanted = (image.double() / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(
        3, 1, 1
    )
    assert torch.allclose(real.double(), wanted, rtol=0, atol=2e-6)
    got = Compose([ToDtype(dtype, scale=True), Normalize(MEAN, STD)], channels_last=last)(image)
    assert same(got, real.to(dtype)), "computed in float32, rounded once"
    scaled = Compose([ToDtype(dtype, scale=True)], channels_last=last)(image)
    assert same(scaled, (image.float() * torch.tensor(1 / 255)).to(dtype))
    plain = Compose([ToDtype(str(dtype).removeprefix("torch."))], channels_last=last)(image)
    assert same(plain, image.to(dtype))


def test_one_channel_is_normalised_alone() -> None:
    steps = [Grayscale(1), ToDtype(torch.float32, scale=True), Normalize([0.5], [0.25])]
    got, image = Compose(steps)(noise(6, 5)), noise(6, 5)
    assert got.shape == (1, 6, 5)
    wanted = (Grayscale(1)(image).float() / 255 - 0.5) / 0.25
    assert torch.allclose(got, wanted, atol=1e-6)
    assert torch.equal(Compose(steps, channels_last=True)(image), got)


def test_form_of_the_result() -> None:
    image = noise(6, 9)
    for last in (False, True):
        compose = Compose([Resize((4, 8))], channels_last=last)
        got = compose(image)
        assert (got.shape, got.dtype) == ((3, 4, 8), torch.uint8)
        form = torch.channels_last if last else torch.contiguous_format
        assert got[None].is_contiguous(memory_format=form)
        assert torch.equal(got, Resize((4, 8))(image))
        assert (compose.dtype, compose.channels) == ("uint8", 3)
    mirrored = Compose([ToDtype("float32", scale=True), RandomHorizontalFlip(1.0)])(image)
    assert torch.equal(mirrored, image.flip(2).float() * torch.tensor(1 / 255))
    assert torch.equal(Compose([])(image), image)
    nested = Compose([Compose([Resize((4, 8))]), ToDtype("uint8")])
    assert [type(t) for t in nested.transforms] == [Resize, ToDtype]
    assert "Resize" in repr(nested)


# ---- sources


def chain() -> list[Transform]:
    return [
        RandomResizedCrop((24, 20), scale=(0.3, 1.0)),
        RandomHorizontalFlip(),
        ColorJitter(0.4, 0.4, 0.4, 0.1),
    ]


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_every_source_gives_the_same_pixels(mode: str) -> None:
    data = jpeg(50, 61, mode=mode)
    tensor = decoded(data)
    array = np.ascontiguousarray(tensor.permute(1, 2, 0).numpy())
    sources = [
        data, bytearray(data), memoryview(data), tensor, array, Image.fromarray(array),
        tensor.flip(2).flip(2), array[::-1][::-1], tensor.permute(1, 2, 0).contiguous().permute(2, 0, 1),
    ]  # fmt: skip
    for steps in ([], [Resize(17)], chain(), [*chain(), ToDtype("float16", scale=True)]):
        for last in (False, True):
            compose = Compose(steps, channels_last=last)
            results = [compose(source, key=KEY) for source in sources]
            assert all(same(result, results[0]) for result in results)
    grey_image = Image.fromarray(array[:, :, 0])
    assert torch.equal(Compose([])(grey_image), tensor[:1].expand(3, -1, -1))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_comes_first(orientation: int) -> None:
    data = jpeg(33, 47, exif=turned(orientation))
    whole = decoded(data)
    assert whole.shape == ((3, 33, 47) if orientation < 5 else (3, 47, 33))
    for steps in ([], [CenterCrop((20, 9))], [CenterCrop(60)], [Resize(12)], chain()):
        compose = Compose(steps)
        assert same(compose(data, key=KEY), compose(whole, key=KEY))


# ---- dice


def test_the_key_decides() -> None:
    image = noise(40, 40)
    compose = Compose(chain())
    by_key = {
        key: compose(image, key=key) for key in [(1,), (2,), (1, 0), (1, 1), (0, 1), (1, 1, 5)]
    }
    for key, result in by_key.items():
        assert same(compose(image, key=list(key)), result)
        assert same(Compose(chain())(image, key=key), result)
    assert len({r.numpy().tobytes() for r in by_key.values()}) == len(by_key)


def test_without_a_key_torchs_generator_decides() -> None:
    image = noise(40, 40)
    compose = Compose(chain())
    torch.manual_seed(5)
    first = [compose(image) for _ in range(4)]
    torch.manual_seed(5)
    assert all(same(compose(image), one) for one in first)
    assert len({r.numpy().tobytes() for r in first}) == 4


def test_a_step_added_at_the_end_changes_nothing_before_it() -> None:
    image = noise(40, 40)
    longer = Compose([*chain(), RandomHorizontalFlip(1.0)])
    assert same(longer(image, key=KEY), Compose(chain())(image, key=KEY).flip(2))


def test_copies_and_pickles_do_the_same() -> None:
    compose = Compose([*chain(), ToDtype(torch.bfloat16, scale=True)], channels_last=True)
    image = noise(40, 40)
    wanted = compose(image, key=KEY)
    for twin in (pickle.loads(pickle.dumps(compose)), copy.deepcopy(compose), copy.copy(compose)):
        assert same(twin(image, key=KEY), wanted)
        assert repr(twin) == repr(compose)
    step = pickle.loads(pickle.dumps(chain()[0]))
    assert step == chain()[0]


def test_as_compose() -> None:
    compose = Compose([Resize(4)])
    assert vision.as_compose(compose) is compose
    single = vision.as_compose(Resize(4))
    assert single is not None
    assert single.transforms == [Resize(4)]
    assert vision.as_compose(lambda x: x) is None


# ---- refusals


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ([ToDtype("float32"), Resize(4)], "Resize works on 8-bit pixels.*before ToDtype and Normalize"),
        ([ToDtype("float16"), CenterCrop(4)], "CenterCrop works on 8-bit pixels"),
        ([ToDtype("float32"), RandomCrop(4)], "RandomCrop works"),
        ([ToDtype("float32"), RandomResizedCrop(4)], "RandomResizedCrop works"),
        ([ToDtype("float32"), ColorJitter(0.1)], "ColorJitter works"),
        ([ToDtype("float32"), Grayscale()], "Grayscale works"),
        ([ToDtype("float32"), ToDtype("uint8")], "would lose what was normalised"),
        ([Normalize(MEAN, STD)], r"put ToDtype\(torch.float32, scale=True\) before it"),
        ([ToDtype("float32"), Normalize([0.5], [0.5])], "3 channels, mean 1 and std 1 numbers"),
        ([Grayscale(), ToDtype("float32"), Normalize(MEAN, STD)], "1 channels, mean 3 and std 3"),
        ([ToDtype("float32"), Normalize(MEAN, [1.0, 0.0, 1.0])], "not zero"),
        ([ToDtype("float32"), Normalize([float("nan"), 0, 0], STD)], "must be finite"),
        ([ToDtype("float32"), Normalize(0.5, 0.5)], "mean=0.5.*one number per channel"),
        ([ToDtype(torch.float64)], r"torch.float64.*uint8, float32, float16, bfloat16"),
        ([Grayscale(2)], r"num_output_channels=2\): 1 or 3"),
        ([Resize(0)], "size at least 1"),
        ([Resize(9, max_size=9)], "max_size must be larger than size"),
        ([Resize((9, 9), max_size=20)], "max_size needs a size of one int"),
        ([Resize((9, 0))], "positive int"),
        ([Resize((9, 8, 7))], r"pair \(height, width\)"),
        ([Resize(None)], "size=None must be a positive int"),
        ([CenterCrop(2.5)], "size=2.5 must be a positive int"),
        ([CenterCrop(-3)], "size=-3 must be a positive int"),
        ([RandomCrop((4, True))], "positive int"),
        ([RandomCrop(4, padding=(1, 2, 3))], "one, two or four ints"),
        ([RandomCrop(4, padding=-1)], "ints of at least 0"),
        ([RandomCrop(4, padding=0.5)], "padding=0.5 must be one, two or four ints"),
        ([Resize(4, "lanczos")], "'lanczos' is unknown; use 'nearest', 'bilinear' or 'bicubic'"),
        ([RandomResizedCrop(1 << 21)], "impossible"),
        ([RandomResizedCrop(4, scale=(0.5, 0.2))], "scale from 0.5.* to 0.2.* is no range"),
        ([RandomResizedCrop(4, scale=(0.5, 1.2))], "scale from"),
        ([RandomResizedCrop(4, scale=0.5)], "scale=0.5"),
        ([RandomResizedCrop(4, ratio=(0.0, 1.0))], "ratio from"),
        ([RandomHorizontalFlip(1.5)], "^p from 1.5"),
        ([ColorJitter(brightness=-0.1)], "brightness=-0.1.*must not be negative"),
        ([ColorJitter(contrast=(2.0, 1.0))], "contrast from 2.0"),
        ([ColorJitter(saturation=(1.0, 2.0, 3.0))], r"saturation=\(1.0, 2.0, 3.0\)"),
        ([ColorJitter(hue=0.6)], "hue from -0.6"),
        ([ColorJitter(hue=-0.2)], "hue=-0.2.*must not be negative"),
        ([lambda image: image], "transforms of stoker.vision, found <function"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_impossible_steps_are_refused_at_once(steps: list[Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        Compose(steps)


@pytest.mark.parametrize(
    "image",
    [
        noise(4, 5).float(), noise(4, 5)[:1], noise(4, 5)[0], torch.zeros((3, 0, 4), dtype=torch.uint8),
        np.zeros((3, 5, 4), np.uint8), np.zeros((5, 4, 3)), np.zeros(30, np.uint8), "photo.jpg", 7, None,
    ],
    ids=lambda image: f"{type(image).__name__}{tuple(getattr(image, 'shape', ()))}",
)  # fmt: skip
def test_other_images_are_refused(image: Any) -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"expected a JPEG file, a uint8 tensor.*, found"
    ):
        Resize(4)(image)


def test_damaged_files_are_refused() -> None:
    data = jpeg(40, 40)
    for bad in (b"", b"no image", data[: len(data) // 2]):
        with pytest.raises(CorruptDataError):
            Resize((4, 4))(bad)
    assert opened(data).size == (40, 40)
    assert Resize((4, 4))(data).shape == (3, 4, 4), "usable after an error"
