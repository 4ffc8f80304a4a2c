# SPDX-License-Identifier: Apache-2.0
"""Sizes as people write them: ``"64MB"`` <-> 64_000_000 bytes."""

from __future__ import annotations

import re

from stoker.exceptions import InvalidArgumentError

_FACTORS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(b?)\s*", re.IGNORECASE)


def parse_bytes(size: int | str, name: str = "size") -> int:
    """Return ``size`` in bytes.

    Accepts a positive int, or a str of a number with an optional suffix b, k, m, g, t, kb, mb, gb, tb in any case.
    Multiples are decimal (1 kB = 1000 bytes), fractions are allowed ("1.5GB").

    Raises:
        InvalidArgumentError: not a positive size; the message uses ``name`` for the argument.
    """
    if isinstance(size, str):
        match = _SIZE.fullmatch(size)
        value = int(float(match[1]) * _FACTORS[match[2].lower()]) if match else 0
    elif isinstance(size, int) and not isinstance(size, bool):
        value = size
    else:
        value = 0
    if value <= 0:
        msg = f"{name}={size!r} is not a size. Use a positive number of bytes or a text like '64MB' (units: B, KB, MB, GB, TB)."
        raise InvalidArgumentError(msg)
    return value


def format_bytes(size: float) -> str:
    """Return ``size`` bytes in the largest decimal unit that keeps it at least 1, for people to read."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 1000:  # noqa: PLR2004 - decimal units
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
