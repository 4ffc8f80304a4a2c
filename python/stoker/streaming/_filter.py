# SPDX-License-Identifier: Apache-2.0
"""A user's predicate of samples, or of single leaves, asked once about each item and remembered as item ranges."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from stoker.exceptions import InvalidArgumentError
from stoker.streaming._answers_file import AnswersFile, checked_file
from stoker.streaming._questions import Question, resolve_question
from stoker.streaming._selection import Selection, hashed, runs_of_flags
from stoker.streaming.index import DatasetIndex
from stoker.streaming.item_loader import BaseItemLoader
from stoker.streaming.reader import SampleSource
from stoker.streaming.serializers import Serializer

logger = logging.getLogger(__name__)


class Filter:
    """What a predicate says about the items of a dataset.

    Args:
        question: the predicate of the sample, or those of leaves.
        cache: file of the answers, or None.
    """

    def __init__(self, question: Question, cache: AnswersFile | None) -> None:
        """Ask nothing yet."""
        self._index = question.index
        self._question: Question | None = question
        self._cache = cache
        self._kept: Selection | None = None
        self._asked = ""  # which items the answers are about
        self._about_all = False

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the answers; the predicate only if it may be needed again."""
        return {**self.__dict__, "_question": None if self._about_all else self._question}

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
            kept = self._remembered(asked)
            if kept is None:
                kept = self._evaluated(union, source())
                self._share(asked, kept)
            self._kept, self._asked = kept, asked
            self._about_all = union.size == sum(counts)
        found = chosen.only(self._kept).merged(counts)
        if chosen.size and not found.size:
            warnings.warn(f"The filter leaves none of {chosen.size} samples.", stacklevel=4)
        return found

    def _remembered(self, asked: str) -> Selection | None:
        data = None if self._cache is None else self._cache.read(self._index, asked)
        return None if data is None else Selection(*np.frombuffer(data, "<i8").reshape(2, -1))

    def _evaluated(self, union: Selection, source: SampleSource) -> Selection:
        """Return the items of ``union`` that are kept, read chunk by chunk."""
        if self._question is None:
            msg = "The filter's functions were left behind in another process."
            raise RuntimeError(msg)
        flags = bytearray()
        for item, answers in self._question.ask(source, union.items()):
            flags.append(all(_truth(answer, item) for answer in answers))
        kept = union.cut(runs_of_flags(np.frombuffer(flags, np.bool_)))
        logger.info("The filter keeps %d of %d samples.", kept.size, union.size)
        return kept

    def _share(self, asked: str, kept: Selection) -> None:
        if self._cache is None:
            return
        try:
            answers = np.concatenate([kept.begins, kept.ends]).astype("<i8").tobytes()
            self._cache.write(self._index, asked, answers)
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
    file = checked_file("filter_cache", cache, b"stoker-filter", wanted=given is not None)
    if given is None:
        return None
    return Filter(resolve_question("filter", given, index, serializers, loader), file)
