# SPDX-License-Identifier: Apache-2.0
"""Any choice of a dataset's samples as a list of item ranges, and the arithmetic of such lists.

A range lies within one chunk; ranges may come in any order and repeat. Position p of a selection is the p-th item when
its ranges are walked in order. Everything here costs time by ranges, not by items.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from stoker import _core
from stoker.exceptions import InvalidArgumentError
from stoker.streaming._split import Ranges

Numbers = npt.NDArray[np.int64]
_NONE: Numbers = np.empty(0, np.int64)


class Runs(NamedTuple):
    """Half-open runs of positions: [firsts[k], lasts[k])."""

    firsts: Numbers
    lasts: Numbers


class Selection:
    """Item ranges [begins[k], ends[k]). Immutable.

    Args:
        begins, ends: equally long, whole numbers; empty ranges are dropped.
    """

    __slots__ = ("_digest", "_stops", "begins", "ends")

    def __init__(self, begins: npt.ArrayLike, ends: npt.ArrayLike) -> None:
        """Keep the ranges that hold something."""
        self.begins: Numbers = np.asarray(begins, np.int64)
        self.ends: Numbers = np.asarray(ends, np.int64)
        filled = self.begins < self.ends
        if not filled.all():
            self.begins, self.ends = self.begins[filled], self.ends[filled]
        self._stops: Numbers = np.cumsum(self.ends - self.begins)  # position after each range
        self._digest: str | None = None

    @property
    def size(self) -> int:
        """Number of items."""
        return int(self._stops[-1]) if len(self._stops) else 0

    @property
    def _starts(self) -> Numbers:
        return self._stops - (self.ends - self.begins)

    def lists(self) -> Ranges:
        """Return (begins, ends) as stoker._core takes them."""
        return self.begins.tolist(), self.ends.tolist()

    def items(self) -> Iterator[int]:
        """Yield every item number in order."""
        return chain.from_iterable(map(range, *self.lists()))

    @property
    def digest(self) -> str:
        """16 hex digits that differ when a range does: XXH3-64 of begins and ends as little-endian int64."""
        if self._digest is None:
            self._digest = hashed(self.begins, self.ends)
        return self._digest

    def cut(self, runs: Runs) -> Selection:
        """Return what lies at these runs of positions (within 0..size), in their order."""
        filled = runs.firsts < runs.lasts
        firsts, lasts = runs.firsts[filled], runs.lasts[filled]
        if not len(firsts):
            return Selection(_NONE, _NONE)
        low = np.searchsorted(self._stops, firsts, "right")  # range of the first position
        high = np.searchsorted(self._stops, lasts, "left")  # of the last one
        index, head = _spread(low, high - low + 1)
        tail = np.append(head[1:], len(index)) - 1
        begins, ends, starts = self.begins[index], self.ends[index], self._starts
        begins[head] += firsts - starts[low]
        ends[tail] = self.begins[high] + lasts - starts[high]
        return Selection(begins, ends)

    def merged(self, counts: list[int]) -> Selection:
        """Return the same items in the fewest ranges that stay in chunks of ``counts`` items."""
        if len(self.begins) < 2:  # noqa: PLR2004 - two could be one
            return self
        joined = self.ends[:-1] == self.begins[1:]
        chunk_ends = np.cumsum(np.asarray(counts, np.int64))
        meeting = self.ends[:-1][joined]
        joined[joined] = chunk_ends[np.searchsorted(chunk_ends, meeting)] != meeting
        apart = ~joined
        return Selection(self.begins[np.r_[True, apart]], self.ends[np.r_[apart, True]])

    def united(self) -> Selection:
        """Return every item once, ascending. The ranges may cross chunks."""
        if not len(self.begins):
            return self
        order = np.argsort(self.begins, kind="stable")
        begins, reach = self.begins[order], np.maximum.accumulate(self.ends[order])
        apart = begins[1:] > reach[:-1]
        return Selection(begins[np.r_[True, apart]], reach[np.r_[apart, True]])

    def only(self, kept: Selection) -> Selection:
        """Return the items that are in ``kept`` too (a `united` one), in the order they have here."""
        return kept.cut(Runs(kept.before(self.begins), kept.before(self.ends)))

    def before(self, items: Numbers) -> Numbers:
        """Return how many items of this `united` selection are smaller than each of ``items``."""
        number = np.searchsorted(self.ends, items, "right")
        whole: Numbers = np.append(0, self._stops)[number]
        begins: Numbers = np.append(self.begins, np.iinfo(np.int64).max)[number]
        more: Numbers = np.maximum(items - begins, 0)
        return whole + more

    def dealt(self, counts: list[int], state: np.random.RandomState) -> Selection:
        """Return the ranges in a random order of their chunks; neighbours in one chunk stay together."""
        if not len(self.begins):
            return self
        chunk_ends = np.cumsum(np.asarray(counts, np.int64))
        chunks = np.searchsorted(chunk_ends, self.begins, "right")
        starts = np.flatnonzero(np.r_[True, chunks[1:] != chunks[:-1]])
        lengths = np.diff(np.append(starts, len(chunks)))
        order = state.permutation(len(starts))
        index, _ = _spread(starts[order], lengths[order])
        return Selection(self.begins[index], self.ends[index])


def hashed(*numbers: npt.ArrayLike) -> str:
    """Return the XXH3-64 of whole numbers as 16 hex digits."""
    data = np.concatenate([np.asarray(one, np.int64) for one in numbers]).astype("<i8").tobytes()
    return f"{_core.xxh3_64(data):016x}"


def _spread(starts: Numbers, lengths: Numbers) -> tuple[Numbers, Numbers]:
    """Return the numbers [starts[k], starts[k] + lengths[k]) joined, and where each k begins among them."""
    head = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(starts - head, lengths), head


def runs_of_flags(flags: npt.NDArray[np.bool_]) -> Runs:
    """Return where ``flags`` are set."""
    edges = np.flatnonzero(np.diff(flags.astype(np.int8), prepend=0, append=0))
    return Runs(edges[::2], edges[1::2])


def runs_of(indices: object, size: int) -> Runs:
    """Return the positions a user named, neighbours joined.

    Args:
        indices: a slice (any, as for lists), a range, or a sequence or 1-D array of ints; order and repeats count.
        size: positions there are.

    Raises:
        InvalidArgumentError: an index below 0 or past the end.
        TypeError: something else than ints.
    """
    if isinstance(indices, slice):
        indices = range(*indices.indices(size))
    if isinstance(indices, range):
        if not indices:
            return Runs(_NONE, _NONE)
        for edge in (indices[0], indices[-1]):
            if not 0 <= edge < size:
                _raise_outside(edge, size)
        if indices.step == 1:
            return Runs(np.array([indices.start]), np.array([indices.stop]))
        numbers = np.arange(indices.start, indices.stop, indices.step, dtype=np.int64)
    else:
        numbers = _checked_numbers(indices, size)
    if not len(numbers):
        return Runs(_NONE, _NONE)
    apart = np.diff(numbers) != 1
    return Runs(numbers[np.r_[True, apart]], numbers[np.r_[apart, True]] + 1)


def _checked_numbers(indices: object, size: int) -> Numbers:
    try:
        array = np.asarray(indices)
    except ValueError as error:  # lists of different lengths
        msg = f"subset takes a slice, a range or a sequence of ints, found {type(indices).__name__} ({error})."
        raise TypeError(msg) from error
    if array.ndim != 1:
        msg = f"subset takes a slice, a range or a sequence of ints, found {indices!r:.80}."
        raise TypeError(msg)
    if array.size == 0:
        return _NONE
    kinds = set(map(type, indices)) if isinstance(indices, (list, tuple)) else set()
    if array.dtype.kind == "O" and kinds == {int}:  # too large for 64 bits
        _raise_outside(next(n for n in array if not 0 <= n < size), size)
    if array.dtype.kind not in "iu" or bool in kinds or np.bool_ in kinds:
        hint = " For a mask: numpy.flatnonzero(mask)." if array.dtype.kind == "b" else ""
        found = array.dtype if array.dtype.kind not in "iu" else "bools among them"
        msg = f"subset takes indices that are ints, found {found}.{hint}"
        raise TypeError(msg)
    outside = (array < 0) | (array >= size)
    if outside.any():
        _raise_outside(array[outside][0], size)
    return array.astype(np.int64)


def _raise_outside(index: int, size: int) -> NoReturn:
    msg = f"subset: index {index} is out of range for a dataset of {size} samples; negative ones count only in slices."
    raise InvalidArgumentError(msg)
