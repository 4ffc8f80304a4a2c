# SPDX-License-Identifier: Apache-2.0
"""Which dataset of a mixture a sample comes from: a pure function of its position in the epoch."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, cast

import numpy as np

from stoker import _core
from stoker.exceptions import InvalidArgumentError, StateMismatchError

_SCALE = 1 << 32  # weights as integers add up to about this, so that every machine draws alike


@dataclass(frozen=True, slots=True)
class Segment:
    """Where a part of an epoch with constant weights begins.

    Attributes:
        position: samples of the epoch that came before.
        delivered: of each dataset among them.
        batches: samples in a global batch of each dataset, when batches are drawn; None: single samples are.
    """

    position: int
    delivered: tuple[int, ...]
    batches: tuple[int, ...] | None = None


def checked_weights(weights: object, count: int) -> tuple[float, ...]:
    """Return weights that add up to 1.

    Raises:
        InvalidArgumentError: not one finite number of at least 0 per dataset, or all are 0.
    """
    several = isinstance(weights, (Sequence, np.ndarray)) and not isinstance(weights, str)
    given: list[Any] = list(cast("Sequence[Any]", weights)) if several else []
    if len(given) != count:
        msg = f"weights={weights!r} must be {count} numbers, one per dataset."
        raise InvalidArgumentError(msg)
    for weight in given:
        if (
            isinstance(weight, bool)
            or not isinstance(weight, Real)
            or not 0 <= cast("float", weight) < math.inf
        ):
            msg = f"weights={weights!r}: {weight!r} is no finite number of at least 0."
            raise InvalidArgumentError(msg)
    try:
        shares = [float(weight) for weight in given]
        total = math.fsum(shares)
    except OverflowError:
        total = math.inf
    if not 0 < total < math.inf:
        problem = "are too large" if total else "add up to 0; at least one dataset needs more"
        msg = f"weights={weights!r} {problem}."
        raise InvalidArgumentError(msg)
    return tuple(share / total for share in shares)


class Mix:
    """The sources of the positions of one epoch from a segment's start on.

    A draw gives a source one unit: a sample, or a batch, of which the last one may be short.

    Args:
        sizes: samples of each source in the epoch.
        weights: add up to 1; None: in proportion to the units left, until all sources are empty.
        seed, epoch: with the segment's position the key of the random draws.
        segment: where these weights begin to hold.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        weights: Sequence[float] | None,
        seed: int,
        epoch: int,
        segment: Segment,
    ) -> None:
        """Find the end of the epoch."""
        self.segment = segment
        self._left = [size - before for size, before in zip(sizes, segment.delivered, strict=True)]
        self._units = segment.batches or (1,) * len(self._left)
        draws = [-(-left // unit) for left, unit in zip(self._left, self._units, strict=True)]
        shares = [1] * len(draws)
        if weights is not None:
            shares = [max(round(weight * _SCALE), 1) if weight > 0 else 0 for weight in weights]
        key = [seed, epoch, segment.position]
        self._mixture = _core.Mixture(draws, shares, key, exhaust=weights is None)

    @property
    def size(self) -> int:
        """Draws until the epoch ends."""
        return self._mixture.size

    @property
    def end(self) -> int:
        """Samples of the whole epoch."""
        return self.position(self.size)

    def sources(self, first: int, count: int) -> list[int]:
        """Return the sources of the draws [first, first + count)."""
        return self._mixture.fill(first, count)

    def delivered(self, draw: int) -> list[int]:
        """Return the samples of each source that come before a draw, in the whole epoch."""
        return [
            before + min(drawn * unit, left)
            for before, drawn, unit, left in zip(
                self.segment.delivered,
                self._mixture.drawn_before(draw),
                self._units,
                self._left,
                strict=True,
            )
        ]

    def position(self, draw: int) -> int:
        """Return the samples of all sources that come before a draw, in the whole epoch."""
        return sum(self.delivered(draw))

    def draw_at(self, position: int) -> int:
        """Return the draw that begins at a position of the epoch.

        Raises:
            StateMismatchError: none does: it lies before the segment, within a batch or past the end.
        """
        if self.segment.batches is None:
            draw = position - self.segment.position
            found = 0 <= draw <= self.size
        else:
            draw = bisect_left(range(self.size), position, key=self.position)
            found = self.position(draw) == position
        if not found:
            msg = (
                f"The state's position {position} does not fit its `segment`, which begins at {self.segment.position}: no "
                f"draw begins there. It was cut or altered."
            )
            raise StateMismatchError(msg)
        return draw

    def segment_from(self, position: int, batches: tuple[int, ...] | None) -> Segment:
        """Return the segment that goes on at a position where a draw begins."""
        return Segment(position, tuple(self.delivered(self.draw_at(position))), batches)
