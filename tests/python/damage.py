# SPDX-License-Identifier: Apache-2.0
"""Bytes that are almost right, for readers that must say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from stoker.exceptions import StokerError


def error_of(read: Callable[[bytes], Any], data: bytes) -> StokerError | None:
    """Return stoker's error about ``data``, None when it can be read; any other exception passes through."""
    try:
        read(data)
    except StokerError as error:
        return error
    return None


@st.composite
def damaged(draw: st.DrawFn, good: bytes, changes: int = 3) -> bytes:
    """Return ``good`` after up to ``changes`` changes: bytes replaced, removed, put in; numbers made huge; the end cut."""
    data = bytearray(good)
    for _ in range(draw(st.integers(1, changes))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.sampled_from(["replace", "huge", "insert", "remove", "cut"]))
        if kind == "replace":
            data[at : at + 1] = bytes([draw(st.integers(0, 255))])
        elif kind == "huge":
            data[at : at + 4] = draw(
                st.sampled_from([b"\xff" * 4, b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff", bytes(4)])
            )
        elif kind == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=8))
        elif kind == "remove":
            del data[at : at + draw(st.integers(1, 8))]
        else:
            del data[at:]
    return bytes(data)
