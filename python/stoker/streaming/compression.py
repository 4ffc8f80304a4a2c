# SPDX-License-Identifier: Apache-2.0
"""The names of compressions: ``"zstd"`` and ``"zstd:<level>"``."""

from __future__ import annotations

from stoker.exceptions import InvalidArgumentError

_DEFAULT_LEVEL = 4
_MAX_LEVEL = 22


def zstd_level(compression: str | None) -> int | None:
    """Return the zstd level of a compression name, or None for no compression.

    Raises:
        InvalidArgumentError: an unknown name; the message lists the known ones.
    """
    if compression is None:
        return None
    name, colon, level = str(compression).partition(":")
    if name == "zstd" and not colon:
        return _DEFAULT_LEVEL
    if name == "zstd" and level.isdigit() and 1 <= int(level) <= _MAX_LEVEL:
        return int(level)
    msg = f"compression={compression!r} is unknown. Use 'zstd' or 'zstd:1' to 'zstd:{_MAX_LEVEL}'."
    raise InvalidArgumentError(msg)
