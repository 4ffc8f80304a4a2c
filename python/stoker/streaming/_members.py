# SPDX-License-Identifier: Apache-2.0
"""The datasets that a composed dataset is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.exceptions import InvalidArgumentError
from stoker.streaming._epochs import EpochDataset
from stoker.streaming._order import ShuffleMode
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


class ComposedDataset(EpochDataset):
    """What all datasets made of others have in common.

    Args:
        owner: name of the kind, for messages.
        datasets: its members.
        drop_last: as for StreamingDataset.
    """

    def __init__(self, owner: str, datasets: object, drop_last: bool | None) -> None:  # noqa: FBT001 - one of the public arguments
        """Check the members."""
        super().__init__(drop_last)
        self._datasets = checked_members(owner, datasets)

    @property
    def datasets(self) -> tuple[StreamingDataset, ...]:
        """The members."""
        return self._datasets

    def set_shuffle(self, shuffle: ShuffleMode) -> None:
        """Shuffle all members or none, from the next iteration on."""
        for dataset in self._datasets:
            dataset.set_shuffle(shuffle)

    def open(self) -> None:
        """Make native readers now, so that forked workers share them."""
        for dataset in self._datasets:
            dataset.open()

    def close(self) -> None:
        """Close all files; they open again when needed."""
        for dataset in self._datasets:
            dataset.close()
