# SPDX-License-Identifier: Apache-2.0
"""StreamingDataLoader: batches of a StreamingDataset with exact resume."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from stoker import environment
from stoker.exceptions import InvalidArgumentError
from stoker.streaming._assignment import Cursor
from stoker.streaming.dataset import StreamingDataset


class StreamingDataLoader(DataLoader[Any]):
    """A torch DataLoader whose order and state do not depend on its workers.

    Each ``iter(loader)`` starts the next epoch (1, 2, ...), or goes on where a loaded state stopped. The batches are
    the same for any ``num_workers``. `state_dict` counts samples that were handed out, never those prefetched.

    Args:
        dataset: a StreamingDataset.
        batch_size: samples per batch on this rank; None = samples one by one.
        num_workers: worker processes; 0 = read in this process.
        shuffle, drop_last: when given, set on the dataset.
        collate_fn: list of samples -> batch; None = torch's default.
        **kwargs: every other DataLoader argument (pin_memory, persistent_workers, prefetch_factor, ...).

    Raises:
        RuntimeError: ``dataset`` is something else.
    """

    dataset: StreamingDataset

    def __init__(
        self,
        dataset: StreamingDataset,
        *,
        batch_size: int | None = 1,
        num_workers: int = 0,
        shuffle: bool | None = None,
        drop_last: bool | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Check the dataset; nothing is read and no worker starts."""
        if not isinstance(dataset, StreamingDataset):
            msg = f"StreamingDataLoader takes a StreamingDataset, found {type(dataset).__name__}. Use torch's DataLoader for others."
            raise RuntimeError(msg)  # noqa: TRY004 - the class the field expects here
        if shuffle is not None:
            dataset.set_shuffle(shuffle)
        if drop_last is not None:
            dataset.set_drop_last(drop_last)
        super().__init__(
            dataset, batch_size=batch_size, num_workers=num_workers, collate_fn=collate_fn, **kwargs
        )
        self._batch_samples = batch_size or 1
        self._epoch = 0  # of the running or last iteration; 0 = none yet
        self._next_epoch: int | None = None
        self._resume_at = 0
        self._position = 0
        self._has_run = False

    def __len__(self) -> int:
        """Return the batches of a whole epoch on this rank."""
        return self._cursor(0, 0).num_batches(self.dataset.num_samples)

    def _cursor(self, epoch: int, start: int) -> Cursor:
        world = environment.detect()
        drop_last = self.dataset.drop_last_in(world.world_size)
        return Cursor(epoch, start, self._batch_samples, drop_last, world.rank, world.world_size)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override] # torch promises its own iterator class
        """Start the next epoch, or the rest of a loaded one.

        Raises:
            InvalidArgumentError: drop_last and fewer samples than one batch on every rank need.
        """
        epoch = self._next_epoch if self._next_epoch is not None else self._epoch + 1
        cursor, total = self._cursor(epoch, self._resume_at), self.dataset.num_samples
        if cursor.start == 0 and total and cursor.num_batches(total) == 0:
            msg = (
                f"The dataset has {total} samples, fewer than one global batch of {cursor.global_batch} "
                f"(batch_size {cursor.batch_size} x {cursor.world_size} ranks), and drop_last leaves it out. Use a smaller "
                "batch_size or drop_last=False."
            )
            raise InvalidArgumentError(msg)
        self._epoch, self._next_epoch, self._resume_at = epoch, None, 0
        self._position, self._has_run = cursor.start, True
        return self._counted(cursor, self._start(cursor))

    def _start(self, cursor: Cursor) -> Iterator[Any]:
        """Let torch start (or restart) its iteration with this cursor in the dataset and its workers."""
        dataset = self.dataset
        if self.persistent_workers:
            if dataset._cell is None:  # noqa: SLF001 - one room
                dataset._cell = torch.zeros(2, dtype=torch.int64)  # noqa: SLF001
                dataset._cell.share_memory_()  # type: ignore[no-untyped-call]  # noqa: SLF001
            dataset._cell.copy_(torch.tensor([cursor.epoch, cursor.start]))  # noqa: SLF001
        dataset._cursor = cursor  # noqa: SLF001
        try:
            dataset.open()
            return super().__iter__()
        finally:
            dataset._cursor = None  # noqa: SLF001

    def _counted(self, cursor: Cursor, batches: Iterator[Any]) -> Iterator[Any]:
        end = cursor.end(self.dataset.num_samples)
        position = cursor.start
        for batch in batches:
            position = min(position + cursor.global_batch, end)
            self._position = position
            yield batch
        self._position = self.dataset.num_samples  # samples drop_last left out are not owed

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be epoch ``epoch`` (an int of at least 0) from its start."""
        self.dataset.set_epoch(epoch)
        self._next_epoch, self._resume_at = epoch, 0

    @property
    def current_epoch(self) -> int:
        """Number of the epoch that runs or ran last; 0 before the first iteration."""
        return self._epoch

    def state_dict(self) -> dict[str, Any]:
        """Return what is needed to go on after the batches handed out so far, in any world with any workers.

        A JSON-serializable dict of a few hundred bytes. Call it on any rank: all ranks are at the same global position
        when they have taken the same number of batches.
        """
        if self._next_epoch is not None or not self._has_run:
            epoch = self._next_epoch if self._next_epoch is not None else 1
            return self.dataset.progress(epoch, self._resume_at).to_state()
        return self.dataset.progress(self._epoch, self._position).to_state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration continue after the samples ``state`` counts as delivered.

        A state from the end of an epoch starts the next one. ``state`` is not modified.

        Raises:
            StateMismatchError: the state belongs to another dataset or other options.
        """
        epoch, position = self.dataset.check_state(state)
        if self._cursor(epoch, position).num_batches(self.dataset.num_samples) == 0:
            epoch, position = epoch + 1, 0
        self._next_epoch, self._resume_at = epoch, position
