# SPDX-License-Identifier: Apache-2.0
"""The ``json`` leaf: a list or dict of plain values in a compact tagged form. Only read."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from stoker.exceptions import CorruptDataError
from stoker.streaming.serializers._cursor import ByteCursor
from stoker.streaming.serializers._read_only import ReadOnlySerializer

Reader = Callable[[ByteCursor], Any]
_LAST_TAG_OR_SPACE = 0x20  # a first byte above it already is JSON text


class JsonSerializer(ReadOnlySerializer):
    """``json``: dicts, lists, str, int, float, bool and None, nested at will.

    The first byte is a tag (see `_VALUES`), then comes that kind of value; a leaf that begins with a printable
    character is JSON text as a whole. Numbers are little-endian; a text is its u32 length and UTF-8.
    """

    def deserialize(self, data: bytes) -> Any:
        """Return the value.

        Raises:
            CorruptDataError: the bytes are no such value.
        """
        cursor = ByteCursor(data, "json leaf", "little")
        try:
            if data and data[0] > _LAST_TAG_OR_SPACE:
                return _parse(cursor, len(data))
            value = _value(cursor)
        except RecursionError as error:
            msg = (
                f"json leaf, byte {cursor.at}: expected a value, found one that is nested too deep"
            )
            raise CorruptDataError(msg) from error
        cursor.finish()
        return value


def _value(cursor: ByteCursor) -> Any:
    return _tagged(cursor, _VALUES)


def _tagged(cursor: ByteCursor, readers: dict[int, Reader]) -> Any:
    tag = cursor.unsigned(1, "a tag")
    reader = readers.get(tag)
    if reader is None:
        cursor.at -= 1
        cursor.fail(f"one of the tags {sorted(readers)}", str(tag))
    return reader(cursor)


def _parse(cursor: ByteCursor, size: int) -> Any:
    text = cursor.text(size, "JSON text")
    try:
        return json.loads(text)
    except ValueError as error:
        cursor.at -= size
        cursor.fail("JSON text", f"{text[:80]!r} ({error})", error)


def _document(cursor: ByteCursor) -> Any:
    return _parse(cursor, cursor.unsigned(4, "the length of a JSON text"))


def _text(cursor: ByteCursor) -> str:
    return cursor.text(cursor.unsigned(4, "the length of a text"), "text")


def _int(cursor: ByteCursor) -> int:
    return int(struct.unpack("<q", cursor.take(8, "an int"))[0])


def _float(cursor: ByteCursor) -> float:
    return float(struct.unpack("<d", cursor.take(8, "a float"))[0])


def _bool(cursor: ByteCursor) -> bool:
    return cursor.unsigned(1, "a bool") != 0


def _none(_cursor: ByteCursor) -> None:
    return None


def _count(cursor: ByteCursor) -> int:
    return cursor.unsigned(4, "the number of entries")


def _texts(cursor: ByteCursor) -> list[str]:
    return [_text(cursor) for _ in range(_count(cursor))]


def _ints(cursor: ByteCursor) -> list[int]:
    return list(np.frombuffer(cursor.take(8 * _count(cursor), "ints"), "<i8").tolist())


def _floats(cursor: ByteCursor) -> list[float]:
    return list(np.frombuffer(cursor.take(8 * _count(cursor), "floats"), "<f8").tolist())


def _bools(cursor: ByteCursor) -> list[bool]:
    return [byte != 0 for byte in cursor.take(_count(cursor), "bools")]


def _dict(cursor: ByteCursor) -> dict[str, Any]:
    found = {}
    for _ in range(_count(cursor)):
        key = _text(cursor)
        found[key] = _value(cursor)
    return found


def _records(cursor: ByteCursor) -> list[dict[str, Any]]:
    """Read a list of dicts with the same keys: the keys once, then the cells row by row."""
    rows = _count(cursor)
    keys = [_text(cursor) for _ in range(_count(cursor))]
    if rows * len(keys) > cursor.left or (rows and not keys):  # a cell takes a byte at least
        cursor.fail(f"{rows} records of {len(keys)} keys", f"{cursor.left} bytes")
    return [{key: _tagged(cursor, _CELLS) for key in keys} for _ in range(rows)]


_VALUES: dict[int, Reader] = {
    0: _document,
    1: _texts,  # also the empty list
    2: _ints,
    3: _floats,
    4: _bools,
    5: _dict,
    6: _records,
    7: _text,
    8: _int,
    9: _float,
    10: _bool,
    11: _none,
}
_CELLS: dict[int, Reader] = {0x10: _none, 0x11: _text, 0x12: _int, 0x13: _float, 0x14: _bool}
