# SPDX-License-Identifier: Apache-2.0
"""A user's predicate of samples, or of single leaves, asked once about each item and remembered as item ranges."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from stoker import _core
from stoker.exceptions import InvalidArgumentError
from stoker.streaming._filter_cache import read_kept, write_kept
from stoker.streaming._selection import Selection, hashed, runs_of_flags
from stoker.streaming._transforms import leaf_numbers
from stoker.streaming.index import DatasetIndex
from stoker.streaming.item_loader import BaseItemLoader, PyTreeLoader
from stoker.streaming.item_loader.pytree import LeafReader
from stoker.streaming.reader import EncryptedSource, SampleSource
from stoker.streaming.serializers import Serializer

logger = logging.getLogger(__name__)

Predicate = Callable[[Any], Any]


class Filter:
    """What a predicate says about the items of a dataset.

    Args:
        index: of the dataset.
        serializers: name -> serializer.
        test: a predicate of the sample, or one for each leaf number.
        cache: file of the answers, or None.
    """

    def __init__(
        self,
        index: DatasetIndex,
        serializers: dict[str, Serializer],
        test: Predicate | dict[int, Predicate],
        cache: Path | None,
    ) -> None:
        """Ask nothing yet."""
        self._index, self._serializers = index, serializers
        self._test: Predicate | dict[int, Predicate] | None = test
        self._cache = cache
        self._kept: Selection | None = None
        self._asked = ""  # which items the answers are about
        self._about_all = False

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the answers; the predicate only if it may be needed again."""
        return {**self.__dict__, "_test": None if self._about_all else self._test}

    def of(
        self, chosen: Selection, counts: list[int], source: Callable[[], SampleSource]
    ) -> Selection:
        """Return the items of ``chosen`` that are kept, in its order and as often.

        Args:
            chosen: what to choose from.
            counts: items per chunk.
            source: opens the dataset without transforms; called only when samples must be read.

        Raises:
            InvalidArgumentError: an answer that is no bool, or a cache of another dataset.
            CorruptDataError: of a chunk or the cache.
        """
        union = chosen.united()
        asked = hashed(union.begins, union.ends, counts)
        if self._kept is None or (self._asked != asked and not self._about_all):
            kept = None if self._cache is None else read_kept(self._cache, self._index, asked)
            if kept is None:
                kept = self._evaluated(union, source())
                self._share(asked, kept)
            self._kept, self._asked = kept, asked
            self._about_all = union.size == sum(counts)
        found = chosen.only(self._kept).merged(counts)
        if chosen.size and not found.size:
            warnings.warn(f"The filter leaves none of {chosen.size} samples.", stacklevel=4)
        return found

    def _evaluated(self, union: Selection, source: SampleSource) -> Selection:
        """Return the items of ``union`` that are kept, read chunk by chunk."""
        passes = self._question(source)
        flags = bytearray()
        for item in union.items():
            try:
                flags.append(passes(item))
            except Exception as error:
                error.add_note(f"(filter, sample {item} of the dataset in {self._index.directory})")
                raise
        kept = union.cut(runs_of_flags(np.frombuffer(flags, np.bool_)))
        logger.info("The filter keeps %d of %d samples.", kept.size, union.size)
        return kept

    def _question(self, source: SampleSource) -> Callable[[int], bool]:
        """Return a function from an item number to whether the item is kept."""
        test = self._test
        if callable(test):
            predicate = test
            return lambda item: _truth(predicate(source.get(item, True)), item)
        if test is None or not isinstance(source, (_core.SampleReader, EncryptedSource)):
            msg = "A filter by leaf needs the items' bytes."  # `resolve_filter` has seen to it
            raise InvalidArgumentError(msg)
        read, config = source.item, self._index.config
        leaves = [(LeafReader(config, self._serializers, n), one) for n, one in test.items()]

        def passes(item: int) -> bool:
            data = read(item, True)  # noqa: FBT003 - mirrors the C++ signature
            return all(_truth(predicate(leaf(data)), item) for leaf, predicate in leaves)

        return passes

    def _share(self, asked: str, kept: Selection) -> None:
        if self._cache is None:
            return
        try:
            write_kept(self._cache, self._index, asked, kept)
        except OSError as error:  # what was found out is not lost with it
            warnings.warn(f"filter_cache could not be written: {error}", stacklevel=5)


def _truth(answer: Any, item: int) -> bool:
    if isinstance(answer, (bool, np.bool_)) or (
        isinstance(answer, torch.Tensor) and answer.ndim == 0
    ):
        return bool(answer)
    msg = f"filter must return a bool, but returned {answer!r:.80} ({type(answer).__name__}) for sample {item}."
    raise InvalidArgumentError(msg)


def resolve_filter(
    given: Any,
    cache: str | Path | None,
    index: DatasetIndex,
    serializers: dict[str, Serializer],
    loader: BaseItemLoader,
) -> Filter | None:
    """Return the filter a user asked for.

    Args:
        given: None; a predicate of the sample; or a dict from a key of the sample (or a tuple of keys, for nested ones)
            to a predicate of that leaf.
        cache: file for the answers.
        index: of the dataset.
        serializers: name -> serializer.
        loader: item loader of the dataset.

    Raises:
        InvalidArgumentError: anything else, a key that leads to no leaf, or a file that could never be written.
    """
    path = None if cache is None else Path(cache).expanduser().absolute()
    if path is not None and (given is None or path.is_dir() or not path.parent.is_dir()):
        problem = "needs a filter" if given is None else "must be a file in an existing folder"
        msg = f"filter_cache={str(cache)!r} {problem}."
        raise InvalidArgumentError(msg)
    if given is None:
        return None
    if callable(given):
        return Filter(index, serializers, given, path)
    if not isinstance(given, Mapping) or not given or not all(map(callable, given.values())):
        msg = f"filter must be a callable, or a dict of callables by key of the sample, found {given!r}."
        raise InvalidArgumentError(msg)
    numbers = leaf_numbers("filter", [k if isinstance(k, tuple) else (k,) for k in given], index)
    if type(loader) is not PyTreeLoader:
        msg = (
            "filter: leaves by key need PyTreeLoader itself; give a function of the sample instead."
        )
        raise InvalidArgumentError(msg)
    return Filter(index, serializers, dict(zip(numbers, given.values(), strict=True)), path)
