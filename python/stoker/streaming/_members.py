# SPDX-License-Identifier: Apache-2.0
"""The datasets that a composed dataset is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.exceptions import InvalidArgumentError
from stoker.streaming.dataset import StreamingDataset


def checked_members(owner: str, datasets: object) -> tuple[StreamingDataset, ...]:
    """Return the members of a composed dataset.

    Raises:
        RuntimeError: one is no StreamingDataset.
        InvalidArgumentError: there are none, or one holds no samples.
    """
    if not isinstance(datasets, Sequence) or not datasets:
        msg = f"{owner} takes a list of one StreamingDataset or more, found {datasets!r}."
        raise InvalidArgumentError(msg)
    for number, dataset in enumerate(datasets):
        if not isinstance(dataset, StreamingDataset):
            msg = f"{owner} takes StreamingDatasets; number {number} is a {type(dataset).__name__}."
            raise RuntimeError(msg)  # noqa: TRY004 - the class the field expects here
        if dataset.num_samples == 0:
            msg = f"{owner}: dataset {number} ({dataset.input_dir.path}) holds no samples. Leave it out."
            raise InvalidArgumentError(msg)
    return tuple(datasets)


def member_states(datasets: Sequence[StreamingDataset]) -> list[dict[str, Any]]:
    """Return what the members' orders are made from."""
    states = []
    for dataset in datasets:
        state = dataset.progress(0, 0).to_state()
        for place in ("state_version", "epoch", "position"):
            del state[place]
        states.append(state)
    return states


def open_members(datasets: Sequence[StreamingDataset]) -> None:
    """Make native readers now."""
    for dataset in datasets:
        dataset.open()
