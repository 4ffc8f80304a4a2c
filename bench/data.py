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
