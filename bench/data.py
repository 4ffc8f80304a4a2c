# SPDX-License-Identifier: Apache-2.0
"""Seeded data of the benchmarks; the same bytes on every machine."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))


def small_dict(i: int) -> dict[str, Any]:
    """Return a record of about 116 stored bytes: int, float, str and 16 float32."""
    return {
        "i": i,
        "x": i * 0.5,
        "s": f"sample number {i:08d}",
        "v": np.arange(i, i + 16, dtype=np.float32),
    }


def blob(i: int, size: int) -> dict[str, Any]:
    """Return a sample of ``size`` bytes that do not compress, and its number."""
    return {"i": i, "b": random.Random(i).randbytes(size)}


def photos(folder: Path, count: int) -> list[Path]:
    """Return ``count`` JPEG files, made in ``folder`` when they are not there."""
    from photos import cut_photos

    files = sorted(folder.glob("*.jpg"))
    return files if len(files) == count else cut_photos(folder, count)


def sized_photos(folder: Path, count: int, width: int, height: int, quality: int) -> list[Path]:
    """Return ``count`` JPEG files of one size, made in ``folder``."""
    from PIL import Image

    from photos import source_photos

    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(width)
    sources = []
    for path in source_photos():
        with Image.open(path) as image:
            # Larger photos are brought near the wanted size first, so that crops show a scene and not a detail.
            scale = max(1.5 * width / image.width, 1.5 * height / image.height)
            size = (round(image.width * scale), round(image.height * scale))
            sources.append(image.convert("RGB").resize(size, Image.Resampling.LANCZOS))
    files = []
    for number in range(count):
        image = sources[number % len(sources)]
        left = generator.randint(0, image.width - width)
        top = generator.randint(0, image.height - height)
        files.append(folder / f"{number:05d}.jpg")
        image.crop((left, top, left + width, top + height)).save(files[-1], quality=quality)
    return files
