# SPDX-License-Identifier: Apache-2.0
"""What every dataset with epochs has in common: whose turn it is, what was delivered, where a state goes on."""

from __future__ import annotations

import json
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import torch
from torch.utils.data import IterableDataset

from stoker import environment
from stoker.exceptions import InvalidArgumentError
from stoker.streaming._assignment import Cursor
from stoker.streaming._order import ShuffleMode
from stoker.streaming._progress import Progress

OnError = Literal["raise", "skip"]
_CELL_BYTES = 1 << 16


class SharedCell:
    """Settings of the iteration to come, for workers that live on: JSON in memory shared with them."""

    def __init__(self) -> None:
        """Make an empty cell."""
        self._memory = torch.zeros(_CELL_BYTES, dtype=torch.uint8)
        self._memory.share_memory_()  # type: ignore[no-untyped-call]

    def set(self, settings: dict[str, Any]) -> None:
        """Let workers see ``settings`` when they start their next iteration."""
        text = json.dumps(settings).encode()
        if len(text) > _CELL_BYTES - 8:
            msg = f"The settings of an iteration take {len(text)} bytes; {_CELL_BYTES - 8} are possible. Use persistent_workers=False."
            raise InvalidArgumentError(msg)
        data = len(text).to_bytes(8, "little") + text
        self._memory[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)

    def get(self) -> dict[str, Any]:
        """Return what was set last."""
        data = self._memory.numpy().tobytes()
        settings: dict[str, Any] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return settings


