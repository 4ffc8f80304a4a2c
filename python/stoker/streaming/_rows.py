# SPDX-License-Identifier: Apache-2.0
"""Samples of a batch by where they come from: what both backends are told when a batch is no slice of one epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from stoker.streaming._assignment import Slice


class Rows(NamedTuple):
    """The rows of a batch, one entry each in every column.

    Attributes:
        parts: numbers of the datasets.
        epochs: of those datasets.
        positions: in those epochs.
        items: numbers in those datasets.
    """

    parts: Sequence[int]
    epochs: Sequence[int]
    positions: Sequence[int]
    items: Sequence[int]

    def pick(self, numbers: Iterable[int]) -> Rows:
        """Return some of the rows, in this order."""
        chosen = list(numbers)
        return Rows(*([column[n] for n in chosen] for column in self))

    def plus(self, more: Rows) -> Rows:
        """Return these rows and then others."""
        return Rows(*([*mine, *its] for mine, its in zip(self, more, strict=True)))

    @classmethod
    def of_one(
        cls, epoch: int, positions: Sequence[int], items: Sequence[int], part: int = 0
    ) -> Rows:
        """Return rows of one epoch of one dataset."""
        count = len(items)
        return cls([part] * count, [epoch] * count, positions, items)


RowsOf = Callable[[Slice], list[Rows]]
"""A slice of an epoch -> its rows, once for each group of datasets that is read side by side."""


def filled_up(rows_of: RowsOf, part: Slice, wanted: int) -> list[Rows]:
    """Return a rank's share of a global batch and, up to ``wanted`` rows, others of that batch again."""
    own, missing = rows_of(part), wanted - part.rows
    if missing <= 0:
        return own
    everyone = rows_of(part._replace(first=0, rows=part.size))
    filling = [number % part.size for number in range(missing)]
    return [mine.plus(all_.pick(filling)) for mine, all_ in zip(own, everyone, strict=True)]
