# SPDX-License-Identifier: Apache-2.0
"""StreamingDataset: samples by number, and epochs in a fixed order."""

from __future__ import annotations

import copy
import operator
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from stoker import _core
from stoker.encryption import Encryption
from stoker.exceptions import CorruptDataError, InvalidArgumentError, OutOfRangeError
from stoker.streaming._assignment import Cursor
from stoker.streaming._epochs import EpochDataset, OnError, checked_flag
from stoker.streaming._filter import resolve_filter
from stoker.streaming._native_batch import (
    BatchPlan,
    EnginePart,
    NotNativeError,
    plan_samples,
    plan_tokens,
)
from stoker.streaming._order import ShuffleMode, checked_order, checked_shuffle, planned
from stoker.streaming._progress import DatasetProgress, load_progress
from stoker.streaming._questions import Question, resolve_question
from stoker.streaming._rows import Rows, RowsOf
from stoker.streaming._selection import Selection, runs_of
from stoker.streaming._skipping import Skipped
from stoker.streaming._split import Ranges, subsample
from stoker.streaming._transforms import Transforms, resolve_transforms
from stoker.streaming.index import DatasetIndex, open_index
from stoker.streaming.item_loader import BaseItemLoader, PyTreeLoader, TokensLoader
from stoker.streaming.reader import LoaderSource, SampleSource, Verify, chunk_table, open_source
from stoker.streaming.resolver import Dir, resolve_dir
from stoker.streaming.serializers import Serializer, merged_serializers

_TOO_BIG = 1 << 62  # C++ takes 64 bits


