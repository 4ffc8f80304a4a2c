# SPDX-License-Identifier: Apache-2.0
"""Image transforms that run inside the decoder.

Names, arguments and definitions are those of ``torchvision.transforms.v2`` for 8-bit RGB images; resizes are antialiased
and give torch's pixels to the bit. Give a `Compose` to a leaf of JPEG images, and decoding, cropping, resizing,
flipping and normalising become one pass over the pixels that are needed::

    vision.Compose(
        [
            vision.RandomResizedCrop(224),
            vision.RandomHorizontalFlip(),
            vision.ToDtype(torch.float32, scale=True),
            vision.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
        ]
    )

Random numbers are a function of (seed, epoch, position of the sample, leaf, step), so a sample is transformed alike by
any number of threads, workers and ranks, and after a resume.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stoker import _core
from stoker.exceptions import InvalidArgumentError

Size = int | Sequence[int]
Factor = float | tuple[float, float]
_DTYPES = ("uint8", "float32", "float16", "bfloat16")
_MAX_BYTE = 255.0


@dataclass(slots=True)
class _Format:
    """The form of the result, as the steps so far leave it: value = pixel * scale + offset."""

    dtype: str = "uint8"
    channels: int = 3
    scale: list[float] = field(default_factory=lambda: [1.0] * 3)
    offset: list[float] = field(default_factory=lambda: [0.0] * 3)


class Transform(ABC):
    """One step. Call it on one image as `Compose` is called."""

    def __call__(self, image: Any, *, key: Sequence[int] | None = None) -> Any:
        """Return the transformed image; see `Compose.__call__`."""
        return Compose([self])(image, key=key)

    @abstractmethod
    def _add(self, steps: _core.ImageSteps, form: _Format) -> None:
        """Append this step."""


class _PixelTransform(Transform):
    """A step that works on 8-bit pixels."""

    def _check(self, form: _Format) -> None:
        if form.dtype != "uint8":
            msg = (
                f"{type(self).__name__} works on 8-bit pixels: put it before ToDtype and Normalize."
            )
            raise InvalidArgumentError(msg)


@dataclass(frozen=True)
class RandomResizedCrop(_PixelTransform):
    """A crop of random area and aspect ratio, resized to ``size``.

    Args:
        size: of the result: (height, width), or one int for a square.
        scale: lower and upper bound of the area, as a part of the image's.
        ratio: lower and upper bound of width / height.
        interpolation: "nearest", "bilinear" or "bicubic".
    """

    size: Size
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0)
    interpolation: Any = "bilinear"

    def _add(self, steps: _core.ImageSteps, form: _Format) -> None:
        self._check(form)
        steps.add_random_resized_crop(
            _square(self.size),
            _pair("RandomResizedCrop", "scale", self.scale),
            _pair("RandomResizedCrop", "ratio", self.ratio),
            _interpolation(self.interpolation),
        )


@dataclass(frozen=True)
class Resize(_PixelTransform):
    """To another size, antialiased.

    Args:
        size: (height, width); or one int: the length of the shorter side, the aspect ratio stays.
        interpolation: "nearest", "bilinear" or "bicubic".
        max_size: with an int: the longer side is at most this long.
    """

    size: Size
    interpolation: Any = "bilinear"
    max_size: int | None = None

    def _add(self, steps: _core.ImageSteps, form: _Format) -> None:
        self._check(form)
        name = _interpolation(self.interpolation)
        size = self.size
        if isinstance(size, Sequence) and len(size) == 1:
            size = size[0]
        if isinstance(size, int):
            if size < 1 or (self.max_size is not None and self.max_size <= size):
                msg = f"Resize(size={size}, max_size={self.max_size}): max_size must be larger than size, and size at least 1."
                raise InvalidArgumentError(msg)
            steps.add_resize((0, 0), size, self.max_size or 0, name)
            return
        if self.max_size is not None:
            msg = "Resize: max_size needs a size of one int."
            raise InvalidArgumentError(msg)
        steps.add_resize(_square(size), 0, 0, name)


@dataclass(frozen=True)
class CenterCrop(_PixelTransform):
    """The middle of the image, with black borders where the image is smaller.

    Args:
        size: (height, width), or one int for a square.
    """

    size: Size

    def _add(self, steps: _core.ImageSteps, form: _Format) -> None:
        self._check(form)
        steps.add_center_crop(_square(self.size))


@dataclass(frozen=True)
class RandomCrop(_PixelTransform):
    """A part of the image, anywhere.

    Args:
        size: (height, width), or one int for a square.
        padding: black pixels added before: one int for all sides, (horizontal, vertical), or (left, top, right,
            bottom).
        pad_if_needed: add more on both sides of an axis that is too short, instead of failing.
    """

    size: Size
    padding: Size | None = None
    pad_if_needed: bool = False

    def _add(self, steps: _core.ImageSteps, form: _Format) -> None:
        self._check(form)
        steps.add_random_crop(_square(self.size), _padding(self.padding), self.pad_if_needed)


@dataclass(frozen=True)
class RandomHorizontalFlip(Transform):
    """Mirror left and right.

    Args:
        p: probability.
    """

    p: float = 0.5

    def _add(self, steps: _core.ImageSteps, form: _Format) -> None:  # noqa: ARG002 - pixels of any type can be mirrored
        steps.add_flip(self.p)


@dataclass(frozen=True)
class ColorJitter(_PixelTransform):
    """Change brightness, contrast, saturation and hue by random amounts, in random order.

    Args:
        brightness, contrast, saturation: f: an amount from max(0, 1 - f) to 1 + f; or (lowest, highest). 0: leave it.
        hue: h: turned by -h to h of the colour circle, h at most 0.5; or (lowest, highest).
    """

    brightness: Factor = 0.0
    contrast: Factor = 0.0
    saturation: Factor = 0.0
    hue: Factor = 0.0

    def _add(self, steps: _core.ImageSteps, form: _Format) -> None:
        self._check(form)
        steps.add_color_jitter(
            _around_one("brightness", self.brightness),
            _around_one("contrast", self.contrast),
            _around_one("saturation", self.saturation),
            _around_zero("hue", self.hue),
        )


@dataclass(frozen=True)
class Grayscale(_PixelTransform):
    """Grey values.

    Args:
        num_output_channels: 1, or 3 equal ones.
    """

    num_output_channels: int = 1

    def _add(self, steps: _core.ImageSteps, form: _Format) -> None:
        self._check(form)
        if self.num_output_channels not in (1, 3):
            msg = f"Grayscale(num_output_channels={self.num_output_channels}): 1 or 3."
            raise InvalidArgumentError(msg)
        form.channels = self.num_output_channels
        steps.add_grayscale()


@dataclass(frozen=True)
class ToDtype(Transform):
    """Another type of numbers.

    Args:
        dtype: ``torch.uint8``, ``float32``, ``float16`` or ``bfloat16``, or its name.
        scale: from 0..255 to 0..1.
    """

    dtype: Any
    scale: bool = False

    def _add(self, steps: _core.ImageSteps, form: _Format) -> None:  # noqa: ARG002 - changes only the form
        name = str(self.dtype).removeprefix("torch.")
        if name not in _DTYPES:
            msg = f"ToDtype({self.dtype!r}): images can be {', '.join(_DTYPES)}."
            raise InvalidArgumentError(msg)
        if form.dtype != "uint8" and name == "uint8":
            msg = "ToDtype(uint8) after a float type would lose what was normalised."
            raise InvalidArgumentError(msg)
        if form.dtype == "uint8" and name != "uint8" and self.scale:
            form.scale = [1.0 / _MAX_BYTE] * 3
        form.dtype = name


@dataclass(frozen=True)
class Normalize(Transform):
    """(value - mean) / std per channel. Computed in float32 whatever the type of the result.

    Args:
        mean, std: one number per channel.
    """

    mean: Sequence[float]
    std: Sequence[float]

    def _add(self, steps: _core.ImageSteps, form: _Format) -> None:  # noqa: ARG002 - changes only the form
        if form.dtype == "uint8":
            msg = "Normalize needs float pixels: put ToDtype(torch.float32, scale=True) before it."
            raise InvalidArgumentError(msg)
        if np.ndim(self.mean) != 1 or np.ndim(self.std) != 1:
            msg = f"Normalize(mean={self.mean!r}, std={self.std!r}): each must hold one number per channel."
            raise InvalidArgumentError(msg)
        mean, std = list(map(float, self.mean)), list(map(float, self.std))
        if len(mean) != form.channels or len(std) != form.channels:
            msg = f"Normalize: the image has {form.channels} channels, mean {len(mean)} and std {len(std)} numbers."
            raise InvalidArgumentError(msg)
        if not all(map(math.isfinite, (*mean, *std))) or 0.0 in std:
            msg = f"Normalize: mean {mean} must be finite, std {std} finite and not zero."
            raise InvalidArgumentError(msg)
        for c in range(form.channels):
            form.scale[c] /= std[c]
            form.offset[c] = (form.offset[c] - mean[c]) / std[c]


class Compose:
    """Transforms one after another, run as one pass.

    Args:
        transforms: in order. Those that work on pixels come before `ToDtype` and `Normalize`.
        channels_last: the result's memory is (height, width, channels); its shape is (channels, height, width) either
            way, as with ``torch.channels_last``.

    Raises:
        InvalidArgumentError: a transform that is none of this module, in an order that cannot work, or with
            impossible arguments.
    """

    def __init__(
        self, transforms: Sequence[Transform | Compose], *, channels_last: bool = False
    ) -> None:
        """Check the transforms."""
        self.transforms: list[Transform] = []
        for one in transforms:
            if isinstance(one, Compose):
                self.transforms.extend(one.transforms)
            elif isinstance(one, Transform):
                self.transforms.append(one)
            else:
                msg = f"Compose takes transforms of stoker.vision, found {one!r}. Give other functions to the dataset as transform=function."
                raise InvalidArgumentError(msg)
        self.channels_last = channels_last
        self._built: tuple[_core.ImageSteps, _Format] | None = None
        self._build()

    def __repr__(self) -> str:
        return f"Compose({self.transforms!r}, channels_last={self.channels_last})"

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the transforms; the native steps are built anew."""
        return {**self.__dict__, "_built": None}

    def _build(self) -> tuple[_core.ImageSteps, _Format]:
        if self._built is None:
            steps, form = _core.ImageSteps(), _Format()
            for transform in self.transforms:
                transform._add(steps, form)  # noqa: SLF001 - one module
            steps.set_format(form.dtype, self.channels_last, form.channels, form.scale, form.offset)
            self._built = steps, form
        return self._built

    @property
    def steps(self) -> _core.ImageSteps:
        """The native steps."""
        return self._build()[0]

    @property
    def dtype(self) -> str:
        """Name of the result's dtype."""
        return self._build()[1].dtype

    @property
    def channels(self) -> int:
        """Channels of the result, 1 or 3."""
        return self._build()[1].channels

    def __call__(self, image: Any, *, key: Sequence[int] | None = None) -> Any:
        """Return the transformed image, a tensor (channels, height, width).

        Args:
            image: the bytes of a JPEG file, a uint8 tensor (3, height, width), a uint8 array (height, width, 3), or a
                Pillow image.
            key: what the random numbers depend on; None: drawn from torch's generator.
        """
        import torch

        numbers = [int(torch.randint(1 << 62, ()).item())] if key is None else list(key)
        if isinstance(image, (bytes, bytearray, memoryview)):
            array = self.steps.run_jpeg(image, numbers)
        else:
            pixels = _packed_pixels(image)
            height, width, _ = pixels.shape
            array = self.steps.run_rgb(pixels, width, height, numbers)
        tensor = torch.from_numpy(array)
        if self.dtype == "bfloat16":
            tensor = tensor.view(torch.bfloat16)
        return tensor.permute(2, 0, 1) if self.channels_last else tensor


