# SPDX-License-Identifier: Apache-2.0
"""Batches of a mixture, each from one of its datasets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stoker import _core
from stoker.streaming._assignment import Cursor, Slice
from stoker.streaming._mixing import Mix
from stoker.streaming._rows import Rows, filled_up
from stoker.streaming._steps import Mark, Steps

_BLOCK = 1024  # draws looked up at a time


class PerStreamSteps(Steps):
    """Each draw of a mixture is a global batch of one dataset; the last one of a dataset may be short.

    With drop_last short ones are left out, wherever in the epoch they come; positions count past them.

    Args:
        plans: the members' epochs.
        mix: what is drawn, in global batches.
        cursor: begins at a draw of it.
    """

    def __init__(self, plans: Sequence[_core.EpochPlan], mix: Mix, cursor: Cursor) -> None:
        """Find the first draw."""
        self._plans, self._mix, self._cursor = plans, mix, cursor
        self._first = mix.draw_at(cursor.start)

    def _draws(self) -> Iterator[tuple[int, Slice, int]]:
        """Yield (dataset, this rank's rows in its epoch, position after them) of what is delivered."""
        mix, cursor = self._mix, self._cursor
        batches = mix.segment.batches or (1,) * len(self._plans)
        before, position = mix.delivered(self._first), cursor.start
        for draw in range(self._first, mix.size, _BLOCK):
            for source in mix.sources(draw, min(_BLOCK, mix.size - draw)):
                size = min(batches[source], self._plans[source].size - before[source])
                part = cursor.share(before[source], size)
                before[source] += size
                position += size
                if size == batches[source] or not cursor.drop_last:
                    yield source, part, position

    def _mine(self) -> Iterator[tuple[int, Slice, int, int]]:
        """Yield those of `_draws` that this rank has a batch of, and how many there were up to it."""
        for done, (source, part, position) in enumerate(self._draws(), 1):
            if part.rows or self._cursor.pad:
                yield source, part, position, done

    def _rows(self, source: int) -> int:
        """Return the rows of a full batch of a dataset."""
        return self._cursor.sizes[source] if self._cursor.sizes else self._cursor.batch_size

    def _short(self) -> list[int]:
        """Return the sizes of the short global batches that come, at most one of each dataset."""
        mix = self._mix
        batches = mix.segment.batches or (1,) * len(self._plans)
        columns = zip(self._plans, batches, mix.delivered(self._first), mix.delivered(mix.size), strict=True)  # fmt: skip
        return [
            (plan.size - before) % size
            for plan, size, before, after in columns
            if before < after == plan.size and (plan.size - before) % size
        ]

    def left(self) -> int:
        """Return how many global batches there are, on all ranks."""
        draws = self._mix.size - self._first
        return draws - len(self._short()) if self._cursor.drop_last else draws

    def over(self) -> bool:
        """Return whether there is none, on all ranks."""
        return next(self._draws(), None) is None

    def unequal(self) -> int:
        """Return the samples of a global batch that would leave ranks without a batch; 0: there is none."""
        if self._cursor.drop_last or self._cursor.pad:
            return 0
        return next((size for size in self._short() if size < self._cursor.world_size), 0)

    def count(self) -> int:
        """Return how many batches this rank has."""
        cursor = self._cursor
        if cursor.drop_last or cursor.pad:
            return self.left()
        return self.left() - sum(not cursor.share(0, size).rows for size in self._short())

    def marks(self) -> Iterator[Mark]:
        """Yield what each batch counts."""
        for source, part, position, done in self._mine():
            rows = self._rows(source) if self._cursor.pad else part.rows
            yield Mark(position, rows, part.rows, done)

    def batches(self, worker: int, num_workers: int, first: int = 0) -> Iterator[list[Rows]]:
        """Return an iterator over the batches that are this worker's, from number ``first`` on."""
        epoch = self._cursor.epoch
        for number, (source, part, _, _) in enumerate(self._mine()):
            if number < first or number % num_workers != worker:
                continue
            plan = self._plans[source]

            def rows_of(
                part: Slice, plan: _core.EpochPlan = plan, source: int = source
            ) -> list[Rows]:
                return [Rows.of_one(epoch, *plan.rows(*part), source)]

            yield filled_up(rows_of, part, self._rows(source) if self._cursor.pad else 0)
