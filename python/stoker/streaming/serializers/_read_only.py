# SPDX-License-Identifier: Apache-2.0
"""What the serializers of media leaves share: they only read, and leave the decoding to other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stoker.exceptions import CorruptDataError, StokerError
from stoker.streaming.serializers.base import Serializer


class ReadOnlySerializer(Serializer):
    """Base of serializers that read what other writers stored and are never chosen for writing."""

    def serialize(self, item: Any) -> tuple[bytes, str | None]:
        """Refuse.

        Raises:
            TypeError: always.
        """
        msg = (
            f"{type(self).__name__} only reads in this version: it cannot write a {type(item).__name__}. "
            "Store the bytes of its file, or pass a serializer of your own."
        )
        raise TypeError(msg)

    def can_serialize(self, item: Any) -> bool:  # noqa: ARG002 - the contract of Serializer
        """Take nothing."""
        return False


@contextmanager
def decoding(what: str, data: bytes) -> Iterator[None]:
    """Turn whatever a library raises about foreign bytes into one error.

    Libraries report damage by any exception (assertions, IndexError, struct.error ...), so none is left out.

    Args:
        what: what the bytes should be, for example ``"a PDF file"``.
        data: the bytes.

    Raises:
        CorruptDataError: from the original.
    """
    try:
        yield
    except StokerError:
        raise
    except Exception as error:
        start = f"beginning {data[:8].hex(' ')} " if data else ""
        msg = (
            f"expected {what}, found {len(data)} bytes {start}that cannot be decoded "
            f"({type(error).__name__}: {error})"
        )
        raise CorruptDataError(msg) from error
