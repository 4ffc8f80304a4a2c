# SPDX-License-Identifier: Apache-2.0
"""What one iteration has handed out, as its states tell it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from stoker.streaming._progress import Progress
from stoker.streaming._steps import Mark, Steps


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
        closed: by the loader, in between.
    """

    start: Progress
    total: int
    changes: int
    steps: Steps | None = None
    mark: Mark = field(default_factory=lambda: Mark(0))
    finished: bool = False
    closed: bool = False

    @property
    def position(self) -> int:
        """Samples of the epoch that all ranks have delivered, or left out for good."""
        return self.total if self.finished else self.mark.position

    def progress(self) -> Progress:
        """Return the state after what was handed out."""
        return replace(self.start, position=self.position)
