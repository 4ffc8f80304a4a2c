# SPDX-License-Identifier: Apache-2.0
"""Parts and multiples of a dataset as lists of item ranges."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from stoker.exceptions import InvalidArgumentError

Ranges = tuple[list[int], list[int]]
_MOST_COPIES = 1_000_000
_HALF = 1 << 32
_ROUNDING = 1e-12  # 0.29 of 100 is 29, whatever float makes of 0.29


def subsample(counts: list[int], fraction: float, *, shuffle: bool, seed: int) -> Ranges:
    """Return (begins, ends): item ranges, none crossing a chunk, that hold ``int(n * fraction)`` items.

    Args:
        counts: items per chunk.
        fraction: > 0. Below 1 the first items are taken, above 1 whole copies and then a part.
        shuffle: take the chunks of each copy in a random order (numpy RandomState([seed]), then [seed, copy]), so the
            part is a random one.
        seed: of that order.

    Raises:
        InvalidArgumentError: ``fraction`` is no float above 0, or above a million.
    """
    if (
        isinstance(fraction, bool)
        or not isinstance(fraction, (int, float))
        or not 0 < fraction <= _MOST_COPIES
    ):
        msg = f"subsample={fraction!r} must be a float with a value greater than 0 (and at most {_MOST_COPIES:,})."
        raise InvalidArgumentError(msg)
    ends = list(accumulate(counts))
    starts = [end - count for end, count in zip(ends, counts, strict=True)]
    if fraction == 1:
        return starts, ends
    wanted = part_of(sum(counts), fraction)
    begins: list[int] = []
    stops: list[int] = []
    copy = 0
    while wanted > 0:
        order = random_state(seed, copy).permutation(len(counts)) if shuffle else range(len(counts))
        for k in order:
            take = min(counts[k], wanted)
            begins.append(starts[k])
            stops.append(starts[k] + take)
            wanted -= take
            if wanted == 0:
                break
        copy += 1
    return begins, stops


def part_of(count: int, fraction: float) -> int:
    """Return the whole part of ``count * fraction``, as if ``fraction`` were the decimal number that was meant."""
    return int(count * fraction * (1 + _ROUNDING))


def random_state(seed: int, copy: int = 0) -> np.random.RandomState:
    """Return numpy's RandomState([seed]), or [seed, copy] for copies after the first; seeds have up to 63 bits."""
    low, high = seed % _HALF, seed // _HALF  # RandomState takes 32 bits at a time
    return np.random.RandomState([low, *([high] if high else []), *([copy] if copy else [])])
