# SPDX-License-Identifier: Apache-2.0
"""Small pictures for tests: noise, places, JPEG files."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import torch
from PIL import Image


def noise(height: int, width: int, seed: int = 0) -> torch.Tensor:
    """Return a random uint8 image (3, height, width)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (3, height, width), generator=generator, dtype=torch.uint8)


def places(height: int, width: int) -> torch.Tensor:
    """Return an image (at most 256 a side) whose pixels say where they are: red x, green y, blue 255."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return torch.stack([x, y, torch.full_like(x, 255)]).to(torch.uint8)


def smooth(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Return a uint8 array (height, width, 3) as photographs are: neighbours are alike."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin((x * (1 + c) + y * (3 - c) + 31 * seed) / 9.0) for c in range(3)]
    return np.stack([(127 + 120 * wave).astype(np.uint8) for wave in waves], -1)


def jpeg(height: int, width: int, seed: int = 0, mode: str = "RGB", **options: Any) -> bytes:
    """Return a JPEG file."""
    file = io.BytesIO()
    image = Image.fromarray(smooth(height, width, seed)).convert(mode)
    image.save(file, "JPEG", **{"quality": 92, **options})
    return file.getvalue()


def turned(orientation: int) -> Image.Exif:
    """Return EXIF tags with an orientation."""
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


def opened(data: bytes) -> Image.Image:
    """Return the image as Pillow opens it: stored as the file's bytes."""
    return Image.open(io.BytesIO(data))
