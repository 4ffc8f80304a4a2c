# SPDX-License-Identifier: Apache-2.0
"""What every dataset with epochs has in common: whose turn it is, what was delivered, where a state goes on."""

from __future__ import annotations

import json
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, Literal

import torch
from torch.utils.data import IterableDataset

from stoker import environment
from stoker.exceptions import InvalidArgumentError
from stoker.streaming._assignment import Cursor
from stoker.streaming._handed import Handed, Loaded, marks_of
from stoker.streaming._order import ShuffleMode
from stoker.streaming._progress import Progress, check_fields
from stoker.streaming._rows import Rows, RowsOf
from stoker.streaming._steps import Mark, SliceSteps, Stepper, Steps, check_equal_steps

OnError = Literal["raise", "skip"]
_CELL_BYTES = 1 << 16
_MOST_EPOCHS = 1 << 62


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
        self._loaded: Loaded | None = None
        self._handed: Handed | None = None  # by the running or last plain iteration
        self._changes = 0
        self._cursor: Cursor | None = None  # these four are set by StreamingDataLoader
        self._cell: SharedCell | None = None
        self._on_error: OnError = "raise"
        self._stepper: Stepper | None = None

    # ---- what a kind of dataset says

    @abstractmethod
    def epoch_samples(self, epoch: int) -> int:
        """Return the samples of an epoch, on all ranks together."""

    @property
    @abstractmethod
    def groups(self) -> tuple[tuple[Any, ...], ...]:
        """The StreamingDatasets that are read, in groups side by side; what `Rows` call parts."""

    @abstractmethod
    def epoch_rows(self, epoch: int) -> RowsOf:
        """Return which samples make up a slice of an epoch. Later settings do not touch it."""

    @abstractmethod
    def read_rows(self, rows: list[Rows], on_error: OnError) -> Iterator[Any]:
        """Return an iterator over the samples of rows."""

    def samples(
        self, cursor: Cursor, worker: int, num_workers: int, on_error: OnError
    ) -> Iterator[Any]:
        """Return an iterator over what one worker of a rank delivers. Later settings do not touch it."""
        if self.batched:
            batches = self.steps(cursor).batches(worker, num_workers)
            return (sample for rows in batches for sample in self.read_rows(rows, on_error))
        rows_of, total = self.epoch_rows(cursor.epoch), self.epoch_samples(cursor.epoch)

        def read() -> Iterator[Any]:
            for part in cursor.slices(total, worker, num_workers):
                yield from self.read_rows(rows_of(part), on_error)

        return read()

    @abstractmethod
    def ids(self, rows: list[Rows]) -> Iterable[Any]:
        """Return what people call the samples of rows, see `StreamingDataLoader.order`."""

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

    @property
    def python_transform(self) -> str | None:
        """Name of a Python function that makes samples of what the groups give; None = there is none."""
        return None

    def random_order(self) -> bool:
        """Return whether epochs differ."""
        return True

    # ---- what some kinds do in their own way

    def whole_epoch_samples(self, epoch: int) -> int:
        """Return the samples of an epoch begun at its start with the options as they are now, on all ranks together."""
        return self.epoch_samples(epoch)

    @property
    def side_by_side(self) -> bool:
        """Whether a sample is a tuple of one of each group, also when there is one group only."""
        return False

    @property
    def endless(self) -> bool:
        """Whether an epoch has no end."""
        return False

    @property
    def batched(self) -> bool:
        """Whether batches are more than slices of the positions: then `steps` says what they are."""
        return False

    def steps(self, cursor: Cursor) -> Steps:
        """Return the batches of the rest of an epoch. Later settings do not touch them."""
        return SliceSteps(self, cursor)

    @property
    def changes(self) -> int:
        """How often something was set that holds at once, also for an iteration that runs."""
        return self._changes

    def begin(self, cursor: Cursor) -> None:
        """Get ready for an iteration."""

    def restore(self, start: Progress) -> None:
        """Go back to what held in the epoch of a state of this dataset and its options."""

    def rebase(self, start: Progress, position: int) -> None:
        """Let what was set hold from this position on in the epoch that began with ``start``."""

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
        if self.batched:
            return self.steps(cursor).count()  # of one sample each
        return cursor.num_samples(self.whole_epoch_samples(cursor.epoch))

    def __iter__(self) -> Iterator[Any]:
        """Start an epoch: the next one, or the rest of one after `load_state_dict`.

        Without StreamingDataLoader the epoch number rises when an epoch was iterated to its end.
        """
        world = environment.detect()
        cursor = self._cursor
        if cursor is None:
            if world.in_worker and (self._loaded or self.random_order()):
                warn_of_copies()
            loaded, self._loaded = self._loaded, None
            cursor = self._own_cursor(0 if loaded is None else self.resumed(loaded))
            if cursor.start and self.steps(cursor).over():  # what is left is less than a batch
                self._next_epoch += 1
                cursor = self._own_cursor(0)
            samples, self._handed = self._begun(cursor)
            return self._counted(cursor, samples, self._handed)
        if self._cell is not None:
            shared = self._cell.get()
            cursor = Cursor(**shared["cursor"] | {"sizes": tuple(shared["cursor"]["sizes"])})
            self.adopt(shared["settings"])
            if self._stepper is not None:
                self._stepper.adopt(shared["stepper"])
        if self._stepper is not None:
            steps = self._stepper.steps(self, cursor)
            return self._lists(steps.batches(world.worker, world.num_workers), self._on_error)
        return self.samples(cursor, world.worker, world.num_workers, self._on_error)

    def _lists(self, batches: Iterator[list[Rows]], on_error: OnError) -> Iterator[list[Any]]:
        """Yield the samples of each batch."""
        for rows in batches:
            yield list(self.read_rows(rows, on_error))

    def _begun(self, cursor: Cursor) -> tuple[Iterator[Any], Handed]:
        """Start reading without a StreamingDataLoader."""
        self.begin(cursor)
        world = environment.detect()
        samples = self.samples(cursor, world.worker, world.num_workers, self._on_error)
        start, total = self.progress(cursor.epoch, cursor.start), self.epoch_samples(cursor.epoch)
        steps = self.steps(cursor) if self.batched else None
        if steps is not None:
            check_equal_steps(steps, cursor)
        return samples, Handed(start, total, self.changes, steps, Mark(cursor.start))

    def _counted(self, cursor: Cursor, samples: Iterator[Any], handed: Handed) -> Iterator[Any]:
        """Keep count for `state_dict` and move to the next epoch at the end."""
        marks = marks_of(cursor, handed)
        while True:
            if handed.changes != self.changes and self._handed is handed:
                self.check_order(handed.start)
                self.rebase(handed.start, handed.position)
                cursor = replace(cursor, start=handed.position)
                samples, handed = self._begun(cursor)
                self._handed = handed
                marks = marks_of(cursor, handed)
            try:
                sample = next(samples)
            except StopIteration:
                break
            handed.mark = next(marks)
            yield sample
        handed.finished = True
        if self._handed is handed:
            self._next_epoch = cursor.epoch + 1

    @contextmanager
    def lent_to_loader(
        self,
        cursor: Cursor,
        cell: SharedCell | None,
        on_error: OnError,
        stepper: Stepper | None = None,
    ) -> Iterator[None]:
        """Let iterations (and workers) that start inside belong to a StreamingDataLoader.

        With a stepper they yield whole batches, as lists of samples.
        """
        if cell is not None:
            stepping = None if stepper is None else stepper.settings()
            cell.set({"cursor": asdict(cursor), "settings": self.settings(), "stepper": stepping})
        self._cursor, self._cell, self._on_error = cursor, cell, on_error
        self._stepper = stepper
        try:
            yield
        finally:
            self._cursor, self._cell, self._on_error = None, None, "raise"
            self._stepper = None

    # ---- epochs and states

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be epoch ``epoch`` (an int of at least 0) from its start."""
        if isinstance(epoch, bool) or not isinstance(epoch, int) or not 0 <= epoch < _MOST_EPOCHS:
            msg = f"epoch={epoch!r} must be an int of at least 0 and less than 2**62."
            raise InvalidArgumentError(msg)
        self._next_epoch, self._loaded, self._handed = epoch, None, None

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
        if self._loaded is not None:
            return self.state_at(self._loaded)
        if self._handed is None:
            return self.progress(self._next_epoch, 0).to_state()
        return self.state_of(self._handed)

    def resumed(self, loaded: Loaded) -> int:
        """Get ready to go on with a loaded state, and return its position; what was set since holds from there on."""
        start = loaded.start
        self.check_order(start)
        if loaded.changes == self.changes:
            self.restore(start)
        else:
            self.rebase(start, start.position)
        return start.position

    def check_order(self, start: Progress) -> None:
        """Check that an epoch that began (or was left) with ``start`` can go on in the order of the options of now.

        Raises:
            StateMismatchError: an option was changed since.
        """
        now = self.progress(start.epoch, 0).to_state()
        check_fields(
            start.to_state(),
            {key: value for key, value in now.items() if key not in ("segment", "set_weights")},
            force=False,
            where=" of the epoch that goes on",
        )

    def state_at(self, loaded: Loaded) -> dict[str, Any]:
        """Return a loaded state; what was set since holds from there on."""
        if loaded.changes == self.changes:
            return loaded.start.to_state()
        return self.progress(loaded.start.epoch, self.resumed(loaded)).to_state()

    def state_of(self, handed: Handed) -> dict[str, Any]:
        """Return the state after what an iteration has handed out; what was set since holds from there on."""
        if handed.changes == self.changes:
            return handed.progress().to_state() | handed.added()
        if handed.finished:
            return self.progress(handed.start.epoch + 1, 0).to_state()
        self.check_order(handed.start)
        self.rebase(handed.start, handed.position)
        return self.progress(handed.start.epoch, handed.position).to_state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after the samples that ``state`` counts as delivered.

        Raises:
            StateMismatchError: the state belongs to another dataset or other options.
        """
        epoch, position = self.check_state(state)
        self._handed = None
        if position and position >= self.epoch_samples(epoch):
            epoch, position = epoch + 1, 0
        self._next_epoch = epoch
        self._loaded = Loaded(self.progress(epoch, position), self.changes)

    @property
    def loaded_state(self) -> Loaded | None:
        """A state loaded here that no iteration has used yet."""
        return self._loaded

    def take_loaded_state(self) -> Loaded | None:
        """Return `loaded_state`, once."""
        loaded, self._loaded = self._loaded, None
        return loaded


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
