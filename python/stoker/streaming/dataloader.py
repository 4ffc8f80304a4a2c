# SPDX-License-Identifier: Apache-2.0
"""StreamingDataLoader: batches of a StreamingDataset with exact resume."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NoReturn

import torch
from torch.utils.data import DataLoader, default_collate

from stoker import environment
from stoker.config import usable_cpus
from stoker.exceptions import ClosedError, InvalidArgumentError
from stoker.streaming._assignment import Cursor
from stoker.streaming._buckets import BucketStepper, bucket_stepper
from stoker.streaming._engines import NativePlan, plan_native, start_native
from stoker.streaming._epochs import EpochDataset, OnError, SharedCell
from stoker.streaming._handed import Handed, Loaded, marks_of
from stoker.streaming._loader_options import (
    check_choices,
    check_dataset,
    check_together,
    checked_batch_size,
    countable,
    raise_too_few,
    reason_against_native,
)
from stoker.streaming._loader_stats import LoaderStats
from stoker.streaming._native_batch import NotNativeError
from stoker.streaming._native_run import NativeBatches, ZippedBatches
from stoker.streaming._order import ShuffleMode
from stoker.streaming._planned import planned_ids
from stoker.streaming._ranks import check_alike
from stoker.streaming._skipping import (
    Skipped,
    SkippingCollate,
    past_skipped,
    without_skipped,
)
from stoker.streaming._steps import Mark, Stepper, Steps, check_equal_steps
from stoker.streaming._transformed import transformed

Backend = Literal["auto", "native", "torch"]


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
        pad: "mask": batches come as (batch, mask), all of batch_size samples, and as many on every rank: nothing is left
            out, and what a last short global batch lacks is filled with samples of it for which the bool tensor ``mask``
            of shape (batch_size,) is False. drop_last is then False unless it is given.
        replicate: ranks in groups of so many (0 .. k - 1, k .. 2k - 1, ...) get the same batches, for tensor or pipeline
            parallel models. It must divide the ranks.
        bucket_by: every batch holds samples of one bucket, such as of similar length or shape: a callable of the sample
            as read, before ``transform``, or a dict from one key of the sample (a tuple of keys for nested ones) to a
            callable of that leaf. Each sample is asked about once, when the first batch (or ``len``) is wanted: then
            the whole dataset is read. A bucket gives a batch (to each rank its part) when it holds one, in the order of
            the epoch; what remains in buckets in the end comes as short batches, or is left out with drop_last.
        bucket_boundaries: ascending numbers; samples with keys from one to below the next are a bucket. None: each key
            (a number, a string or a tuple of them) is a bucket.
        bucket_cache: file that keeps the answers, for other ranks and jobs. It cannot know what bucket_by does: use
            another file, or delete it, when that changes.
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
        batch_size: int | Sequence[int] | None = 1,
        num_workers: int | None = None,
        shuffle: ShuffleMode | None = None,
        drop_last: bool | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        backend: Backend = "auto",
        batch_transform: Callable[[Any], Any] | None = None,
        on_error: OnError = "raise",
        pad: Literal["mask"] | None = None,
        replicate: int = 1,
        bucket_by: Callable[[Any], Any] | dict[Any, Callable[[Any], Any]] | None = None,
        bucket_boundaries: Sequence[float] | None = None,
        bucket_cache: str | Path | None = None,
        **kwargs: Any,
    ) -> None:
        """Check the arguments; nothing is read and no worker starts."""
        check_dataset(dataset)
        check_choices(backend, on_error, pad)
        size = checked_batch_size(batch_size, dataset)
        check_together(
            pad, on_error, size, replicate, bucket_by, num_workers, batch_transform, kwargs
        )
        _set(dataset, shuffle=shuffle, drop_last=drop_last)
        self._given_workers = num_workers
        self._not_native = reason_against_native(size, collate_fn, kwargs)
        self._backend, self._on_error = backend, on_error
        self._batch_transform = batch_transform
        self._size, self._pad, self._replicate = size, pad, replicate
        whole = pad is not None or (dataset.batched and not size.single)
        buckets = bucket_stepper(dataset, bucket_by, bucket_boundaries, bucket_cache)
        self._stepper = buckets or (Stepper() if whole else None)  # then workers give whole batches
        torch_batch = countable(size, dataset)
        if on_error == "skip" and not size.single:
            collate_fn = SkippingCollate(collate_fn or default_collate)
        if self._stepper is not None:
            collate_fn, torch_batch = collate_fn or default_collate, None
        with warnings.catch_warnings():
            if backend != "torch":  # they may become threads; `_decision` warns when they do not
                warnings.filterwarnings("ignore", message="This DataLoader will create")
            super().__init__(
                dataset,
                batch_size=torch_batch,
                num_workers=num_workers or 0,
                collate_fn=collate_fn,
                **kwargs,
            )
        self._plan: NativePlan | None = None
        self._decided: str | None = None  # the sentence of `explain`
        self._stats = LoaderStats("torch")
        self._running: NativeBatches | ZippedBatches | None = None
        self._cell: SharedCell | None = None  # for persistent workers
        self._handed: Handed | None = None  # by the running or last iteration
        # What `state_dict` tells: the (epoch, position) that was set, or what was handed out since. One assignment
        # changes it, so Ctrl-C finds it whole.
        self._at: tuple[int, int] | Loaded | Handed | None = None

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
        """Return the batches of a whole epoch on this rank, begun with the options as they are now.

        Raises:
            TypeError: an epoch has no end.
        """
        if self.dataset.endless:
            len(self.dataset)  # raises: torch asks for a TypeError
        at = self._at
        epoch = at[0] if isinstance(at, tuple) else 1 if at is None else at.start.epoch
        cursor = self._cursor(epoch, 0)
        steps = self._steps(cursor)
        if steps is not None:
            return steps.count()
        return cursor.num_batches(self.dataset.whole_epoch_samples(epoch))

    def _cursor(self, epoch: int, start: int) -> Cursor:
        world = environment.detect()
        same = self._replicate
        if world.world_size % same:
            msg = f"replicate={same} must divide the {world.world_size} ranks."
            raise InvalidArgumentError(msg)
        rank, size, pad = world.rank // same, world.world_size // same, self._pad is not None
        drop_last = self.dataset.drop_last_in(1 if pad else size)
        return Cursor(epoch, start, self._size.rows, drop_last, rank, size, pad, self._size.of_each)

    def _steps(self, cursor: Cursor) -> Steps | None:
        """Return the batches when they are no plain slices."""
        if self._stepper is not None:
            return self._stepper.steps(self.dataset, cursor)
        return self.dataset.steps(cursor) if self.dataset.batched else None

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
                pad = self._pad is not None
                self._plan = plan_native(self.dataset, self._size.rows, self._on_error, pad=pad)
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
        if isinstance(at, Loaded):
            epoch, start = at.start.epoch, self.dataset.resumed(at)
        cursor = self._cursor(epoch, start)
        if start and self._is_over(cursor, self._stepper):
            cursor = self._cursor(epoch + 1, 0)
        batches, handed = self._begin(cursor)
        return self._counted(cursor, batches, handed)

    def _is_over(self, cursor: Cursor, stepper: Stepper | None) -> bool:
        return (stepper or Stepper()).steps(self.dataset, cursor).over()

    def _begin(self, cursor: Cursor) -> tuple[Iterator[Any], Handed]:
        """Start an iteration, or go on with one after a change of the dataset."""
        self.dataset.begin(cursor)
        steps, total = self._steps(cursor), self.dataset.epoch_samples(cursor.epoch)
        if cursor.start == 0 and total:
            found = cursor.num_batches(total) if steps is None else next(steps.marks(), None)
            if not found:
                self._raise_too_few(cursor, total)
        if total:
            self._decide()
        if steps is not None:
            check_equal_steps(steps, cursor)
        start = self.dataset.progress(cursor.epoch, cursor.start)
        handed = Handed(start, total, self.dataset.changes, steps, Mark(cursor.start))
        batches = self._start(cursor, steps)
        self._handed = self._at = handed
        if self._batch_transform is not None:
            batches = transformed(batches, past_skipped(self._batch_transform))
        return batches, handed

    def _raise_too_few(self, cursor: Cursor, total: int) -> NoReturn:
        if isinstance(self._stepper, BucketStepper):
            raise_too_few(cursor, total, "None of the buckets of the {} samples is large enough")
        if self.dataset.batched:
            raise_too_few(cursor, total, "None of the datasets of the {} samples is large enough")
        raise_too_few(cursor, total)

    def _adopt_state_of_dataset(self) -> None:
        """Continue where a state stopped that was loaded into the dataset, later than one into this loader."""
        self._at = self.dataset.take_loaded_state() or self._at

    def _start(self, cursor: Cursor, steps: Steps | None) -> Iterator[Any]:
        if self._plan is not None:
            threads = self._threads()
            pin_memory = bool(self.pin_memory) and torch.cuda.is_available()
            self._running = start_native(
                self.dataset,
                self._plan,
                cursor,
                steps,
                threads=threads,
                on_error=self._on_error,
                pin_memory=pin_memory,
            )
            self._stats = LoaderStats("native", threads=threads)
            return self._running
        self._running, self._stats = None, LoaderStats("torch")
        batches = self._start_torch(cursor)
        return without_skipped(batches, self._stats) if self._on_error == "skip" else batches

    def _start_torch(self, cursor: Cursor) -> Iterator[Any]:
        """Let torch start (or restart) its iteration with this cursor in the dataset and its workers."""
        dataset = self.dataset
        if self.persistent_workers and self._cell is None:
            self._cell = SharedCell()
        with dataset.lent_to_loader(cursor, self._cell, self._on_error, self._stepper):
            dataset.open()
            return super().__iter__()

    def _counted(self, cursor: Cursor, batches: Iterator[Any], handed: Handed) -> Iterator[Any]:
        marks = marks_of(cursor, handed)
        while True:
            asked = time.perf_counter()
            if handed.closed:
                msg = "The loader was closed during this iteration; start a new one to read on."
                raise ClosedError(msg)
            if self._handed is not handed and self.persistent_workers and self._plan is None:
                msg = "Another iteration has begun, and persistent workers serve one at a time: that one goes on."
                raise ClosedError(msg)
            if handed.changes != self.dataset.changes and self._at is handed:
                _close(batches)
                if self._running is not None:
                    self._running.close()
                self.dataset.check_order(handed.start)
                self.dataset.rebase(handed.start, handed.position)
                cursor = replace(cursor, start=handed.position)
                batches, handed = self._begin(cursor)
                marks = marks_of(cursor, handed)
            try:
                batch = next(batches)
            except StopIteration:
                break
            mark = next(marks)
            if isinstance(batch, Skipped):
                handed.mark = mark
                continue
            if self._pad is not None:
                batch = batch, torch.arange(mark.rows) < mark.valid
            self._stats.took(time.perf_counter() - asked)
            # Ctrl-C may strike at any call, so there is none between the two: what is counted is handed out.
            handed.mark = mark
            yield batch
        handed.finished = True  # samples drop_last left out are not owed

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
        """End the newest iteration, its threads and the dataset's files. Batches handed out stay valid.

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
        at = self.dataset.loaded_state or self._at
        if isinstance(at, Handed):
            return self.dataset.state_of(at)
        if isinstance(at, Loaded):
            state = self.dataset.state_at(at)
        else:
            state = self.dataset.progress(*(at or (1, 0))).to_state()
        if self._stepper is None:
            return state
        return state | self._stepper.state(self.dataset, state["position"])

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration continue after the samples ``state`` counts as delivered.

        A state from the end of an epoch starts the next one. ``state`` is not modified.

        Raises:
            StateMismatchError: the state belongs to another dataset or other options.
        """
        self._cursor(1, 0)  # what is wrong with the ranks is said before anything changes
        stepper = copy(self._stepper)
        if stepper is not None:
            state = stepper.load(state, self.dataset)
        epoch, position = self.dataset.check_state(state)
        cursor = self._cursor(epoch, position)
        # Of the epoch, not of this rank: all ranks must agree which epoch they are in.
        if position and self._is_over(cursor, stepper):
            epoch, position = epoch + 1, 0
        self._stepper = stepper
        self.dataset.take_loaded_state()  # an older one
        self._at = Loaded(self.dataset.progress(epoch, position), self.dataset.changes)

    def check_ranks(self) -> None:
        """Compare over torch.distributed that all ranks go on at the same place with the same options.

        Every rank must call it, best before the first batch and after a state was loaded. Ranks that differ in a
        dataset, seed, position, batch size or number of ranks would lose and repeat samples without notice.

        Raises:
            InvalidArgumentError: there is no process group.
            StateMismatchError: on every rank, naming what differs.
        """
        cursor = self._cursor(0, 0)
        check_alike(
            self.state_dict()
            | {
                "batch_size": cursor.batch_size,
                "sizes": cursor.sizes,
                "drop_last": cursor.drop_last,
                "pad": cursor.pad,
                "replicate": self._replicate,
                "world_size": cursor.world_size,
            }
        )

    # ---- the order

    def set_weights(self, weights: Sequence[float]) -> None:
        """Let a CombinedStreamingDataset draw by other weights from the next batch on; see its `set_weights`.

        The backend starts anew there, and so do the `stats`.

        Raises:
            InvalidArgumentError: weights that do not fit, or another dataset.
        """
        set_weights = getattr(self.dataset, "set_weights", None)
        if set_weights is None:
            msg = f"A {type(self.dataset).__name__} has no weights."
            raise InvalidArgumentError(msg)
        set_weights(weights)

    def order(self, epoch: int, start: int = 0, stop: int | None = None) -> list[Any]:
        """Return which samples an epoch delivers, begun at its start with the options as they are now.

        Args:
            epoch: its number.
            start: first sample, counted over all ranks.
            stop: the one after the last; None = to the end.

        Returns:
            Numbers of samples in the dataset; (number of the dataset, number in it) for a CombinedStreamingDataset; a
            tuple of numbers, one for each dataset, for a ParallelStreamingDataset. Batch j of all ranks together are the
            entries [j * G, (j + 1) * G), G = batch_size * ranks, when all batches are full.
        """
        own = self._cursor(epoch, 0)
        whole = replace(
            own,
            batch_size=own.global_batch,
            rank=0,
            world_size=1,
            pad=False,
            sizes=tuple(size * own.world_size for size in own.sizes),
        )
        return planned_ids(self.dataset, self._stepper, whole, start, stop)


def _set(dataset: EpochDataset, *, shuffle: ShuffleMode | None, drop_last: bool | None) -> None:
    if shuffle is not None:
        dataset.set_shuffle(shuffle)
    if drop_last is not None:
        dataset.set_drop_last(drop_last)


def _close(batches: Iterator[Any]) -> None:
    """End what still reads; torch's iterators end when they are dropped."""
    close = getattr(batches, "close", None)
    if close is not None:
        close()
