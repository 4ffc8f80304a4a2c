# SPDX-License-Identifier: Apache-2.0
"""Epochs as a sequence of batches, for orders whose batches are no plain slices of the positions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from stoker.exceptions import InvalidArgumentError
from stoker.streaming._assignment import Cursor
from stoker.streaming._rows import Rows, RowsOf, filled_up


class Mark(NamedTuple):
    """Where an epoch stands after a batch.

    Attributes:
        position: samples of the epoch that all ranks have delivered after it.
        rows: of the batch; 0: not said.
        valid: how many of them are its own; those after it are padding.
        done: global batches of this iteration up to and with it.
    """

    position: int
    rows: int = 0
    valid: int = 0
    done: int = 0


class Steps(ABC):
    """The batches of one rank from the start of its cursor on."""

    @abstractmethod
    def left(self) -> int:
        """Return how many global batches there are, on all ranks."""

    def over(self) -> bool:
        """Return whether there is none, on all ranks."""
        return self.left() == 0

    def unequal(self) -> int:
        """Return the samples of a global batch that would leave ranks without a batch before the end; 0: there is none."""
        return 0

    @abstractmethod
    def count(self) -> int:
        """Return how many batches this rank has: without ``pad`` none of a short global batch of which its part is empty."""

    @abstractmethod
    def marks(self) -> Iterator[Mark]:
        """Yield what each batch counts."""

    @abstractmethod
    def batches(self, worker: int, num_workers: int, first: int = 0) -> Iterator[list[Rows]]:
        """Return an iterator over the batches that are this worker's, from number ``first`` on.

        A batch is its rows in each group of datasets. Later settings of the datasets do not touch them.
        """

    def state(self, done: int) -> dict[str, Any]:  # noqa: ARG002 - the position says it all
        """Return what a state needs beside the dataset's, after so many global batches."""
        return {}


class StepSource(Protocol):
    """What steps are made from; every `EpochDataset` is one."""

    def epoch_samples(self, epoch: int) -> int:
        """Return the samples of an epoch, on all ranks together."""

    def epoch_rows(self, epoch: int) -> RowsOf:
        """Return which samples make up a slice of an epoch."""

    def steps(self, cursor: Cursor) -> Steps:
        """Return the batches of the rest of an epoch."""


class Stepper:
    """Makes the steps that a dataset has; other batches come from classes derived from it. It travels to workers."""

    def steps(self, source: Any, cursor: Cursor) -> Steps:
        """Return the batches of the rest of an epoch of a `StepSource`."""
        steps: Steps = source.steps(cursor)
        return steps

    def load(self, state: dict[str, Any], source: Any) -> dict[str, Any]:  # noqa: ARG002 - the dataset says all
        """Take what `Steps.state` added to a state, and return the rest of it."""
        return state

    def state(self, source: Any, position: int) -> dict[str, Any]:  # noqa: ARG002 - the dataset says all
        """Return what a state holds of what was loaded here and not used yet."""
        return {}

    def settings(self) -> dict[str, Any]:
        """Return what workers that live on need to know, as plain values."""
        return {}

    def adopt(self, settings: dict[str, Any]) -> None:
        """Take over `settings` in another process."""


class SliceSteps(Steps):
    """Slices of the positions, the last one padded when the cursor says so."""

    def __init__(self, source: StepSource, cursor: Cursor) -> None:
        """Plan nothing yet."""
        self._source, self._cursor = source, cursor
        self._total = source.epoch_samples(cursor.epoch)
        self._rows_of: RowsOf | None = None

    def left(self) -> int:
        """Return how many global batches there are, on all ranks."""
        rest = self._cursor.end(self._total) - self._cursor.start
        return -(-max(rest, 0) // self._cursor.global_batch)

    def count(self) -> int:
        """Return how many batches this rank has."""
        return self._cursor.num_batches(self._total)

    def marks(self) -> Iterator[Mark]:
        """Yield what each batch counts."""
        cursor = self._cursor
        for number in range(self.count()):
            part = cursor.batch(self._total, number)
            rows = cursor.batch_size if cursor.pad else part.rows
            yield Mark(part.begin + part.size, rows, part.rows, number + 1)

    def batches(self, worker: int, num_workers: int, first: int = 0) -> Iterator[list[Rows]]:
        """Return an iterator over the batches that are this worker's, from number ``first`` on."""
        cursor, total = self._cursor, self._total
        if self._rows_of is None:  # asked once: a forked child goes on as it began
            self._rows_of = self._source.epoch_rows(cursor.epoch)
        rows_of = self._rows_of
        wanted = cursor.batch_size if cursor.pad else 0
        start = first + (worker - first) % num_workers
        numbers = range(start, self.count(), num_workers)
        return (filled_up(rows_of, cursor.batch(total, number), wanted) for number in numbers)


def check_equal_steps(steps: Steps, cursor: Cursor) -> None:
    """Check that no rank misses a batch before the last one, after which ranks would be at different places.

    Raises:
        InvalidArgumentError: one would.
    """
    few = steps.unequal()
    if few:
        msg = (
            f"A batch of the {few} samples that remain of one dataset or bucket would leave some of the {cursor.world_size} "
            "ranks without a batch: use pad='mask', or drop_last=True."
        )
        raise InvalidArgumentError(msg)
