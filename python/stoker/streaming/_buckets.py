# SPDX-License-Identifier: Apache-2.0
"""Batches that each hold samples of one bucket.

The samples of each bucket come in the order of the epoch. As soon as a bucket holds a global batch it gives one; what
remains in the end comes as short global batches, bucket by bucket. So what was delivered of a bucket is always the
first part of its samples, and how much of which follows from the sizes and numbers of the global batches: those make up
the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker import _core
from stoker.exceptions import InvalidArgumentError, StateMismatchError
from stoker.streaming._assignment import Cursor, Slice
from stoker.streaming._bucket_keys import Bucketing, BucketKeys
from stoker.streaming._rows import Rows, filled_up
from stoker.streaming._steps import Mark, Stepper, Steps
from stoker.streaming.dataset import StreamingDataset

_BLOCK = 1 << 16  # positions sorted into buckets at a time
_MOST = 1 << 62  # of samples or batches

History = tuple[tuple[int, int], ...]
"""Samples per global batch, and how many of them came, for each run of equal ones."""


class Bucketful(NamedTuple):
    """A global batch."""

    positions: npt.NDArray[np.int64]
    items: npt.NDArray[np.uint64]


class _Sorter:
    """An epoch on its way into buckets. A shallow copy goes on by itself: arrays are replaced, never written."""

    def __init__(self, plan: _core.EpochPlan, keys: BucketKeys) -> None:
        self._plan, self._keys = plan, keys
        self._scanned = 0
        self._positions = np.empty(0, np.int64)  # of samples that wait, by bucket
        self._items = np.empty(0, np.uint64)
        self._buckets = keys.of(self._items)

    def batches(self, size: int) -> Iterator[Bucketful]:
        """Yield global batches of this size, and in the end the short ones.

        After each one the sorter is where it must be to go on with another size.
        """
        while True:
            yield from self._full(size)
            if self._scanned == self._plan.size:
                break
            self._scan()
        while len(self._buckets):
            count = int(np.searchsorted(self._buckets, self._buckets[0], "right"))
            found = Bucketful(self._positions[:count], self._items[:count])
            self._keep(np.s_[count:])
            yield found

    def _scan(self) -> None:
        """Put the samples of one block to those that wait."""
        count = min(max(_BLOCK, len(self._items)), self._plan.size - self._scanned)
        items = self._plan.items(self._scanned, count)
        positions = np.arange(self._scanned, self._scanned + count)
        buckets = np.concatenate([self._buckets, self._keys.of(items)])
        order = np.argsort(buckets, kind="stable")  # keeps the order of positions in a bucket
        self._buckets = buckets[order]
        self._positions = np.concatenate([self._positions, positions])[order]
        self._items = np.concatenate([self._items, items])[order]
        self._scanned += count

    def _full(self, size: int) -> Iterator[Bucketful]:
        """Yield the full batches among the samples that wait, by the position that completes each."""
        changes = np.flatnonzero(self._buckets[1:] != self._buckets[:-1]) + 1
        starts = np.append(0, changes)
        lengths = np.diff(np.append(starts, len(self._buckets)))
        each = lengths // size
        if not each.any():
            return
        within = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
        firsts = np.repeat(starts, each) + within * size
        firsts = firsts[np.argsort(self._positions[firsts + size - 1])]
        waiting = np.ones(len(self._buckets), np.bool_)
        positions, items = self._positions, self._items
        try:
            for first in firsts.tolist():
                part = np.s_[first : first + size]
                waiting[part] = False
                yield Bucketful(positions[part], items[part])
        finally:
            self._keep(waiting)

    def _keep(self, which: Any) -> None:
        self._positions = self._positions[which]
        self._items = self._items[which]
        self._buckets = self._buckets[which]


class BucketSteps(Steps):
    """Global batches of one bucket each.

    Args:
        plan: of the epoch.
        keys: buckets of its items.
        sizes: samples in each bucket.
        cursor: of this rank.
        history: what came before the cursor's start.

    Raises:
        StateMismatchError: the history does not lead to the start.
    """

    def __init__(
        self,
        plan: _core.EpochPlan,
        keys: BucketKeys,
        sizes: npt.NDArray[np.int64],
        cursor: Cursor,
        history: History,
    ) -> None:
        """Find out what is left of each bucket; to go on in an epoch costs about 30 ns for each sample delivered."""
        self._keys, self._cursor, self._history = keys, cursor, history
        self._sorter = _Sorter(plan, keys)  # where the cursor begins
        self._over = cursor.start >= plan.size
        self._left = sizes
        if self._over or not history:
            delivered = cursor.start if self._over else 0
        else:
            self._left = sizes.copy()
            delivered = 0
            for batch in _replayed(self._sorter, history):
                self._left[keys.of(batch.items[:1])[0]] -= len(batch.items)
                delivered += len(batch.items)
        if delivered != cursor.start:
            msg = (
                f"The state's position is {cursor.start}, but its `buckets` have delivered {delivered} samples: {history}. It "
                "was altered, or taken without bucket_by."
            )
            raise StateMismatchError(msg)

    def _batches(self) -> Iterator[tuple[Bucketful, Slice, int, int]]:
        """Yield (global batch, this rank's rows of it, position after it, how many there were) of what is delivered."""
        if self._over:
            return
        cursor, position, done = self._cursor, self._cursor.start, 0
        for batch in copy(self._sorter).batches(cursor.global_batch):
            size = len(batch.positions)
            if size < cursor.global_batch and cursor.drop_last:
                return  # the short ones are the last
            position, done = position + size, done + 1
            part = cursor.share(0, size)
            if part.rows or cursor.pad:
                yield batch, part, position, done

    def left(self) -> int:
        """Return how many global batches there are, on all ranks."""
        if self._over:
            return 0
        size = self._cursor.global_batch
        return int(np.sum(self._left // size if self._cursor.drop_last else -(-self._left // size)))

    def unequal(self) -> int:
        """Return the samples of a global batch that would leave ranks without a batch; 0: there is none."""
        cursor = self._cursor
        if self._over or cursor.drop_last or cursor.pad:
            return 0
        tails = self._left % cursor.global_batch
        short = tails[(tails > 0) & (tails < cursor.world_size)]
        return int(short[0]) if len(short) else 0

    def count(self) -> int:
        """Return how many batches this rank has."""
        cursor = self._cursor
        if self._over or cursor.drop_last or cursor.pad:
            return self.left()
        full, rest = np.divmod(self._left, cursor.global_batch)
        return int(full.sum()) + sum(cursor.share(0, int(tail)).rows > 0 for tail in rest if tail)

    def marks(self) -> Iterator[Mark]:
        """Yield what each batch counts."""
        for _, part, position, done in self._batches():
            rows = self._cursor.batch_size if self._cursor.pad else part.rows
            yield Mark(position, rows, part.rows, done)

    def batches(self, worker: int, num_workers: int, first: int = 0) -> Iterator[list[Rows]]:
        """Return an iterator over the batches that are this worker's, from number ``first`` on."""
        epoch, wanted = self._cursor.epoch, self._cursor.batch_size if self._cursor.pad else 0
        for number, (batch, part, _, _) in enumerate(self._batches()):
            if number < first or number % num_workers != worker:
                continue

            def rows_of(part: Slice, batch: Bucketful = batch) -> list[Rows]:
                its = np.s_[part.first : part.first + part.rows]
                positions, items = batch.positions[its].tolist(), batch.items[its].tolist()
                return [Rows.of_one(epoch, positions, items)]

            yield filled_up(rows_of, part, wanted)

    def state(self, done: int) -> dict[str, Any]:
        """Return what a state needs beside the dataset's, after so many global batches."""
        history = list(self._history)
        if done:
            size = self._cursor.global_batch
            before = history.pop()[1] if history and history[-1][0] == size else 0
            history.append((size, before + done))
        return _as_state(self._keys.digest, tuple(history))


def _replayed(sorter: _Sorter, history: History) -> Iterator[Bucketful]:
    """Yield what came before; the sorter is then ready for the next one."""
    for size, count in history:
        batches = sorter.batches(size)
        yield from islice(batches, count)
        batches.close()  # type: ignore[attr-defined]


def _as_state(digest: str, history: History) -> dict[str, Any]:
    if not history:
        return {}
    return {"buckets": {"keys": digest, "history": [list(run) for run in history]}}


class BucketStepper(Stepper):
    """Makes batches of one bucket each.

    Args:
        bucketing: what a bucket is.
    """

    def __init__(self, bucketing: Bucketing) -> None:
        """Begin at the start of an epoch."""
        self._bucketing = bucketing
        self._history: History = ()

    def steps(self, source: StreamingDataset, cursor: Cursor) -> BucketSteps:
        """Return the batches of the rest of an epoch."""
        keys = self._bucketing.keys(source)
        history = self._history if cursor.start else ()
        sizes = keys.sizes(source.chosen())
        return BucketSteps(source.epoch_plan(cursor.epoch), keys, sizes, cursor, history)

    def load(self, state: Any, source: StreamingDataset) -> Any:
        """Take what `Steps.state` added to a state, and return the rest of it.

        Raises:
            StateMismatchError: it was counted in other buckets, or was altered.
        """
        self._history = ()
        if not isinstance(state, dict) or "buckets" not in state:
            return state
        found, mine = state["buckets"], self._bucketing.keys(source).digest
        history = found.get("history") if isinstance(found, dict) else None
        if (
            not isinstance(found, dict)
            or not isinstance(history, list)
            or not all(map(_is_run, history))
        ):
            msg = f"The state's `buckets` are {found!r:.200}; it was cut or altered."
            raise StateMismatchError(msg)
        if found.get("keys") != mine:
            msg = (
                f"The state was counted in other buckets: their digest is {found.get('keys')!r}, here it is {mine!r}. Use the "
                "same bucket_by and bucket_boundaries, or start the epoch again with set_epoch."
            )
            raise StateMismatchError(msg)
        self._history = tuple((size, count) for size, count in history)
        return {key: value for key, value in state.items() if key != "buckets"}

    def state(self, source: StreamingDataset, position: int) -> dict[str, Any]:
        """Return what a state holds of what was loaded here and not used yet."""
        if not position or not self._history:
            return {}
        return _as_state(self._bucketing.keys(source).digest, self._history)

    def settings(self) -> dict[str, Any]:
        """Return what workers that live on need to know, as plain values."""
        return {"history": [list(run) for run in self._history]}

    def adopt(self, settings: dict[str, Any]) -> None:
        """Take over `settings` in another process."""
        self._history = tuple((size, count) for size, count in settings["history"])


def _is_run(run: Any) -> bool:
    return (
        isinstance(run, (list, tuple))
        and len(run) == 2  # noqa: PLR2004 - size and count
        and all(type(one) is int and 0 < one < _MOST for one in run)
    )


def bucket_stepper(dataset: object, by: Any, boundaries: Any, cache: Any) -> BucketStepper | None:
    """Return the stepper that the arguments of a loader ask for.

    Raises:
        InvalidArgumentError: arguments that can never work.
    """
    if by is None:
        if boundaries is not None or cache is not None:
            msg = "bucket_boundaries and bucket_cache need bucket_by."
            raise InvalidArgumentError(msg)
        return None
    if not isinstance(dataset, StreamingDataset):
        msg = f"bucket_by takes a StreamingDataset, found {type(dataset).__name__}: its samples come in a fixed mixture."
        raise InvalidArgumentError(msg)
    bucketing = Bucketing(by, boundaries, cache)
    dataset.question("bucket_by", by)  # a key that leads to no leaf fails here
    return BucketStepper(bucketing)
