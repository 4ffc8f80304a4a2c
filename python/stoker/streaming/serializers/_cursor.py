# SPDX-License-Identifier: Apache-2.0
"""Reads a leaf of our own formats from front to back."""

from __future__ import annotations

from typing import Literal, NoReturn

from stoker.exceptions import CorruptDataError


class ByteCursor:
    """A place in the bytes of a leaf. Each step checks that the bytes are there and are what they should be.

    Args:
        data: the leaf.
        what: its name in messages, for example ``"graph leaf"``.
        byteorder: of the numbers in it.
    """

    __slots__ = ("_byteorder", "_data", "_what", "at")

    def __init__(self, data: bytes, what: str, byteorder: Literal["little", "big"]) -> None:
        self._data, self._what, self._byteorder = data, what, byteorder
        self.at = 0

    @property
    def left(self) -> int:
        """Bytes after this place."""
        return len(self._data) - self.at

    def take(self, size: int, part: str) -> bytes:
        """Return the next ``size`` bytes.

        Raises:
            CorruptDataError: fewer are left.
        """
        end = self.at + size
        if end > len(self._data):
            self.fail(f"{size} bytes of {part}", f"{self.left} bytes")
        piece = self._data[self.at : end]
        self.at = end
        return piece

    def unsigned(self, size: int, part: str) -> int:
        """Return the next unsigned number of ``size`` bytes."""
        return int.from_bytes(self.take(size, part), self._byteorder)

    def text(self, size: int, part: str) -> str:
        """Return the next ``size`` bytes as text.

        Raises:
            CorruptDataError: fewer are left, or they are not UTF-8.
        """
        piece = self.take(size, part)
        try:
            return piece.decode("utf-8")
        except UnicodeDecodeError as error:
            self.at -= size
            self.fail(f"{part} in UTF-8", repr(piece[:40]), error)

    def finish(self) -> None:
        """Check that nothing is left.

        Raises:
            CorruptDataError: something is.
        """
        if self.left:
            self.fail("the end", f"{self.left} more bytes")

    def fail(self, expected: str, found: str, cause: Exception | None = None) -> NoReturn:
        """Raise the error of this place.

        Raises:
            CorruptDataError: always.
        """
        msg = f"{self._what}, byte {self.at}: expected {expected}, found {found}"
        raise CorruptDataError(msg) from cause
