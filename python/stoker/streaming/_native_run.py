# SPDX-License-Identifier: Apache-2.0
"""The native engine at work: one iteration of a loader, by C++ threads of this process."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable, Iterator
from itertools import tee
from typing import Any

import numpy as np
import torch

from stoker import _core
from stoker.streaming._native_batch import BatchPlan
from stoker.streaming._rows import Rows
from stoker.streaming._steps import Steps

_RUNNING: weakref.WeakSet[NativeBatches] = weakref.WeakSet()
_COUNTERS_OF_ONE = ("batches", "queued", "samples", "consumer_wait_ns")


class NativeBatches:
    """Batches of one rank. Threads start here; `close` joins them.

    Args:
        plan: how.
        make: number of batches delivered -> a fresh engine that goes on there; called again in a forked child.
        feed: number of batches delivered -> the rows of those to come, for an engine that is told; else None.
        pin_memory: batches lie in pinned memory.
        depth: batches in work.
    """

    def __init__(
        self,
        plan: BatchPlan,
        make: Callable[[int], _core.BatchLoader],
        *,
        feed: Callable[[int], Iterator[Rows]] | None = None,
        pin_memory: bool,
        depth: int,
    ) -> None:
        """Start the threads."""
        self._plan, self._make, self._feed = plan, make, feed
        self._pin, self._depth = pin_memory, depth
        self._delivered = 0
        self._slabs: list[torch.Tensor] = []
        self._rows: Iterator[Rows] | None = None
        self.skipped = 0
        self._engine = self._start()
        _RUNNING.add(self)

    def _start(self) -> _core.BatchLoader:
        engine = self._make(self._delivered)
        engine.set_views(
            [(number, c.element, c.shape) for number, c in enumerate(self._plan.columns)]
        )
        if self._pin:
            self._slabs = []
            for _ in range(self._depth):
                self._offer(engine)
        if self._feed is not None:
            self._rows = self._feed(self._delivered)
            for _ in range(self._depth + 1):
                self._tell(engine)
        return engine

    def _tell(self, engine: _core.BatchLoader) -> None:
        """Tell the engine one batch more, so that it stays ahead of the consumer."""
        if self._rows is None:
            return
        rows = next(self._rows, None)
        if rows is None:
            self._rows = None
            engine.finish()
        else:
            engine.tell(*rows)

    def _offer(self, engine: _core.BatchLoader) -> None:
        slab = torch.empty(self._plan.spec.slab_bytes, dtype=torch.uint8, pin_memory=True)
        self._slabs.append(slab)
        engine.offer(slab.numpy())

    def __iter__(self) -> Iterator[Any]:
        """Return this object."""
        return self

    def __next__(self) -> Any:
        """Return the next batch.

        Raises:
            StokerError: of the first sample, in order, that cannot be read.
        """
        if self._engine.forked:  # the threads stayed in the parent: go on from here with own ones
            self._engine = self._start()
        found = self._engine.next(not self._pin)
        if found is None:
            self.close()
            raise StopIteration
        _, rows, skipped, columns = found
        self._delivered += 1
        self.skipped += skipped
        self._tell(self._engine)
        if self._pin:
            self._fill_from_slab(columns, rows)
        for number, column in enumerate(self._plan.columns):
            if column.permuted:
                columns[number] = columns[number].permute(0, 3, 1, 2)
        return self._plan.build(columns)

    def _fill_from_slab(self, columns: list[Any], rows: int) -> None:
        """Put views of the pinned tensor in place of the columns that are tensors."""
        slab = self._slabs.pop(0)
        for number, column in enumerate(self._plan.columns):
            if column.element is None:
                continue
            dtype = column.element[1] or torch.from_numpy(np.empty(0, column.element[0])).dtype
            shape = (rows, *column.shape)
            size = int(np.prod(shape)) * dtype.itemsize
            offset = self._plan.spec.offset(number)
            columns[number] = slab[offset : offset + size].view(dtype).view(shape)
        self._offer(self._engine)

    def stats(self) -> dict[str, int]:
        """Return the engine's counters."""
        return self._engine.stats()

    def close(self) -> None:
        """Stop and join the threads. Batches handed out stay valid."""
        self._engine.close()


class ZippedBatches:
    """Batches of several engines side by side, as torch collates tuples: a list, one entry per engine."""

    def __init__(self, batches: list[NativeBatches]) -> None:
        """Take engines that have as many batches each."""
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        """Return this object."""
        return self

    def __next__(self) -> Any:
        """Return the next batch of all."""
        try:
            return [next(batches) for batches in self._batches]
        except StopIteration:
            self.close()
            raise

    @property
    def skipped(self) -> int:
        """Samples left out so far."""
        return sum(batches.skipped for batches in self._batches)

    def stats(self) -> dict[str, int]:
        """Return the engines' counters, added up where they do not count the same batches."""
        every = [batches.stats() for batches in self._batches]
        return {
            key: every[0][key] if key in _COUNTERS_OF_ONE else sum(one[key] for one in every)
            for key in every[0]
        }

    def close(self) -> None:
        """Stop and join the threads."""
        for batches in self._batches:
            batches.close()


def feeds_of(steps: Steps, groups: int) -> list[Callable[[int], Iterator[Rows]]]:
    """Return a feed for the engine of each group; together they plan every batch once."""
    shared = tee(steps.batches(0, 1), groups)

    def feed_of(group: int) -> Callable[[int], Iterator[Rows]]:
        first = [shared[group]]  # for this process; a forked child goes on with its own

        def feed(delivered: int) -> Iterator[Rows]:
            found = first.pop() if first else steps.batches(0, 1, delivered)
            return (rows[group] for rows in found)

        return feed

    return [feed_of(group) for group in range(groups)]


@atexit.register
def _close_all() -> None:
    """Threads must not outlive the interpreter."""
    for running in list(_RUNNING):
        running.close()
