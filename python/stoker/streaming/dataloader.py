# SPDX-License-Identifier: Apache-2.0
"""StreamingDataLoader: batches of a StreamingDataset with exact resume."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

import torch
from torch.utils.data import DataLoader, default_collate

from stoker import _core, environment
from stoker.config import usable_cpus
from stoker.exceptions import ClosedError, InvalidArgumentError
from stoker.streaming._assignment import Cursor
from stoker.streaming._epochs import EpochDataset, OnError, SharedCell
from stoker.streaming._loader_stats import LoaderStats
from stoker.streaming._native_batch import DEPTH, BatchPlan, NativeBatches, NotNativeError
from stoker.streaming._order import ShuffleMode
from stoker.streaming._progress import Progress
from stoker.streaming._skipping import (
    Skipped,
    SkippingCollate,
    past_skipped,
    without_skipped,
)
from stoker.streaming._transformed import transformed
from stoker.streaming.dataset import StreamingDataset

Backend = Literal["auto", "native", "torch"]


@dataclass(slots=True)
class _Handed:
    """What one iteration has handed out. Of its own, so that an older iterator never moves a newer one's.

    Attributes:
        start: the state it began with.
        position: samples of the epoch, on all ranks.
        closed: by the loader, in between.
    """

    start: Progress
    position: int
    closed: bool = False


class StreamingDataLoader(DataLoader[Any]):
    """Batches of a StreamingDataset, whose order, contents and state do not depend on workers.

    Each ``iter(loader)`` starts the next epoch (1, 2, ...), or goes on where a loaded state stopped. `state_dict` counts
    samples that were handed out, never those prefetched.

    Two backends give the same batches. "native": C++ threads of this process read, decode and transform straight into
    batch tensors; for samples of numbers, text, bytes, arrays, tensors, JPEGs and tokens, with the transforms of
    `stoker.vision`. "torch": worker processes, for everything else. `explain` says which one runs and why.

    Args:
        dataset: a StreamingDataset, CombinedStreamingDataset or ParallelStreamingDataset.
        batch_size: samples per batch on this rank; None = samples one by one.
        num_workers: native: threads (None = the CPU cores this process may use, divided by the ranks of this machine; 0
            = decode in the caller's thread). torch: processes (None = 0 = read in this process).
        shuffle, drop_last: when given, set on the dataset.
        collate_fn: list of samples -> batch; None = torch's default.
        backend: "auto" takes native whenever it gives the same batches.
        batch_transform: batch -> batch, run on a thread beside the training loop, one batch after another.
        on_error: "skip" leaves damaged samples out of their batch (see `stats`); the positions of the others and of a
            resume stay what they are. Missing files and failing functions raise all the same.
        **kwargs: every other DataLoader argument (pin_memory, persistent_workers, prefetch_factor, ...).

    Raises:
        RuntimeError: ``dataset`` is something else.
        InvalidArgumentError: an argument that can never work.
    """

    dataset: EpochDataset

    def __init__(
        self,
        dataset: EpochDataset,
        *,
        batch_size: int | None = 1,
        num_workers: int | None = None,
        shuffle: ShuffleMode | None = None,
        drop_last: bool | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        backend: Backend = "auto",
        batch_transform: Callable[[Any], Any] | None = None,
        on_error: OnError = "raise",
        **kwargs: Any,
    ) -> None:
        """Check the arguments; nothing is read and no worker starts."""
        if not isinstance(dataset, EpochDataset):
            msg = (
                "StreamingDataLoader takes a StreamingDataset, CombinedStreamingDataset or ParallelStreamingDataset, found "
                f"{type(dataset).__name__}. Use torch's DataLoader for others."
            )
            raise RuntimeError(msg)  # noqa: TRY004 - the class the field expects here
        _check_choice("backend", backend, ("auto", "native", "torch"))
        _check_choice("on_error", on_error, ("raise", "skip"))
        if shuffle is not None:
            dataset.set_shuffle(shuffle)
        if drop_last is not None:
            dataset.set_drop_last(drop_last)
        if kwargs.get("in_order") is False:
            msg = (
                "in_order=False cannot be resumed exactly: batches would come in the order of luck."
            )
            raise InvalidArgumentError(msg)
        self._given_workers = num_workers
        self._not_native = _reason_against(batch_size, collate_fn, kwargs)
        self._backend, self._on_error = backend, on_error
        self._batch_transform = batch_transform
        if on_error == "skip" and batch_size is not None:
            collate_fn = SkippingCollate(collate_fn or default_collate)
        with warnings.catch_warnings():
            if backend != "torch":  # they may become threads; `_decision` warns when they do not
                warnings.filterwarnings("ignore", message="This DataLoader will create")
            super().__init__(
                dataset,
                batch_size=_countable(batch_size, dataset),
                num_workers=num_workers or 0,
                collate_fn=collate_fn,
                **kwargs,
            )
        self._batch_samples = batch_size or 1
        self._plan: BatchPlan | None = None
        self._decided: str | None = None  # the sentence of `explain`
        self._stats = LoaderStats("torch")
        self._running: NativeBatches | None = None
        self._cell: SharedCell | None = None  # for persistent workers
        self._handed: _Handed | None = None  # by the running or last iteration
        # What `state_dict` tells: the (epoch, position) that was set, or what was handed out since. One assignment
        # changes it, so Ctrl-C finds it whole.
        self._at: tuple[int, int] | _Handed | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle options and state; a running iteration and its memory stay in this process."""
        fresh = {
            "_plan": None,
            "_decided": None,
            "_running": None,
            "_cell": None,
            "_iterator": None,
        }
        return {**self.__dict__, **fresh}

    def __len__(self) -> int:
        """Return the batches of a whole epoch on this rank."""
        epoch = self._at[0] if isinstance(self._at, tuple) else max(self.current_epoch, 1)
        return self._cursor(epoch, 0).num_batches(self.dataset.epoch_samples(epoch))

    def _cursor(self, epoch: int, start: int) -> Cursor:
        world = environment.detect()
        drop_last = self.dataset.drop_last_in(world.world_size)
        return Cursor(epoch, start, self._batch_samples, drop_last, world.rank, world.world_size)

    # ---- backend

    def explain(self) -> str:
        """Return which backend runs and why, in one sentence. Reads the first sample."""
        return self._decide()

    def _decide(self) -> str:
        if self._decided is None:
            self._decided = self._decision()
        return self._decided

    def _decision(self) -> str:
        reason = "backend='torch' was asked for" if self._backend == "torch" else self._not_native
        if reason is None:
            try:
                self._plan = _native_plan(self.dataset, self._batch_samples)
            except NotNativeError as error:
                reason = str(error)
        if self._plan is not None:
            threads = self._threads()
            who = f"{threads} threads" if threads > 1 else "1 thread" if threads else "this thread"
            return f"native: {who} in C++ decode {self._plan.describe()} into batches."
        if self._backend == "native":
            msg = f"backend='native' cannot build these batches: {reason}. Use backend='auto'."
            raise InvalidArgumentError(msg)
        if self._backend == "auto":
            self.check_worker_number_rationality()
        where = f"{self.num_workers} worker processes" if self.num_workers else "this process"
        return f"torch: {where} build the batches in Python, because {reason}."

    def _threads(self) -> int:
        if self._given_workers is not None:
            return self._given_workers
        return max(usable_cpus() // environment.local_world_size(), 1)

    # ---- iteration

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override] # torch promises its own iterator class
        """Start the next epoch, or the rest of a loaded one.

        Raises:
            InvalidArgumentError: drop_last and fewer samples than one batch on every rank need; or backend="native" for
                samples that only Python can read.
        """
        self._adopt_state_of_dataset()
        at = self._at
        epoch, start = at if isinstance(at, tuple) else (self.current_epoch + 1, 0)
        cursor, total = self._cursor(epoch, start), self.dataset.epoch_samples(epoch)
        if cursor.start == 0 and total and cursor.num_batches(total) == 0:
            _raise_too_few(cursor, total)
        if total:
            self._decide()
        batches = self._start(cursor)
        handed = _Handed(self.dataset.progress(epoch, start), start)
        self._handed = handed
        if self._batch_transform is not None:
            batches = transformed(batches, past_skipped(self._batch_transform))
        self._at = handed
        return self._counted(cursor, batches, handed)

    def _adopt_state_of_dataset(self) -> None:
        """Continue where a state loaded into the dataset, and not into this loader, stopped."""
        loaded = self.dataset.take_loaded_state()
        if loaded is not None and not isinstance(self._at, tuple):
            self._at = loaded

    def _start(self, cursor: Cursor) -> Iterator[Any]:
        if self._plan is not None and isinstance(self.dataset, StreamingDataset):
            return self._start_native(cursor, self._plan, self.dataset)
        self._running, self._stats = None, LoaderStats("torch")
        batches = self._start_torch(cursor)
        return without_skipped(batches, self._stats) if self._on_error == "skip" else batches

    def _start_native(
        self, cursor: Cursor, plan: BatchPlan, dataset: StreamingDataset
    ) -> Iterator[Any]:
        threads = self._threads()
        pin_memory = bool(self.pin_memory) and torch.cuda.is_available()

        def engine(start: int) -> Any:
            return dataset.batch_engine(
                plan,
                cursor,
                start,
                threads=threads,
                depth=DEPTH,
                skip_corrupt=self._on_error == "skip",
                offered_slabs=pin_memory,
            )

        depth = DEPTH if threads else 1
        batches = NativeBatches(plan, engine, cursor, pin_memory=pin_memory, depth=depth)
        self._running, self._stats = batches, LoaderStats("native", threads=threads)
        return batches

    def _start_torch(self, cursor: Cursor) -> Iterator[Any]:
        """Let torch start (or restart) its iteration with this cursor in the dataset and its workers."""
        dataset = self.dataset
        if self.persistent_workers and self._cell is None:
            self._cell = SharedCell()
        with dataset.lent_to_loader(cursor, self._cell, self._on_error):
            dataset.open()
            return super().__iter__()

    def _counted(self, cursor: Cursor, batches: Iterator[Any], handed: _Handed) -> Iterator[Any]:
        total = self.dataset.epoch_samples(cursor.epoch)
        end = cursor.end(total)
        position, stats = cursor.start, self._stats
        while True:
            asked = time.perf_counter()
            if handed.closed:
                msg = "The loader was closed during this iteration; start a new one to read on."
                raise ClosedError(msg)
            try:
                batch = next(batches)
            except StopIteration:
                break
            position = min(position + cursor.global_batch, end)
            if isinstance(batch, Skipped):
                handed.position = position
                continue
            stats.took(time.perf_counter() - asked)
            # Ctrl-C may strike at any call, so there is none between the two: what is counted is handed out.
            handed.position = position
            yield batch
        handed.position = total  # samples drop_last left out are not owed

    def stats(self) -> dict[str, Any]:
        """Return where the time of the running or last iteration went.

        Keys: ``backend``, ``batches``, ``skipped`` (damaged samples left out), ``elapsed_s``, ``consumer_wait_s`` (the
        training loop waited for a batch) and, native only, summed over all threads: ``wait_data_s`` (threads had
        nothing to do), ``read_s`` (open, check and decompress chunks), ``decode_s`` (JPEG to pixels), ``resample_s``
        (resize, colours, normalise, store images), ``store_s`` (other leaves), ``wait_consumer_s`` (batches were full),
        ``bytes_read``, ``samples`` and ``queued`` (batches ready now); and ``verdict``: what the loop is bound by.
        """
        return self._stats.summary(self._running.stats() if self._running is not None else None)

    def close(self) -> None:
        """End a running iteration, its threads and the dataset's files. Batches handed out stay valid.

        Not needed: threads also end when an iteration ends or is dropped. An iterator that is asked again raises
        ClosedError; a new iteration opens everything again.
        """
        if self._handed is not None:
            self._handed.closed = True
        if self._running is not None:
            self._running.close()
        self.dataset.close()

    # ---- state

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be epoch ``epoch`` (an int of at least 0) from its start."""
        self.dataset.set_epoch(epoch)
        self._at = (epoch, 0)

    @property
    def current_epoch(self) -> int:
        """Number of the epoch that runs or ran last; 0 before the first iteration."""
        return self._handed.start.epoch if self._handed is not None else 0

    def state_dict(self) -> dict[str, Any]:
        """Return what is needed to go on after the batches handed out so far, in any world with any workers.

        A JSON-serializable dict of a few hundred bytes. Call it on any rank: all ranks are at the same global position
        when they have taken the same number of batches.
        """
        self._adopt_state_of_dataset()
        at = self._at
        if not isinstance(at, _Handed):
            return self.dataset.progress(*(at or (1, 0))).to_state()
        # Options changed since belong to the next iteration, not to what was delivered.
        return replace(at.start, position=at.position).to_state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration continue after the samples ``state`` counts as delivered.

        A state from the end of an epoch starts the next one. ``state`` is not modified.

        Raises:
            StateMismatchError: the state belongs to another dataset or other options.
        """
        epoch, position = self.dataset.check_state(state)
        # Of the epoch, not of this rank: all ranks must agree which epoch they are in.
        if position >= self._cursor(epoch, position).end(self.dataset.epoch_samples(epoch)):
            epoch, position = epoch + 1, 0
        self._at = (epoch, position)


def _check_choice(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        msg = f"{name}={value!r} is unknown; use {', '.join(map(repr, known))}."
        raise InvalidArgumentError(msg)


def _native_plan(dataset: EpochDataset, batch_size: int) -> BatchPlan:
    if isinstance(dataset, StreamingDataset):
        return dataset.plan_batches(batch_size)
    msg = f"the dataset is a {type(dataset).__name__}"
    raise NotNativeError(msg)


def _countable(batch_size: int | None, dataset: EpochDataset) -> int | None:
    """Return a batch size that gives torch the same batches: it counts to it before it looks for samples."""
    if batch_size is None or batch_size <= _core.MAX_BATCH_ROWS:
        return batch_size
    return min(batch_size, max(dataset.epoch_samples(1), _core.MAX_BATCH_ROWS))


def _raise_too_few(cursor: Cursor, total: int) -> NoReturn:
    why = (
        "drop_last leaves it out. Use a smaller batch_size or drop_last=False."
        if cursor.drop_last
        else f"none is left for rank {cursor.rank}. Use fewer ranks."
    )
    msg = (
        f"The dataset has {total} samples, fewer than one global batch of {cursor.global_batch} (batch_size "
        f"{cursor.batch_size} x {cursor.world_size} ranks), and {why}"
    )
    raise InvalidArgumentError(msg)


def _reason_against(batch_size: int | None, collate_fn: Any, kwargs: dict[str, Any]) -> str | None:
    """Return why arguments rule the native backend out, or None."""
    if batch_size is None:
        return "batch_size is None"
    if collate_fn is not None and collate_fn is not default_collate:
        return "it has a collate_fn"
    for name in ("worker_init_fn", "multiprocessing_context"):
        if kwargs.get(name) is not None:
            return f"it has a {name}"
    return None