class EpochDataset(IterableDataset[Any]):
    """A dataset of numbered epochs, each a fixed sequence of positions.

    Ranks and DataLoader workers share the positions. `StreamingDataLoader` lends a cursor for exact batches; without it
    a plain iteration counts for itself.
    """

    def __init__(self, drop_last: bool | None) -> None:  # noqa: FBT001 - one of the public arguments
        """Start before epoch 1."""
        super().__init__()
        self._drop_last = drop_last if drop_last is None else checked_flag("drop_last", drop_last)
        self._next_epoch = 1
        self._resume_at = 0
        self._loaded = False  # a state was loaded and not used yet
        self._position: tuple[int, int] | None = (
            None  # (epoch, samples) of the running plain iteration
        )
        self._cursor: Cursor | None = None  # these three are set by StreamingDataLoader
        self._cell: SharedCell | None = None
        self._on_error: OnError = "raise"

    # ---- what a kind of dataset says

    @abstractmethod
    def epoch_samples(self, epoch: int) -> int:
        """Return the samples of an epoch, on all ranks together."""

    @abstractmethod
    def samples(
        self, cursor: Cursor, worker: int, num_workers: int, on_error: OnError
    ) -> Iterator[Any]:
        """Return an iterator over what one worker of a rank delivers. Later settings do not touch it."""

    @abstractmethod
    def progress(self, epoch: int, position: int) -> Progress:
        """Return a state of this dataset and its options."""

    @abstractmethod
    def check_state(self, state: dict[str, Any]) -> tuple[int, int]:
        """Return (epoch, position) of a state that fits this dataset; see `load_state_dict`."""

    @abstractmethod
    def set_shuffle(self, shuffle: ShuffleMode) -> None:
        """Shuffle or not from the next iteration on."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return what workers that live on need to know, as plain values."""

    @abstractmethod
    def adopt(self, settings: dict[str, Any]) -> None:
        """Take over `settings` of the same dataset in another process."""

    @abstractmethod
    def open(self) -> None:
        """Make native readers now, so that forked workers share them and what they have verified."""

    @abstractmethod
    def close(self) -> None:
        """Close all files; they open again when needed."""

    def random_order(self) -> bool:
        """Return whether epochs differ."""
        return True

    # ---- iterating

    def drop_last_in(self, world_size: int) -> bool:
        """Return whether incomplete global batches are left out in a world of this size."""
        return world_size > 1 if self._drop_last is None else self._drop_last

    def _own_cursor(self, start: int) -> Cursor:
        """Return the cursor of an iteration without a StreamingDataLoader."""
        world = environment.detect()
        drop_last = self.drop_last_in(world.world_size)
        return Cursor(self._next_epoch, start, 1, drop_last, world.rank, world.world_size)

    def __len__(self) -> int:
        """Return the samples this rank iterates over in an epoch."""
        cursor = self._own_cursor(0)
        return cursor.num_samples(self.epoch_samples(cursor.epoch))

    def __iter__(self) -> Iterator[Any]:
        """Start an epoch: the next one, or the rest of one after `load_state_dict`.

        Without StreamingDataLoader the epoch number rises when an epoch was iterated to its end.
        """
        world = environment.detect()
        cursor = self._cursor
        if cursor is None:
            if world.in_worker and (self._resume_at or self.random_order()):
                warn_of_copies()
            cursor = self._own_cursor(self._resume_at)
            self._resume_at, self._loaded = 0, False
            self._position = (cursor.epoch, cursor.start)
            return self._counted(
                cursor, self.samples(cursor, world.worker, world.num_workers, self._on_error)
            )
        if self._cell is not None:
            shared = self._cell.get()
            cursor = replace(cursor, **shared["cursor"])
            self.adopt(shared["settings"])
        return self.samples(cursor, world.worker, world.num_workers, self._on_error)

    def _counted(self, cursor: Cursor, samples: Iterator[Any]) -> Iterator[Any]:
        """Keep count for `state_dict` and move to the next epoch at the end."""
        position, total = cursor.start, self.epoch_samples(cursor.epoch)
        for sample in samples:
            position = min(position + cursor.world_size, cursor.end(total))
            self._position = (cursor.epoch, position)
            yield sample
        self._position = (cursor.epoch, total)
        self._next_epoch = cursor.epoch + 1

    @contextmanager
    def lent_to_loader(
        self, cursor: Cursor, cell: SharedCell | None, on_error: OnError
    ) -> Iterator[None]:
        """Let iterations (and workers) that start inside belong to a StreamingDataLoader."""
        if cell is not None:
            shared = {"epoch": cursor.epoch, "start": cursor.start, "drop_last": cursor.drop_last}
            cell.set({"cursor": shared, "settings": self.settings()})
        self._cursor, self._cell, self._on_error = cursor, cell, on_error
        try:
            yield
        finally:
            self._cursor, self._cell, self._on_error = None, None, "raise"

    # ---- epochs and states

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be epoch ``epoch`` (an int of at least 0) from its start."""
        if isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 0:
            msg = f"epoch={epoch!r} must be an int of at least 0."
            raise InvalidArgumentError(msg)
        self._next_epoch, self._resume_at, self._position = epoch, 0, None

    @property
    def current_epoch(self) -> int:
        """Number of the epoch the next iteration starts or continues; the first is 1."""
        return self._next_epoch

    def set_drop_last(self, drop_last: bool) -> None:  # noqa: FBT001 - the public signature
        """Leave out incomplete global batches or not, from the next iteration on."""
        self._drop_last = checked_flag("drop_last", drop_last)

    def state_dict(self) -> dict[str, Any]:
        """Return where a plain iteration over this dataset stands. With a StreamingDataLoader ask the loader.

        Raises:
            RuntimeError: inside a DataLoader worker, which does not know what was delivered.
        """
        if environment.detect().in_worker:
            msg = "state_dict() must be called in the main process: a worker does not know what was delivered."
            raise RuntimeError(msg)
        epoch, position = self._position or (self._next_epoch, self._resume_at)
        return self.progress(epoch, position).to_state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after the samples that ``state`` counts as delivered.

        Raises:
            StateMismatchError: the state belongs to another dataset or other options.
        """
        epoch, position = self.check_state(state)
        self._position = None
        end = self._own_cursor(position).end(self.epoch_samples(epoch))
        self._next_epoch, self._resume_at = (epoch + 1, 0) if position >= end else (epoch, position)
        self._loaded = True

    def take_loaded_state(self) -> tuple[int, int] | None:
        """Return (epoch, position) of a state loaded here that no iteration has used yet, once."""
        if not self._loaded:
            return None
        self._loaded = False
        found = self._next_epoch, self._resume_at
        self._resume_at = 0
        return found


def checked_flag(name: str, value: object) -> bool:
    """Return ``value``.

    Raises:
        InvalidArgumentError: it is no bool.
    """
    if not isinstance(value, bool):
        msg = f"{name}={value!r} must be a bool."
        raise InvalidArgumentError(msg)
    return value


def warn_of_copies() -> None:
    """Warn that plain torch workers start every epoch alike."""
    warnings.warn(
        "torch's DataLoader starts every epoch with a copy of this dataset as it was in the main process: the order, and "
        "what a loaded state left out, is the same each time. Use StreamingDataLoader.",
        stacklevel=3,
    )
