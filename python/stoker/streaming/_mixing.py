# SPDX-License-Identifier: Apache-2.0
"""Which dataset of a mixture a sample comes from: a pure function of its position in the epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stoker import _core
from stoker.exceptions import InvalidArgumentError

_SCALE = 1 << 32  # weights as integers add up to about this, so that every machine draws alike


@dataclass(frozen=True, slots=True)
class Segment:
    """Where a part of an epoch with constant weights begins.

    Attributes:
        position: samples of the epoch that came before.
        delivered: of each dataset among them.
    """

    position: int
    delivered: tuple[int, ...]


def checked_weights(weights: object, count: int) -> tuple[float, ...]:
    """Return weights that add up to 1.

    Raises:
        InvalidArgumentError: not one finite number of at least 0 per dataset, or all are 0.
    """
    if not isinstance(weights, Sequence) or isinstance(weights, str) or len(weights) != count:
        msg = f"weights={weights!r} must be {count} numbers, one per dataset."
        raise InvalidArgumentError(msg)
    for weight in weights:
        if (
            isinstance(weight, bool)
            or not isinstance(weight, (int, float))
            or not math.isfinite(weight)
            or weight < 0
        ):
            msg = f"weights={weights!r}: {weight!r} is no finite number of at least 0."
            raise InvalidArgumentError(msg)
    total = math.fsum(weights)
    if total <= 0:
        msg = f"weights={weights!r} add up to 0; at least one dataset needs more."
        raise InvalidArgumentError(msg)
    return tuple(weight / total for weight in weights)


class Mix:
    """The sources of the positions of one epoch from a segment's start on.

    Args:
        sizes: units of each source in the epoch.
        weights: add up to 1; None: in proportion to what is left, until all sources are empty.
        key: of the random draws: seed, epoch, start of the segment.
        delivered: units of each source that came before.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        weights: Sequence[float] | None,
        key: Sequence[int],
        delivered: Sequence[int],
    ) -> None:
        """Find the end of the epoch."""
        left = [size - before for size, before in zip(sizes, delivered, strict=True)]
        shares = [1] * len(left)
        if weights is not None:
            shares = [max(round(weight * _SCALE), 1) if weight > 0 else 0 for weight in weights]
        self._mixture = _core.Mixture(left, shares, list(key), exhaust=weights is None)
        self._before = delivered

    @property
    def size(self) -> int:
        """Draws until the epoch ends."""
        return self._mixture.size

    def sources(self, first: int, count: int) -> list[int]:
        """Return the sources of the draws [first, first + count)."""
        return self._mixture.fill(first, count)

    def delivered(self, draw: int) -> list[int]:
        """Return the units of each source that come before a draw, in the whole epoch."""
        drawn = self._mixture.drawn_before(draw)
        return [before + more for before, more in zip(self._before, drawn, strict=True)]
