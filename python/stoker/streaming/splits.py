# SPDX-License-Identifier: Apache-2.0
"""Disjoint parts of one dataset."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np

from stoker.exceptions import InvalidArgumentError
from stoker.streaming._order import checked_seed
from stoker.streaming._selection import Runs
from stoker.streaming._split import part_of, random_state
from stoker.streaming.dataset import StreamingDataset

_ROUNDING = 1e-9  # 0.1 + 0.2 + 0.7 may pass 1 by a little


def train_test_split(
    streaming_dataset: StreamingDataset,
    splits: Sequence[float],
    seed: int = 42,
    shuffle: bool = True,  # noqa: FBT001, FBT002 - the public signature
) -> list[StreamingDataset]:
    """Return one dataset per split, no position of the given one in two of them.

    Chunks are dealt to the splits one after another; at most one chunk is cut between two neighbouring splits. A dataset
    with repeated samples (``subsample`` above 1) may have the same sample in two splits.

    Args:
        streaming_dataset: any StreamingDataset, also a subset, a subsample or a filtered one.
        splits: part of the samples in each split: floats from 0 to 1, adding up to 1 or less. A split of n samples
            holds ``floor(n * part)`` of them.
        seed: of the order of the chunks, 0 <= seed < 2**63: numpy RandomState([seed]).
        shuffle: take the chunks in a random order; False: as they are stored. The datasets' own ``shuffle`` is that of
            the given one.

    Returns:
        Datasets with the options of the given one, before their first epoch. An empty one comes with a warning.

    Raises:
        InvalidArgumentError: an argument that can never work.
    """
    if not isinstance(streaming_dataset, StreamingDataset):
        msg = (
            f"train_test_split takes a StreamingDataset, found {type(streaming_dataset).__name__}."
        )
        raise InvalidArgumentError(msg)
    parts = _checked(splits)
    state = random_state(checked_seed(seed)) if shuffle else None
    everything = streaming_dataset.chunk_order(state)
    datasets, begin = [], 0
    for number, part in enumerate(parts):
        end = min(begin + part_of(everything.size, part), everything.size)
        if begin == end:
            msg = f"Split {number} ({part}) of {everything.size} samples holds none."
            warnings.warn(msg, stacklevel=2)
        run = Runs(np.array([begin]), np.array([end]))
        datasets.append(streaming_dataset.selected(everything.cut(run)))
        begin = end
    return datasets


def _checked(splits: object) -> list[float]:
    if isinstance(splits, np.ndarray):
        splits = list(splits)
    if not isinstance(splits, Sequence) or not splits:
        msg = f"splits={splits!r} must be a list of one float or more."
        raise InvalidArgumentError(msg)
    for part in splits:
        if not isinstance(part, (float, np.floating)) or not 0 <= part <= 1:
            msg = f"splits={splits!r}: each must be a float from 0.0 to 1.0, found {part!r}."
            raise InvalidArgumentError(msg)
    parts = [float(part) for part in splits]
    if math.fsum(parts) > 1 + _ROUNDING:
        msg = f"splits={splits!r} add up to {math.fsum(parts)}, which is more than 1."
        raise InvalidArgumentError(msg)
    return parts
