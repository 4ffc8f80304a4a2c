# SPDX-License-Identifier: Apache-2.0
"""Leaves that are one Python value: str, bool, int, float, bytes, and pickle for everything unknown.

Types are matched exactly (an ``IntEnum`` is no int), so a leaf comes back as the type that went in; the one exception
is ``numpy.float64``, which is a Python float by inheritance and comes back as float.
"""

from __future__ import annotations

import pickle
import struct
from typing import Any, ClassVar

from stoker.streaming.serializers.base import Serializer

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_pack_i64 = struct.Struct("<q").pack
_pack_f64 = struct.Struct("<d").pack


class StringSerializer(Serializer):
    """``str`` -> UTF-8. A plain string is a string, also when a file of that name exists."""

    native: ClassVar[str] = "str"

    def serialize(self, item: str) -> tuple[bytes, str | None]:
        """Return the UTF-8 bytes."""
        return item.encode("utf-8"), None

    def deserialize(self, data: bytes) -> str:
        """Return the text."""
        return data.decode("utf-8")

    def can_serialize(self, item: Any) -> bool:
        """Take exactly str."""
        return type(item) is str


class BooleanSerializer(Serializer):
    """``bool`` -> one byte, 0 or 1."""

    native: ClassVar[str] = "bool"

    def serialize(self, item: bool) -> tuple[bytes, str | None]:  # noqa: FBT001 - the contract of Serializer
        """Return one byte."""
        return (b"\x01" if item else b"\x00"), None

    def deserialize(self, data: bytes) -> bool:
        """Return True for any non-zero byte."""
        return data[0] != 0

    def can_serialize(self, item: Any) -> bool:
        """Take exactly bool."""
        return type(item) is bool


class IntegerSerializer(Serializer):
    """``int`` within 64 bits -> little-endian i64. Larger ints are pickled."""

    native: ClassVar[str] = "int"

    def serialize(self, item: int) -> tuple[bytes, str | None]:
        """Return 8 bytes."""
        return _pack_i64(item), None

    def deserialize(self, data: bytes) -> int:
        """Return the int."""
        return int(struct.unpack("<q", data)[0])

    def can_serialize(self, item: Any) -> bool:
        """Take exactly int, -2**63 <= item < 2**63."""
        return type(item) is int and _INT64_MIN <= item <= _INT64_MAX


class FloatSerializer(Serializer):
    """``float`` -> little-endian f64, bit for bit (also NaN payloads).

    Once a leaf is a float leaf, ints that a float holds exactly are taken too: 0 after 0.5 is 0.0.
    """

    native: ClassVar[str] = "float"

    def serialize(self, item: float) -> tuple[bytes, str | None]:
        """Return 8 bytes."""
        return _pack_f64(item), None

    def deserialize(self, data: bytes) -> float:
        """Return the float."""
        return float(struct.unpack("<d", data)[0])

    def can_serialize(self, item: Any) -> bool:
        """Take float and its subclasses (numpy.float64)."""
        return isinstance(item, float)

    def can_continue(self, item: Any) -> bool:
        """Take what `can_serialize` takes and ints without loss, for samples after the first."""
        return isinstance(item, float) or (type(item) is int and abs(item) <= 1 << 53)


class BytesSerializer(Serializer):
    """``bytes`` as they are."""

    native: ClassVar[str] = "bytes"

    def serialize(self, item: bytes) -> tuple[bytes, str | None]:
        """Return the bytes themselves."""
        return item, None

    def deserialize(self, data: bytes) -> bytes:
        """Return the bytes themselves."""
        return data

    def can_serialize(self, item: Any) -> bool:
        """Take exactly bytes."""
        return type(item) is bytes


class PickleSerializer(Serializer):
    """Everything no other serializer takes, through pickle.

    Reading unpickles: open only datasets you trust when ``data_format`` contains ``pickle``.
    """

    def serialize(self, item: Any) -> tuple[bytes, str | None]:
        """Return the pickle (protocol 4: every supported Python reads it)."""
        return pickle.dumps(item, protocol=4), None

    def deserialize(self, data: bytes) -> Any:
        """Return the unpickled object."""
        return pickle.loads(data)

    def can_serialize(self, item: Any) -> bool:  # noqa: ARG002 - the contract of Serializer
        """Take everything."""
        return True
