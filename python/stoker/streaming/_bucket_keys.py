# SPDX-License-Identifier: Apache-2.0
"""Which bucket each sample of a dataset belongs to, asked once and remembered."""

from __future__ import annotations

import json
import math
import warnings
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from stoker.exceptions import CorruptDataError, InvalidArgumentError
from stoker.streaming._answers_file import AnswersFile, checked_file
from stoker.streaming._selection import Selection, hashed
from stoker.streaming.dataset import StreamingDataset

Buckets = npt.NDArray[Any]  # whole numbers
_MOST = 1 << 24  # buckets: more is a mistake, such as a key that is different for every sample


class BucketKeys:
    """The bucket of every item of a selection.

    Args:
        union: the items, ascending, each once.
        buckets: of each of them.

    Attributes:
        from_start: whether the items are the first ones of the dataset, without a gap.
        count: buckets.
        digest: 16 hex digits that differ when the bucket of an item does.
    """

    def __init__(self, union: Selection, buckets: Buckets) -> None:
        """Keep both."""
        self._union = union
        self.from_start = len(union.begins) == 1 and union.begins[0] == 0
        self.count = int(buckets.max()) + 1 if len(buckets) else 0
        self.digest = hashed(buckets)
        few = self.count <= 1 << 16  # numpy sorts these faster
        self._buckets: Buckets = buckets.astype(np.uint16) if few else buckets

    def of(self, items: npt.NDArray[np.uint64]) -> Buckets:
        """Return the buckets of items of the selection."""
        numbers = items.astype(np.int64)
        found: Buckets = self._buckets[numbers if self.from_start else self._union.before(numbers)]
        return found

    def sizes(self, chosen: Selection) -> npt.NDArray[np.int64]:
        """Return how many samples of ``chosen``, which may repeat items, are in each bucket."""
        if chosen.size == self._union.size:
            return np.bincount(self._buckets, minlength=self.count)
        edges = np.zeros(len(self._buckets) + 1, np.int64)
        firsts = self._union.before(chosen.begins)
        np.add.at(edges, firsts, 1)
        np.add.at(edges, firsts + (chosen.ends - chosen.begins), -1)
        often = np.cumsum(edges[:-1])  # each item comes
        sizes = np.bincount(self._buckets, weights=often, minlength=self.count)
        return sizes.astype(np.int64)


class Bucketing:
    """What a user calls a bucket.

    Args:
        by: as of `StreamingDataLoader`.
        boundaries: the same.
        cache: the same.

    Raises:
        InvalidArgumentError: arguments that can never work.
    """

    def __init__(
        self, by: Any, boundaries: Sequence[float] | None, cache: str | Path | None
    ) -> None:
        """Ask nothing yet."""
        if by is not None and not callable(by) and (not isinstance(by, dict) or len(by) != 1):
            msg = f"bucket_by must be a callable of the sample, or a dict of one key and a callable of that leaf, found {by!r}."
            raise InvalidArgumentError(msg)
        self._by = by
        self._boundaries = None if boundaries is None else _checked_boundaries(boundaries)
        self._cache: AnswersFile | None = checked_file(
            "bucket_cache", cache, b"stoker-buckets", wanted=True
        )
        self._known: tuple[str, BucketKeys] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the answers; the function only if it may be asked again, about another random part of the dataset."""
        known = self._known is not None and self._known[1].from_start
        return {**self.__dict__, "_by": None if known else self._by}

    def keys(self, dataset: StreamingDataset) -> BucketKeys:
        """Return the buckets of a dataset's samples. The first time every sample is read.

        Raises:
            InvalidArgumentError: a key that is none, or a cache of another dataset.
            CorruptDataError: of a chunk or the cache.
        """
        union = dataset.chosen().united()
        asked = hashed(union.begins, union.ends)
        if self._known is None or self._known[0] != asked:
            self._known = (asked, BucketKeys(union, self._buckets(dataset, union, asked)))
        return self._known[1]

    def _buckets(self, dataset: StreamingDataset, union: Selection, asked: str) -> Buckets:
        about = f"{asked} {json.dumps(self._boundaries)}"
        data = None if self._cache is None else self._cache.read(dataset.index, about)
        if data is not None:
            found = np.frombuffer(data, "<i4").astype(np.int32)
            if len(found) != union.size:
                msg = f"{self._cache} holds {len(found)} answers about {union.size} samples."
                raise CorruptDataError(msg)
            return found
        question = dataset.question("bucket_by", self._by)
        number = self._numbering()
        made: Buckets = np.fromiter(
            (
                number(key, item)
                for item, answers in question.ask(dataset.stored(), union.items())
                for key in answers
            ),
            np.int32,
            count=union.size,
        )
        if self._cache is not None:
            try:
                self._cache.write(dataset.index, about, made.astype("<i4").tobytes())
            except OSError as error:  # what was found out is not lost with it
                warnings.warn(f"bucket_cache could not be written: {error}", stacklevel=6)
        return made

    def _numbering(self) -> Callable[[Any, int], int]:
        """Return a function from a key to the number of its bucket."""
        boundaries = self._boundaries
        if boundaries is not None:
            return lambda key, item: bisect_right(boundaries, _number(key, item))
        seen: dict[Any, int] = {}

        def number(key: Any, item: int) -> int:
            key = _plain(key)
            found = seen.setdefault(key, len(seen)) if _is_key(key) else -1
            if found < 0:
                msg = f"bucket_by must return a number, a string or a tuple of them, but returned {key!r:.80} for sample {item}."
                raise InvalidArgumentError(msg)
            if found >= _MOST:
                msg = f"bucket_by gave more than {_MOST} different keys. Round them, or give bucket_boundaries."
                raise InvalidArgumentError(msg)
            return found

        return number


def _is_key(key: Any) -> bool:
    if isinstance(key, tuple):
        return all(map(_is_key, key))
    return isinstance(key, (str, int)) or (isinstance(key, float) and not math.isnan(key))


def _plain(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(map(_plain, key))
    if isinstance(key, torch.Tensor) and key.ndim == 0:
        return key.item()
    return key.item() if isinstance(key, np.generic) else key


def _number(key: Any, item: int) -> float:
    key = _plain(key)
    if isinstance(key, bool) or not isinstance(key, (int, float)) or math.isnan(key):
        msg = f"With bucket_boundaries bucket_by must return a number, but returned {key!r:.80} for sample {item}."
        raise InvalidArgumentError(msg)
    return key


def _checked_boundaries(boundaries: object) -> list[float]:
    given: list[Any] = list(boundaries) if isinstance(boundaries, (Sequence, np.ndarray)) else []
    given = [_plain(one) for one in given]
    numbers = all(
        isinstance(one, (int, float)) and not isinstance(one, bool) and -math.inf < one < math.inf
        for one in given
    )
    if not given or not numbers or any(a >= b for a, b in pairwise(given)):
        msg = f"bucket_boundaries={boundaries!r} must be numbers, each larger than the one before."
        raise InvalidArgumentError(msg)
    return given
