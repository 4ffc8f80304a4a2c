# SPDX-License-Identifier: Apache-2.0
"""What one iteration has handed out, as its states tell it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

from stoker.streaming._assignment import Cursor
from stoker.streaming._progress import Progress
from stoker.streaming._steps import Mark, Steps


@dataclass(frozen=True, slots=True)
class Loaded:
    """A state that no iteration has used yet.

    Attributes:
        start: the state.
        changes: of the dataset when it was loaded.
    """

    start: Progress
    changes: int


@dataclass(slots=True)
class Handed:
    """Of one iteration only, so that an older iterator never moves the state of a newer one.

    Attributes:
        start: the state it began with. What is set later belongs to what comes later, not to what was delivered.
        total: samples of its epoch, on all ranks.
        changes: of the dataset when it began.
        steps: its batches, when they are no plain slices of the epoch.
        mark: what was handed out last. One assignment changes it, so that Ctrl-C finds it whole.
        finished: the epoch is over; what drop_last left out is not owed.
        closed: StreamingDataLoader.close() was called before the end.
        kept: what ``steps`` added to states, of an iteration that stayed in another process.
    """

    start: Progress
    total: int
    changes: int
    steps: Steps | None = None
    mark: Mark = field(default_factory=lambda: Mark(0))
    finished: bool = False
    closed: bool = False
    kept: dict[str, Any] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle where it stands; the batches stay in this process."""
        state = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**state, "steps": None, "kept": self.added()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what `__getstate__` gave."""
        for name, value in state.items():
            setattr(self, name, value)

    @property
    def position(self) -> int:
        """Samples of the epoch that all ranks have delivered, or left out for good."""
        return self.total if self.finished else self.mark.position

    def added(self) -> dict[str, Any]:
        """Return what a state needs beside the dataset's."""
        if self.finished:
            return {}
        return self.kept if self.steps is None else self.steps.state(self.mark.done)

    def progress(self) -> Progress:
        """Return the state after what was handed out."""
        return replace(self.start, position=self.position)


def marks_of(cursor: Cursor, handed: Handed) -> Iterator[Mark]:
    """Yield where the epoch stands after each batch (or sample, when the cursor's batches have one)."""
    if handed.steps is not None:
        yield from handed.steps.marks()
        return
    position, end = cursor.start, cursor.end(handed.total)
    while True:
        position = min(position + cursor.global_batch, end)
        yield Mark(position)
