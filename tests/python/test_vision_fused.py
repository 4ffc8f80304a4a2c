# SPDX-License-Identifier: Apache-2.0
"""Image steps run as one pass give the pixels of the same steps one after another."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import interpolate

from pictures import jpeg, noise
from stoker import _core
from stoker.vision import (
    CenterCrop,
    ColorJitter,
    Compose,
    Grayscale,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    Transform,
)

STEPS: list[Transform] = [
    Resize((19, 26)), Resize(15), Resize((40, 33), "bicubic"), Resize(11, max_size=14), CenterCrop((17, 12)),
    CenterCrop((52, 31)), RandomCrop((13, 14), padding=4, pad_if_needed=True), RandomResizedCrop(21),
    RandomResizedCrop((9, 30), interpolation="bicubic"), ColorJitter(0.5, 0.5, 0.5, 0.2), Grayscale(3),
]  # fmt: skip
FLIPS = [RandomHorizontalFlip(0.5), RandomHorizontalFlip(1.0)]
IDENTITY = RandomHorizontalFlip(0.0)
SHAPE = tuple[int, int]


def decoded(data: bytes) -> torch.Tensor:
    return torch.from_numpy(_core.decode_jpeg(data))


def one_by_one(steps: list[Transform], image: torch.Tensor, key: list[int]) -> torch.Tensor:
    """Return the image after every step in a run of its own; the number of a step picks its dice."""
    for number, step in enumerate(steps):
        image = Compose([*[IDENTITY] * number, step])(image, key=key)
    return image


@settings(max_examples=150)
@given(st.lists(st.sampled_from(STEPS), max_size=5), st.integers(0, 9), st.integers(0, 1 << 63))
def test_fused_steps(steps: list[Transform], seed: int, key: int) -> None:
    data = jpeg(30 + 7 * seed, 90 - 6 * seed, seed)
    whole = decoded(data)
    wanted = one_by_one(steps, whole, [key, 3])
    assert torch.equal(Compose(steps)(data, key=[key, 3]), wanted)
    assert torch.equal(Compose(steps)(whole, key=[key, 3]), wanted)


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(STEPS), max_size=2),
    st.lists(st.sampled_from([*FLIPS, *FLIPS, *STEPS]), max_size=4),
    st.integers(0, 1 << 63),
)
def test_fused_flips(first: list[Transform], then: list[Transform], key: int) -> None:
    steps, data = [*first, *then], jpeg(44, 51)
    assert torch.equal(Compose(steps)(data, key=[key]), one_by_one(steps, decoded(data), [key]))


@pytest.mark.parametrize("how", ["bilinear", "bicubic"])
@pytest.mark.parametrize(("shape", "size"), [((375, 500), (256, 341)), ((480, 321), (382, 256))])
def test_a_crop_of_a_resized_image_is_that_of_torch(how: str, shape: SHAPE, size: SHAPE) -> None:
    image = noise(*shape)
    whole = interpolate(image[None], size, mode=how, antialias=True)[0]
    fused = Compose([Resize(size, how), CenterCrop(224)])
    assert torch.equal(fused(image), CenterCrop(224)(whole))


@pytest.mark.parametrize("how", ["bilinear", "bicubic"])
def test_a_crop_of_an_enlarged_image_is_that_of_torch(how: str) -> None:
    image = noise(15, 17)
    whole = interpolate(image[None], (19, 26), mode=how, antialias=True)[0]
    fused = Compose([Resize((19, 26), how), CenterCrop(10)])
    assert torch.equal(fused(image), CenterCrop(10)(whole))


@pytest.mark.parametrize(
    "steps",
    [
        [Resize((19, 26)), CenterCrop((12, 8)), CenterCrop((15, 12))],
        [CenterCrop((42, 10)), CenterCrop((41, 8)), CenterCrop((45, 12))],
    ],
)
def test_a_border_after_a_crop_is_black(steps: list[Transform]) -> None:
    image = noise(40, 30)
    assert torch.equal(Compose(steps)(image), one_by_one(steps, image, [0]))


@pytest.mark.parametrize("how", ["nearest", "bilinear", "bicubic"])
def test_a_flip_before_a_resize(how: str) -> None:
    antialias = how != "nearest"
    for width in (10, 13, 29):
        image = noise(11, width)
        steps: list[Transform] = [RandomHorizontalFlip(1.0), Resize((7, 8), how)]
        mirrored = image.flip(2)[None]
        wanted = interpolate(mirrored, (7, 8), mode=how, antialias=antialias)[0]
        assert torch.equal(Compose(steps)(image), wanted)
