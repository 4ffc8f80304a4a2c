# SPDX-License-Identifier: Apache-2.0
"""Which samples an epoch will deliver, by number."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from copy import copy
from itertools import islice
from typing import Any

from stoker.exceptions import InvalidArgumentError
from stoker.streaming._assignment import Cursor, Slice
from stoker.streaming._epochs import EpochDataset
from stoker.streaming._rows import Rows
from stoker.streaming._steps import Stepper

_BLOCK = 4096
_MOST_EPOCHS = 1 << 62


def planned_ids(
    dataset: EpochDataset, stepper: Stepper | None, cursor: Cursor, start: int, stop: int | None
) -> list[Any]:
    """Return the samples [start, stop) of those that a whole epoch delivers.

    Args:
        dataset: it and its running iterations stay as they are.
        stepper: makes the batches when they are no plain slices.
        cursor: of one rank in a world of one, from position 0 on.
        start: see `StreamingDataLoader.order`.
        stop: the same.

    Raises:
        InvalidArgumentError: they, or the epoch, are no ints of at least 0; or an endless epoch has no stop.
    """
    for name, value in (("epoch", cursor.epoch), ("start", start), ("stop", stop)):
        if (type(value) is not int or value < 0) and not (name == "stop" and value is None):
            msg = f"{name}={value!r} must be an int of at least 0."
            raise InvalidArgumentError(msg)
    if cursor.epoch >= _MOST_EPOCHS:
        msg = f"epoch={cursor.epoch} must be less than 2**62."
        raise InvalidArgumentError(msg)
    if stop is None and dataset.endless:
        msg = "An epoch without end needs a stop."
        raise InvalidArgumentError(msg)
    planned = copy(dataset)  # to begin an epoch moves where the running one stands
    planned.begin(cursor)
    if stepper is None and not planned.batched:
        batches = _slices(planned, cursor, start, stop)
        start, stop = 0, None
    else:
        batches = (stepper or Stepper()).steps(planned, cursor).batches(0, 1)
    start, stop = min(start, sys.maxsize), None if stop is None else min(stop, sys.maxsize)
    return list(islice((number for rows in batches for number in planned.ids(rows)), start, stop))


def _slices(
    dataset: EpochDataset, cursor: Cursor, start: int, stop: int | None
) -> Iterator[list[Rows]]:
    rows_of, end = dataset.epoch_rows(cursor.epoch), cursor.end(dataset.epoch_samples(cursor.epoch))
    end = end if stop is None else min(end, stop)
    for begin in range(start, end, _BLOCK):
        count = min(_BLOCK, end - begin)
        yield rows_of(Slice(begin, count, 0, count))