def _packed_pixels(image: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return an image as a uint8 array (height, width, 3)."""
    if hasattr(image, "permute"):
        found = f"a tensor {tuple(image.shape)} of {image.dtype}"
        array = image.permute(1, 2, 0).numpy() if image.ndim == 3 else np.empty(0)  # noqa: PLR2004 - C, H, W
    elif hasattr(image, "convert"):
        found, array = f"a Pillow image of mode {image.mode}", np.asarray(image.convert("RGB"))
    else:
        array = np.asarray(image)
        found = f"{type(image).__name__} {array.shape} of {array.dtype}"
    if array.ndim != 3 or array.shape[-1] != 3 or array.dtype != np.uint8 or array.size == 0:  # noqa: PLR2004 - H, W, C
        msg = f"expected a JPEG file, a uint8 tensor (3, H, W), a uint8 array (H, W, 3) or a Pillow image, found {found}."
        raise InvalidArgumentError(msg)
    return np.ascontiguousarray(array)


def as_compose(transform: Any) -> Compose | None:
    """Return a `Compose` for a transform of this module, None for anything else."""
    if isinstance(transform, Compose):
        return transform
    return Compose([transform]) if isinstance(transform, Transform) else None


def _square(size: Size) -> tuple[int, int]:
    values = (size, size) if isinstance(size, int) else _listed(size)
    if len(values) == 1:
        values = (*values, *values)
    if len(values) != 2 or not all(type(v) is int and v > 0 for v in values):  # noqa: PLR2004 - height, width
        msg = f"size={size!r} must be a positive int, or a pair (height, width) of them."
        raise InvalidArgumentError(msg)
    return values[0], values[1]


def _padding(padding: Size | None) -> list[int]:
    if padding is None:
        return [0, 0, 0, 0]
    values = [padding] * 4 if isinstance(padding, int) else list(_listed(padding))
    if len(values) == 1:
        values *= 4
    elif len(values) == 2:  # noqa: PLR2004 - horizontal, vertical
        values = [values[0], values[1], values[0], values[1]]
    if len(values) != 4 or not all(type(v) is int and 0 <= v < 1 << 20 for v in values):  # noqa: PLR2004 - four sides
        msg = f"padding={padding!r} must be one, two or four ints of at least 0."
        raise InvalidArgumentError(msg)
    return values


def _listed(value: Any) -> tuple[Any, ...]:
    """Return a sequence as a tuple, () for anything else."""
    return tuple(value) if isinstance(value, Sequence) else ()


def _pair(step: str, name: str, value: Any) -> tuple[float, float]:
    if np.shape(value) != (2,):
        msg = f"{step}({name}={value!r}): give two numbers, (lowest, highest)."
        raise InvalidArgumentError(msg)
    return float(value[0]), float(value[1])


def _interpolation(name: Any) -> str:
    """Accept a name or torchvision's enum, whose ``value`` is the name."""
    return str(getattr(name, "value", name))


def _around_one(name: str, factor: Factor) -> tuple[float, float] | None:
    if isinstance(factor, (int, float)):
        if factor < 0:
            msg = f"ColorJitter({name}={factor}): must not be negative."
            raise InvalidArgumentError(msg)
        low, high = max(0.0, 1.0 - factor), 1.0 + factor
    else:
        low, high = _pair("ColorJitter", name, factor)
    return None if low == high == 1.0 else (low, high)


def _around_zero(name: str, factor: Factor) -> tuple[float, float] | None:
    if isinstance(factor, (int, float)):
        if factor < 0:
            msg = f"ColorJitter({name}={factor}): must not be negative."
            raise InvalidArgumentError(msg)
        low, high = -float(factor), float(factor)
    else:
        low, high = _pair("ColorJitter", name, factor)
    return None if low == high == 0.0 else (low, high)
