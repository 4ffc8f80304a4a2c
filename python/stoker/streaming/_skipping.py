# SPDX-License-Identifier: Apache-2.0
"""Damaged samples that are left out of batches made by torch's workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from stoker.exceptions import CorruptDataError
from stoker.streaming._loader_stats import LoaderStats


@dataclass(frozen=True, slots=True)
class Skipped:
    """Stands in the place of a sample that could not be read."""

    problem: CorruptDataError


@dataclass(frozen=True, slots=True)
class Thinned:
    """A batch, and how many samples were left out of it."""

    batch: Any
    skipped: int


@dataclass(frozen=True, slots=True)
class SkippingCollate:
    """A collate function that never sees a `Skipped`.

    Attributes:
        collate: the function for the samples that are left.
    """

    collate: Callable[[list[Any]], Any]

    def __call__(self, samples: list[Any]) -> Thinned:
        """Return the batch of the good samples.

        Raises:
            CorruptDataError: there is none.
        """
        good = [sample for sample in samples if not isinstance(sample, Skipped)]
        if not good:
            raise samples[0].problem
        return Thinned(self.collate(good), len(samples) - len(good))


def past_skipped(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return ``function`` for batches among which a `Skipped` stays what it is."""
    return lambda batch: batch if isinstance(batch, Skipped) else function(batch)


def without_skipped(batches: Iterator[Any], stats: LoaderStats) -> Iterator[Any]:
    """Yield what the user asked for, and count what was left out.

    With batch_size None samples come one by one: then each `Skipped` is yielded too, so that its position is counted.
    """
    for batch in batches:
        if isinstance(batch, Skipped):
            stats.skipped += 1
            yield batch
        elif isinstance(batch, Thinned):
            stats.skipped += batch.skipped
            yield batch.batch
        else:
            yield batch
