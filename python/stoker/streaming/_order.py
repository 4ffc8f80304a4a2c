# SPDX-License-Identifier: Apache-2.0
"""The options that make the order of a dataset's samples, checked, and the plans made from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from stoker import _core
from stoker.config import Settings
from stoker.exceptions import InvalidArgumentError
from stoker.streaming._assignment import Cursor

ShuffleMode = bool | Literal["full"]
STREAMS = 8
SHUFFLE_MODES: tuple[ShuffleMode, ...] = (False, True, "full")  # by their number


@dataclass(frozen=True, slots=True)
class Order:
    """What, with the index and the number of an epoch, decides which sample comes when.

    Attributes:
        shuffle: False; True: windows of chunks in streams; "full": any sample anywhere.
        seed: of the shuffle.
        window: chunks of a stream whose samples are mixed.
        streams: read side by side; a node of a cluster reads its share of them.
    """

    shuffle: ShuffleMode
    seed: int
    window: int
    streams: int

    def of_epoch(self, epoch: int) -> tuple[int, int, int, int, int]:
        """Return the options as `stoker._core` takes them."""
        return SHUFFLE_MODES.index(self.shuffle), self.seed, epoch, self.window, self.streams


def checked_order(
    shuffle: object, seed: object, num_canonical_nodes: object, item_shuffle_window: object
) -> Order:
    """Return the order of the public arguments.

    Raises:
        InvalidArgumentError: one of them can never work.
    """
    if num_canonical_nodes is not None and (
        type(num_canonical_nodes) is not int or not 1 <= num_canonical_nodes < 1 << 16
    ):
        msg = f"num_canonical_nodes={num_canonical_nodes!r} must be an int from 1 to 65535, or None for {STREAMS}."
        raise InvalidArgumentError(msg)
    if item_shuffle_window not in (None, "full") and (
        type(item_shuffle_window) is not int or item_shuffle_window < 0
    ):
        msg = f"item_shuffle_window={item_shuffle_window!r} must be an int of at least 0, 'full' or None."
        raise InvalidArgumentError(msg)
    streams = num_canonical_nodes if isinstance(num_canonical_nodes, int) else STREAMS
    return Order(checked_shuffle(shuffle), checked_seed(seed), Settings.from_env().window, streams)


def checked_seed(seed: object) -> int:
    """Return ``seed``.

    Raises:
        InvalidArgumentError: it is no int from 0 to 2**63 - 1.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 63:
        msg = f"seed={seed!r} must be an int from 0 to 2**63 - 1."
        raise InvalidArgumentError(msg)
    return seed


def checked_shuffle(shuffle: object) -> ShuffleMode:
    """Return ``shuffle``.

    Raises:
        InvalidArgumentError: it is none of False, True and "full".
    """
    if isinstance(shuffle, bool):
        return shuffle
    if shuffle == "full":
        return "full"
    msg = f"shuffle={shuffle!r} must be a bool, or 'full'."
    raise InvalidArgumentError(msg)


def planned(
    plan: _core.EpochPlan, cursor: Cursor, worker: int, num_workers: int
) -> Iterator[tuple[int, int]]:
    """Yield (position in the epoch, item number) of what one worker of a rank delivers."""
    for part in cursor.slices(plan.size, worker, num_workers):
        if part.rows == part.size:
            yield from enumerate(plan.fill(part.begin, part.rows), part.begin)
        else:
            yield from zip(*plan.rows(*part), strict=True)
