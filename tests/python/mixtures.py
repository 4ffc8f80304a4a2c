# SPDX-License-Identifier: Apache-2.0
"""Datasets for tests of mixtures, and what must hold for whatever mixture of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from datasets import write_dataset
from stoker import CombinedStreamingDataset, StreamingDataset

SIZES = (53, 31, 7)
BIG = (3000, 2000, 1500)
BLOCK = 1024  # samples that hold the shares
WEIGHTS = (0.5, 0.3, 0.2)


def write(folder: Path, sizes: Sequence[int], chunk_size: int) -> list[Path]:
    """Write a dataset of each size; sample i of dataset k is 10,000 k + i."""
    return [
        write_dataset(folder / str(k), range(10_000 * k, 10_000 * k + size), chunk_size=chunk_size)
        for k, size in enumerate(sizes)
    ]


def mix(places: Sequence[Path], weights: Any = None, **options: Any) -> CombinedStreamingDataset:
    members = [StreamingDataset(place, shuffle=True) for place in places]
    options.setdefault("iterate_over_all", weights is None)
    return CombinedStreamingDataset(members, weights=weights, **options)


def numbers(batches: Iterable[Any], count: int | None = None) -> list[int]:
    """Return the samples of the first ``count`` batches; then the loop breaks."""
    return [int(number) for batch in islice(batches, count) for number in batch]


def through_json(state: dict[str, Any]) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(json.dumps(state))
    return loaded


def sources(samples: Iterable[int]) -> list[int]:
    return [sample // 10_000 for sample in samples]


def all_of(sizes: Sequence[int] = SIZES) -> list[int]:
    return [10_000 * k + i for k, size in enumerate(sizes) for i in range(size)]


def check_members(places: Sequence[Path], epoch: int, samples: Sequence[int]) -> None:
    """Every dataset gave the first samples of its own epoch, each once, and in its order."""
    for number, place in enumerate(places):
        alone = StreamingDataset(place, shuffle=True)
        alone.set_epoch(epoch)
        mine = [sample for sample in samples if sample // 10_000 == number]
        assert mine == list(islice(alone, len(mine)))
