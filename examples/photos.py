# SPDX-License-Identifier: Apache-2.0
"""The photos of the examples: those that ship inside scikit-image and scikit-learn, cut into many JPEG files."""

from __future__ import annotations

import random
from pathlib import Path

import skimage.data
import sklearn.datasets
from PIL import Image

_NAMES = [
    "astronaut.png",
    "coffee.png",
    "chelsea.png",
    "hubble_deep_field.jpg",
    "ihc.png",
    "motorcycle_left.png",
    "retina.jpg",
    "rocket.jpg",
    "china.jpg",
    "flower.jpg",
]


def source_photos() -> list[Path]:
    """Return the photographs that the two packages install."""
    folders = [
        Path(skimage.data.__file__).parent,
        Path(sklearn.datasets.__file__).parent / "images",
    ]
    return [folder / name for folder in folders for name in _NAMES if (folder / name).exists()]


def cut_photos(folder: Path, count: int, seed: int = 0) -> list[Path]:
    """Write ``count`` JPEG files of 256 to 400 pixels a side to ``folder`` and return them, always the same for a seed."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(seed)
    sources = []
    for path in source_photos():
        with Image.open(path) as image:
            sources.append((path.stem, image.convert("RGB")))
    files = []
    for number in range(count):
        name, image = sources[number % len(sources)]
        width, height = (min(generator.randint(256, 400), side) for side in image.size)
        left, top = (
            generator.randint(0, image.width - width),
            generator.randint(0, image.height - height),
        )
        files.append(folder / f"{number:05d}_{name}.jpg")
        image.crop((left, top, left + width, top + height)).save(files[-1], quality=90)
    return files