class StreamingDataset(EpochDataset):
    """An optimized dataset.

    ``len(ds)``, ``ds[i]`` and iteration count samples (blocks, with TokensLoader). Iterating inside DataLoader workers
    shares the samples among workers and ranks; use `StreamingDataLoader` to also get exact batches and a resumable
    state. Objects are picklable; files open when first needed, in each process of its own.

    Args:
        input_dir: local directory of the dataset: str, Path or Dir.
        item_loader: None = PyTreeLoader; token datasets need TokensLoader(block_size=...).
        shuffle: another order of all samples in each epoch, a pure function of seed, epoch and the index. True mixes
            the samples of 4 chunks in each of 8 streams; "full" puts any sample anywhere, for data that is cheap to
            read by sample.
        drop_last: leave out the last samples that do not fill a batch on every rank. None: True when there is
            more than one rank, else False.
        seed: of shuffling and of random subsampling, 0 <= seed < 2**63.
        serializers: name -> Serializer, tried before the built-in ones.
        subsample: part (0.1) or multiple (2.5) of the dataset.
        encryption: for encrypted datasets.
        num_canonical_nodes: streams that the chunks are dealt to, once for all epochs; part of the order. Nodes whose
            number divides it read each chunk on one of them only. None = 8.
        item_shuffle_window: taken for compatibility; samples are always mixed with all of their chunk and others.
        index_path: an index.json elsewhere, or its directory.
        force_override_state_dict: when loading a state that does not fit, warn and let the local options win.
        transform: applied to every sample, however it is read: a callable or a list of callables of the sample; or a
            dict from a key of the sample (a tuple of keys for nested ones) to a callable of that leaf. Transforms of
            `stoker.vision` on JPEG leaves are fused with decoding; in epochs their random numbers depend on (seed,
            epoch, position) only, in ``ds[i]`` they come from torch's generator.
        verify: "first": compare a chunk's checksum with the index the first time the chunk is iterated; a
            lone ``ds[i]`` reads only what it needs. "always": each time a chunk is opened. "never".
        filter: keep only the samples for which this is True: a callable of the sample as read, before ``transform``; or
            a dict from a key of the sample (a tuple of keys for nested ones) to a callable of that leaf, all of which
            must hold; then no other leaf is decoded. Each sample of the (sub)dataset is asked about once, when the
            result is first needed.
        filter_cache: file that keeps the result, for other ranks and jobs. It cannot know what the filter does: use
            another file, or delete it, when the filter changes.

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
        shuffle: ShuffleMode = False,
        drop_last: bool | None = None,
        seed: int = 42,
        serializers: dict[str, Serializer] | None = None,
        subsample: float = 1.0,
        encryption: Encryption | None = None,
        index_path: str | Path | None = None,
        force_override_state_dict: bool = False,
        transform: Any = None,
        num_canonical_nodes: int | None = None,
        item_shuffle_window: int | Literal["full"] | None = None,
        verify: Verify = "first",
        filter: Callable[[Any], Any] | dict[Any, Callable[[Any], Any]] | None = None,  # noqa: A002 - what it is
        filter_cache: str | Path | None = None,
    ) -> None:
        """Read the index; no chunk is touched."""
        super().__init__(drop_last)
        self.input_dir = resolve_dir(input_dir)
        self._order = checked_order(shuffle, seed, num_canonical_nodes, item_shuffle_window)
        if verify not in ("first", "always", "never"):
            msg = f"verify={verify!r} is unknown; use 'first', 'always' or 'never'."
            raise InvalidArgumentError(msg)
        self._verify: Verify = verify
        self._loader = item_loader if item_loader is not None else PyTreeLoader()
        self._serializers = merged_serializers(serializers)
        self._encryption = encryption
        self._force = checked_flag("force_override_state_dict", force_override_state_dict)
        self._subsample = float(subsample) if type(subsample) is int else subsample
        index_place = None if index_path is None else resolve_dir(index_path).path
        self._index = open_index(self.input_dir.path or "", index_place)
        self._transforms = resolve_transforms(transform, self._index, self._serializers)
        self._source: SampleSource | None = self._open(self._transforms.undecoded)
        self._counts = self._count()
        self._ranges = self._select()
        self._filter = resolve_filter(
            filter, filter_cache, self._index, self._serializers, self._loader
        )
        self._own: Selection | None = None  # of a subset, or what the filter kept
        self._is_subset = False
        self._intervals: _core.IntervalSet | None = None
        self._plain = self._subsample == 1.0 and self._filter is None
        self._opener: _core.ChunkOpener | None = None

    # ---- opening

    def _open(self, undecoded: Collection[int] = ()) -> SampleSource:
        return open_source(
            self._index,
            self._loader,
            self._serializers,
            self._verify,
            self._encryption,
            undecoded,
        )

    def _count(self) -> list[int]:
        """Return the items of every chunk."""
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
            return counts
        return self._source.counts if isinstance(self._source, LoaderSource) else columns.chunk_size

    def _select(self) -> Ranges:
        counts, shuffle = self._counts, bool(self.shuffle)
        ranges = subsample(counts, self._subsample, shuffle=shuffle, seed=self._order.seed)
        if any(counts) and not ranges[0]:
            warnings.warn(
                f"subsample={self._subsample} of {sum(counts)} samples leaves none.", stacklevel=3
            )
        return ranges

    def _reader(self) -> SampleSource:
        if self._source is None:
            self._source = self._open(self._transforms.undecoded)
        return self._source

    def open(self) -> None:
        """Make the native reader now, so that forked workers share it and what it has verified."""
        self._reader()

    def _interval_set(self) -> _core.IntervalSet:
        if self._intervals is None:
            own = self._chosen()
            ranges = self._ranges if own is None else own.lists()
            self._intervals = _core.make_intervals(*ranges, self._counts)
        return self._intervals

    def _chosen(self) -> Selection | None:
        """Return what a subset or the filter left; None: all that `_select` gave."""
        if self._own is None and self._filter is not None:
            self._own = self._filter.of(Selection(*self._ranges), self._counts, self.stored)
        return self._own

    def stored(self) -> SampleSource:
        """Return a source of the samples as stored, without transforms."""
        return self._open() if self._transforms.undecoded else self._reader()

    def chosen(self) -> Selection:
        """Return the items that the samples are, in unshuffled order."""
        return self._chosen() or Selection(*self._ranges)

    def question(self, argument: str, given: Any) -> Question:
        """Return functions of samples, or of leaves, that can be asked about this dataset; see `resolve_question`."""
        return resolve_question(argument, given, self._index, self._serializers, self._loader)

    def __repr__(self) -> str:
        asked = self._filter is None or self._own is not None
        size = f"{self.num_samples} samples" if asked else "not filtered yet"
        return f"StreamingDataset({self.input_dir.path!r}, {size}, shuffle={self.shuffle})"

    def __getstate__(self) -> dict[str, Any]:
        """Pickle configuration, index and what was selected; native handles are made anew in the other process."""
        self._chosen()  # here, and not in each worker
        return {**self.__dict__, "_source": None, "_intervals": None, "_opener": None}

    # ---- by number

    @property
    def num_samples(self) -> int:
        """Samples of the dataset after subsampling, subset and filter, on all ranks together."""
        return self._reader().size if self._plain else self._interval_set().size

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

    # ---- parts

    def subset(self, indices: slice | range | Sequence[int] | npt.NDArray[Any]) -> StreamingDataset:
        """Return a dataset of some samples of this one, with the same options, before its first epoch.

        Args:
            indices: positions in the unshuffled order, as for ``ds[i]`` but not negative: a sequence, range or 1-D array
                of ints, whose order and repeats are kept; or any slice. A slice costs time by chunks, not by samples.

        Returns:
            The dataset; it may be empty. What is in it stays when this one, or its shuffle, changes.

        Raises:
            InvalidArgumentError: (a ValueError) an index below 0 or past the end.
            TypeError: something else than ints.
        """
        everything = self.chosen()
        return self.selected(everything.cut(runs_of(indices, everything.size)))

    def chunk_order(self, state: np.random.RandomState | None) -> Selection:
        """Return all samples in their order, or by chunk in the random order of ``state``."""
        everything = self.chosen()
        return everything if state is None else everything.dealt(self._counts, state)

    def selected(self, selection: Selection) -> StreamingDataset:
        """Return a dataset of these items of the index, with the same options, before its first epoch."""
        other = copy.copy(self)
        EpochDataset.__init__(other, self._drop_last)
        other.__dict__.update(
            _own=selection.merged(self._counts),
            _is_subset=True,
            _plain=False,
            _ranges=([], []),
            _filter=None,
            _source=self._source,
        )
        return other

    # ---- epochs

    def epoch_samples(self, epoch: int) -> int:  # noqa: ARG002 - the same in all
        """Return the samples of an epoch, on all ranks together."""
        return self.num_samples

    def random_order(self) -> bool:
        """Return whether epochs differ."""
        return bool(self.shuffle)

    def samples(
        self, cursor: Cursor, worker: int, num_workers: int, on_error: OnError
    ) -> Iterator[Any]:
        """Return an iterator over what one worker of a rank delivers. Later settings do not touch it."""
        order = planned(self.epoch_plan(cursor.epoch), cursor, worker, num_workers)
        get, transforms = self._reader().get, self._transforms
        return self._read(cursor.epoch, order, on_error, get, transforms)

    def _read(
        self,
        epoch: int,
        order: Iterable[tuple[int, int]],
        on_error: OnError,
        get: Callable[[int, bool], Any],
        transforms: Transforms,
    ) -> Iterator[Any]:
        key = (self._order.seed, epoch)
        for position, item in order:
            try:
                sample = get(item, True)
                yield transforms(sample, (*key, position)) if transforms else sample
            except CorruptDataError as error:
                if on_error == "raise":
                    raise
                yield Skipped(error)

    def read_one(self, epoch: int, position: int, item: int, on_error: OnError) -> Any:
        """Return one sample of an epoch, transformed."""
        order = ((position, item),)
        return next(self._read(epoch, order, on_error, self._reader().get, self._transforms))

    def epoch_rows(self, epoch: int) -> RowsOf:
        """Return which samples make up a slice of an epoch. Later settings do not touch it."""
        plan = self.epoch_plan(epoch)
        return lambda part: [Rows.of_one(epoch, *plan.rows(*part))]

    def read_rows(self, rows: list[Rows], on_error: OnError) -> Iterator[Any]:
        """Return an iterator over the samples of rows."""
        for _, epoch, position, item in zip(*rows[0], strict=True):
            yield self.read_one(epoch, position, item, on_error)

    def ids(self, rows: list[Rows]) -> Iterable[int]:
        """Return the numbers of the samples of rows in this dataset."""
        return rows[0].items

    def epoch_plan(self, epoch: int) -> _core.EpochPlan:
        """Return the order of an epoch: which item of the dataset comes at which position."""
        return _core.EpochPlan(self._interval_set(), self._order.of_epoch(epoch))

    @property
    def shuffle(self) -> ShuffleMode:
        """Whether the next iteration is shuffled, and how."""
        return self._order.shuffle

    def set_shuffle(self, shuffle: ShuffleMode) -> None:
        """Shuffle or not from the next iteration on."""
        self._order = replace(self._order, shuffle=checked_shuffle(shuffle))
        if self._is_subset:
            return
        self._ranges, self._intervals, self._own = self._select(), None, None

    def settings(self) -> dict[str, Any]:
        """Return what workers that live on need to know, as plain values."""
        return {"shuffle": self.shuffle}

    def adopt(self, settings: dict[str, Any]) -> None:
        """Take over `settings` of the same dataset in another process."""
        if self.shuffle != settings["shuffle"]:
            self.set_shuffle(settings["shuffle"])

    # ---- batches by C++ threads, for StreamingDataLoader

    @property
    def groups(self) -> tuple[tuple[StreamingDataset, ...], ...]:
        """The datasets that are read, in groups side by side."""
        return ((self,),)

    def plan_batches(self, rows: int) -> BatchPlan:
        """Return how the native engine builds batches of at most so many samples. Reads the first sample.

        Raises:
            NotNativeError: it cannot.
        """
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
        read, size = source.item, 0 if self._plain else self.num_samples

        def read_own(number: int) -> bytes:  # the others may have other shapes
            return read(self._item_at(number % size))

        composes, first = self._transforms.composes, read_own if size else read
        return plan_samples(self._index, self._serializers, composes, first, rows)

    def batch_engine(self, plan: BatchPlan, cursor: Cursor, **options: Any) -> _core.BatchLoader:
        """Return an engine for the rest of an epoch. Its threads run until it is closed."""
        return _core.BatchLoader(
            self.engine_part(plan),
            self._interval_set(),
            self._order.of_epoch(cursor.epoch),
            (cursor.start, cursor.batch_size, cursor.rank, cursor.world_size, cursor.drop_last),
            plan.spec,
            plan.pool,
            **options,
        )

    def engine_part(self, plan: BatchPlan) -> EnginePart:
        """Return this dataset as one of those that an engine reads; ``plan`` is its own."""
        if self._opener is None:
            self._opener = _core.ChunkOpener(chunk_table(self._index), self._verify)
        return self._opener, self._order.seed, plan.chunk_sizes, plan.chunk_tokens

    # ---- state

    def progress(self, epoch: int, position: int) -> DatasetProgress:
        """Return a state of this dataset and its options."""
        own = self._chosen()
        return DatasetProgress(
            dataset=self._index.fingerprint,
            samples=self.num_samples,
            order_version=_core.ORDER_VERSION,
            shuffle=self.shuffle,
            seed=self._order.seed,
            window=self._order.window,
            num_canonical_nodes=self._order.streams,
            subsample=self._subsample,
            selection="all" if own is None else own.digest,
            epoch=epoch,
            position=position,
        )

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
