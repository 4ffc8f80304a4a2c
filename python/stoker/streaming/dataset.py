# SPDX-License-Identifier: Apache-2.0
"""StreamingDataset: samples by number, and epochs in a fixed order."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch.utils.data import IterableDataset

from stoker import _core, environment
from stoker.config import Settings
from stoker.encryption import Encryption
from stoker.exceptions import CorruptDataError, InvalidArgumentError, OutOfRangeError
from stoker.streaming._assignment import Cursor
from stoker.streaming._native_batch import BatchPlan, NotNativeError, plan_samples, plan_tokens
from stoker.streaming._progress import Progress, load_progress
from stoker.streaming._skipping import Skipped
from stoker.streaming._split import Ranges, subsample
from stoker.streaming._transforms import resolve_transforms
from stoker.streaming.index import DatasetIndex, open_index
from stoker.streaming.item_loader import BaseItemLoader, PyTreeLoader, TokensLoader
from stoker.streaming.reader import LoaderSource, SampleSource, Verify, chunk_table, open_source
from stoker.streaming.resolver import Dir, resolve_dir
from stoker.streaming.serializers import Serializer, merged_serializers

OnError = Literal["raise", "skip"]
_TOO_BIG = 1 << 62  # C++ takes 64 bits
_BLOCK = 4096  # positions asked from the plan at a time


class StreamingDataset(IterableDataset[Any]):
    """An optimized dataset.

    ``len(ds)``, ``ds[i]`` and iteration count samples (blocks, with TokensLoader). Iterating inside DataLoader workers
    shares the samples among workers and ranks; use `StreamingDataLoader` to also get exact batches and a resumable
    state. Objects are picklable; files open when first needed, in each process of its own.

    Args:
        input_dir: local directory of the dataset: str, Path or Dir.
        item_loader: None = PyTreeLoader; token datasets need TokensLoader(block_size=...).
        shuffle: another order of all samples in each epoch, a pure function of seed, epoch and the index.
        drop_last: leave out the last samples that do not fill a batch on every rank. None: True when there is
            more than one rank, else False.
        seed: of shuffling and of random subsampling, 0 <= seed < 2**63.
        serializers: name -> Serializer, tried before the built-in ones.
        subsample: part (0.1) or multiple (2.5) of the dataset.
        encryption: for encrypted datasets.
        index_path: an index.json elsewhere, or its directory.
        force_override_state_dict: when loading a state that does not fit, warn and let the local options win.
        transform: applied to every sample, however it is read: a callable or a list of callables of the sample; or a
            dict from a key of the sample (a tuple of keys for nested ones) to a callable of that leaf. Transforms of
            `stoker.vision` on JPEG leaves are fused with decoding; in epochs their random numbers depend on (seed,
            epoch, position) only, in ``ds[i]`` they come from torch's generator.
        verify: "first": compare a chunk's checksum with the index the first time the chunk is iterated; a
            lone ``ds[i]`` reads only what it needs. "always": each time a chunk is opened. "never".

    Raises:
        NotFoundError: the directory does not exist.
        DatasetFormatError: no readable index there, or another item loader is needed.
        UnsupportedDataError: a layout or an item loader that this version does not have.
        InvalidArgumentError: an argument that can never work.
    """

    def __init__(
        self,
        input_dir: str | Path | Dir,
        *,
        item_loader: BaseItemLoader | None = None,
        shuffle: bool = False,
        drop_last: bool | None = None,
        seed: int = 42,
        serializers: dict[str, Serializer] | None = None,
        subsample: float = 1.0,
        encryption: Encryption | None = None,
        index_path: str | Path | None = None,
        force_override_state_dict: bool = False,
        transform: Any = None,
        verify: Verify = "first",
    ) -> None:
        """Read the index; no chunk is touched."""
        super().__init__()
        self.input_dir = resolve_dir(input_dir)
        self._shuffle = _checked_flag("shuffle", shuffle)
        self._drop_last = drop_last if drop_last is None else _checked_flag("drop_last", drop_last)
        self._seed = _checked_seed(seed)
        if verify not in ("first", "always", "never"):
            msg = f"verify={verify!r} is unknown; use 'first', 'always' or 'never'."
            raise InvalidArgumentError(msg)
        self._verify: Verify = verify
        self._loader = item_loader if item_loader is not None else PyTreeLoader()
        self._serializers = merged_serializers(serializers)
        self._encryption = encryption
        self._force = force_override_state_dict
        self._window = Settings.from_env().window
        self._subsample = float(subsample) if type(subsample) is int else subsample
        index_place = None if index_path is None else resolve_dir(index_path).path
        self._index = open_index(self.input_dir.path or "", index_place)
        self._transforms = resolve_transforms(transform, self._index, self._serializers)
        self._source: SampleSource | None = self._open()
        self._ranges = self._select()
        self._intervals: _core.IntervalSet | None = None
        self._plain = self._subsample == 1.0
        self._next_epoch = 1
        self._resume_at = 0
        self._loaded = False  # a state was loaded and not used yet
        self._position: tuple[int, int] | None = (
            None  # (epoch, samples delivered) of the running plain iteration
        )
        self._cursor: Cursor | None = None  # set by StreamingDataLoader
        self._cell: torch.Tensor | None = (
            None  # shared (epoch, start, shuffle, drop_last), for persistent workers
        )
        self._on_error: OnError = "raise"  # set by StreamingDataLoader
        self._opener: _core.ChunkOpener | None = None

    # ---- opening

    def _open(self) -> SampleSource:
        return open_source(
            self._index,
            self._loader,
            self._serializers,
            self._verify,
            self._encryption,
            self._transforms.undecoded,
        )

    def _select(self) -> Ranges:
        columns = self._index.columns
        if isinstance(self._loader, TokensLoader):
            block_size = self._loader.required_block_size()
            counts = [(dim or 0) // block_size for dim in columns.dim]
            if not any(counts):
                largest = max(d or 0 for d in columns.dim)
                warnings.warn(
                    f"block_size={block_size} is larger than every chunk of {self._index.directory} (at most {largest} "
                    "tokens): the dataset is empty.",
                    stacklevel=3,
                )
        elif isinstance(self._source, LoaderSource):
            counts = self._source.counts
        else:
            counts = columns.chunk_size
        ranges = subsample(counts, self._subsample, shuffle=self._shuffle, seed=self._seed)
        if any(counts) and not ranges[0]:
            warnings.warn(
                f"subsample={self._subsample} of {sum(counts)} samples leaves none.", stacklevel=3
            )
        return ranges

    def _reader(self) -> SampleSource:
        if self._source is None:
            self._source = self._open()
        return self._source

    def open(self) -> None:
        """Make the native reader now, so that forked workers share it and what it has verified."""
        self._reader()

    def _interval_set(self) -> _core.IntervalSet:
        if self._intervals is None:
            self._intervals = _core.make_intervals(*self._ranges)
        return self._intervals

    def __repr__(self) -> str:
        return f"StreamingDataset({self.input_dir.path!r}, {self.num_samples} samples, shuffle={self._shuffle})"

    def __getstate__(self) -> dict[str, Any]:
        """Pickle configuration and index; native handles are made anew in the other process."""
        return {**self.__dict__, "_source": None, "_intervals": None, "_opener": None}

    # ---- by number

    @property
    def num_samples(self) -> int:
        """Samples of the whole dataset after subsampling, on all ranks together."""
        return self._reader().size if self._plain else self._interval_set().size

    def __len__(self) -> int:
        """Return the samples this rank iterates over in an epoch."""
        return self._own_cursor(0).num_samples(self.num_samples)

    def __getitem__(self, index: Any) -> Any:
        """Return sample ``index`` in unshuffled order: an int (also negative, also numpy), or a slice for a list.

        Raises:
            OutOfRangeError: (an IndexError) past the end.
            TypeError: neither an integer nor a slice.
        """
        if type(index) is not int:
            if isinstance(index, slice):
                return [self[i] for i in range(*index.indices(self.num_samples))]
            if isinstance(index, bool):
                msg = "A StreamingDataset is indexed by int or slice, found bool."
                raise TypeError(msg)
            index = operator.index(index)
        if not -_TOO_BIG < index < _TOO_BIG:
            msg = f"index {index} is out of range for a dataset of {self.num_samples} samples"
            raise OutOfRangeError(msg)
        source = self._source or self._reader()
        if not self._plain:
            index = self._item_at(index)
        sample = source.get(index)
        return self._transforms(sample) if self._transforms else sample

    def _item_at(self, index: int) -> int:
        size = self.num_samples
        if not -size <= index < size:
            msg = f"index {index} is out of range for a dataset of {size} samples"
            raise OutOfRangeError(msg)
        return self._interval_set().item_at(index + size if index < 0 else index)

    # ---- epochs

    def _own_cursor(self, start: int) -> Cursor:
        """Return the cursor of an iteration without a StreamingDataLoader."""
        world = environment.detect()
        return Cursor(
            self._next_epoch,
            start,
            1,
            self.drop_last_in(world.world_size),
            world.rank,
            world.world_size,
        )

    def drop_last_in(self, world_size: int) -> bool:
        """Return whether incomplete global batches are left out in a world of this size."""
        return world_size > 1 if self._drop_last is None else self._drop_last

    def __iter__(self) -> Iterator[Any]:
        """Start an epoch: the next one, or the rest of one after `load_state_dict`.

        Without StreamingDataLoader the epoch number rises when an epoch was iterated to its end.
        """
        world = environment.detect()
        cursor = self._cursor
        if cursor is None:
            if world.in_worker and (self._resume_at or self._shuffle):
                warnings.warn(
                    "torch's DataLoader starts every epoch with a copy of this dataset as it was in the main process: the "
                    "order, and what a loaded state left out, is the same each time. Use StreamingDataLoader.",
                    stacklevel=2,
                )
            cursor = self._own_cursor(self._resume_at)
            self._resume_at, self._loaded = 0, False
            self._position = (cursor.epoch, cursor.start)
            return self._counted(cursor, self._samples(cursor, world.worker, world.num_workers))
        if self._cell is not None:
            epoch, start, shuffle, drop_last = self._cell.tolist()
            cursor = replace(cursor, epoch=epoch, start=start, drop_last=bool(drop_last))
            if self._shuffle != bool(shuffle):
                self.set_shuffle(bool(shuffle))
        return self._samples(cursor, world.worker, world.num_workers)

    @contextmanager
    def lent_to_loader(
        self, cursor: Cursor, cell: torch.Tensor | None, on_error: OnError
    ) -> Iterator[None]:
        """Let iterations (and workers) that start inside belong to a StreamingDataLoader."""
        self._cursor, self._cell, self._on_error = cursor, cell, on_error
        try:
            yield
        finally:
            self._cursor, self._cell, self._on_error = None, None, "raise"

    def _samples(self, cursor: Cursor, worker: int, num_workers: int) -> Iterator[Any]:
        """Start an iteration: what is set on the dataset later belongs to the next one."""
        return self._read(cursor, self._order(cursor, worker, num_workers), self._on_error)

    def _read(
        self, cursor: Cursor, order: Iterator[tuple[int, int]], on_error: OnError
    ) -> Iterator[Any]:
        get, transforms, key = self._reader().get, self._transforms, (self._seed, cursor.epoch)
        for position, item in order:
            try:
                sample = get(item, True)
                yield transforms(sample, (*key, position)) if transforms else sample
            except CorruptDataError as error:
                if on_error == "raise":
                    raise
                yield Skipped(error)

    def _order(self, cursor: Cursor, worker: int, num_workers: int) -> Iterator[tuple[int, int]]:
        """Yield (position in the epoch, item number) of what one worker of this rank delivers."""
        intervals = self._interval_set()
        plan = _core.EpochPlan(intervals, self._shuffle, self._seed, cursor.epoch, self._window)
        return _items(plan, cursor.ranges(plan.size, worker, num_workers))

    def _counted(self, cursor: Cursor, samples: Iterator[Any]) -> Iterator[Any]:
        """Keep count for `state_dict` and move to the next epoch at the end."""
        position = cursor.start
        for sample in samples:
            position = min(position + cursor.world_size, cursor.end(self.num_samples))
            self._position = (cursor.epoch, position)
            yield sample
        self._position = (cursor.epoch, self.num_samples)
        self._next_epoch = cursor.epoch + 1

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

    @property
    def shuffle(self) -> bool:
        """Whether the next iteration is shuffled."""
        return self._shuffle

    def set_shuffle(self, shuffle: bool) -> None:  # noqa: FBT001 - the public signature
        """Shuffle or not from the next iteration on."""
        self._shuffle = _checked_flag("shuffle", shuffle)
        self._ranges, self._intervals = self._select(), None

    def set_drop_last(self, drop_last: bool) -> None:  # noqa: FBT001 - the public signature
        """Leave out incomplete global batches or not, from the next iteration on."""
        self._drop_last = _checked_flag("drop_last", drop_last)

    # ---- batches by C++ threads, for StreamingDataLoader

    def plan_batches(self, batch_size: int) -> BatchPlan:
        """Return how the native engine builds batches of this dataset. Reads the first sample.

        Raises:
            NotNativeError: it cannot.
        """
        if batch_size > _core.MAX_BATCH_ROWS:
            msg = f"batch_size={batch_size} is above {_core.MAX_BATCH_ROWS}"
            raise NotNativeError(msg)
        rows = min(batch_size, max(self.num_samples, 1))
        if self._transforms.python:
            name = getattr(self._transforms.python[0], "__name__", "a callable")
            msg = f"its transform {name!r} is a Python function"
            raise NotNativeError(msg)
        if self._encryption is not None and self._index.config.get("encryption"):
            msg = "the dataset is encrypted"
            raise NotNativeError(msg)
        source = self._reader()
        if type(self._loader) is TokensLoader:
            return plan_tokens(self._index, self._loader, rows)
        if not isinstance(source, _core.SampleReader):
            msg = f"its item loader {type(self._loader).__name__} is Python code"
            raise NotNativeError(msg)
        return plan_samples(
            self._index, self._serializers, self._transforms.composes, source.item, rows
        )

    def batch_engine(
        self, plan: BatchPlan, cursor: Cursor, start: int, **options: Any
    ) -> _core.BatchLoader:
        """Return an engine for the positions from ``start`` on. Its threads run until it is closed."""
        if self._opener is None:
            self._opener = _core.ChunkOpener(chunk_table(self._index), self._verify)
        return _core.BatchLoader(
            self._opener,
            self._interval_set(),
            (self._shuffle, self._seed, cursor.epoch, self._window),
            (start, cursor.batch_size, cursor.rank, cursor.world_size, cursor.drop_last),
            plan.chunk_sizes,
            plan.chunk_tokens,
            plan.spec,
            plan.pool,
            **options,
        )

    # ---- state

    def progress(self, epoch: int, position: int) -> Progress:
        """Return a state of this dataset and its options."""
        return Progress(
            dataset=self._index.fingerprint,
            samples=self.num_samples,
            order_version=_core.ORDER_VERSION,
            shuffle=self._shuffle,
            seed=self._seed,
            window=self._window,
            subsample=self._subsample,
            epoch=epoch,
            position=position,
        )

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
        end = self._own_cursor(position).end(self.num_samples)
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

    def check_state(self, state: dict[str, Any]) -> tuple[int, int]:
        """Return (epoch, position) of a state that fits this dataset; see `load_state_dict`."""
        return load_progress(state, self.progress(0, 0), force=self._force)

    @property
    def index(self) -> DatasetIndex:
        """The dataset's index."""
        return self._index

    def close(self) -> None:
        """Close all chunk files; they open again when needed."""
        if self._source is not None:
            self._source.close()


def _items(plan: _core.EpochPlan, ranges: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for begin, end in ranges:
        for block in range(begin, end, _BLOCK):
            yield from enumerate(plan.fill(block, min(_BLOCK, end - block)), block)


def _checked_flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        msg = f"{name}={value!r} must be a bool."
        raise InvalidArgumentError(msg)
    return value


def _checked_seed(seed: object) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 63:
        msg = f"seed={seed!r} must be an int from 0 to 2**63 - 1."
        raise InvalidArgumentError(msg)
    return seed
