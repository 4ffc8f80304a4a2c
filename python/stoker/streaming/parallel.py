# SPDX-License-Identifier: Apache-2.0
"""ParallelStreamingDataset: samples of several datasets side by side."""

from __future__ import annotations

import hashlib
import inspect
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch

from stoker import _core
from stoker.exceptions import InvalidArgumentError, StateMismatchError
from stoker.streaming._assignment import Slice
from stoker.streaming._epochs import OnError, checked_flag
from stoker.streaming._members import ComposedDataset, member_states
from stoker.streaming._order import checked_seed
from stoker.streaming._progress import Progress, check_delivered, check_fields, checked_place
from stoker.streaming._rows import Rows, RowsOf
from stoker.streaming._skipping import Skipped
from stoker.streaming.dataset import StreamingDataset

_ENDLESS = 1 << 62  # samples of an endless epoch: C++ takes 64 bits
_EPOCHS = 1 << 63
_KEPT_PLANS = 2  # of a member: a batch may hold the end of one round and the start of the next


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelProgress(Progress):
    """The state of datasets side by side.

    Attributes:
        datasets: states of the members, without place.
        seed, resume, reset_rngs: of the constructor.
        length: of the constructor; "inf": endless.
    """

    datasets: list[dict[str, Any]]
    seed: int
    length: int | str | None
    resume: bool
    reset_rngs: bool


class ParallelStreamingDataset(ComposedDataset):
    """One sample of each dataset at a time, as a tuple.

    Which samples are in a tuple is a pure function of the epoch and the position in it, so it resumes exactly, in any
    world. A member shorter than what is asked of it starts again, with its next epoch: it goes round. The members' own
    transforms apply; their drop_last does not.

    Args:
        datasets: StreamingDatasets. One may come several times.
        length: tuples of an epoch. None: as many as the smallest dataset has samples; epoch e then has the members'
            epochs e. float("inf"): an epoch has no end (nor ``len``), and each one starts where the first does.
        force_override_state_dict: when loading a state that does not fit, warn and let the local options win; the
            position is counted in their order.
        transform: makes the sample of a tuple: a callable of the tuple, or one that needs two positional arguments, the
            tuple and a dict of random number generators: "random" (random.Random), "numpy" (numpy.random.Generator) and
            "torch" (torch.Generator). They are fresh for every tuple and depend on the seed and on where each member
            stands, never on ranks or workers. A default value is never replaced: the second argument must have none.
        seed: of those generators, 0 <= seed < 2**63.
        resume: with an int length an epoch goes on in each dataset where the epoch before ended; False: all epochs have
            the samples of the first.
        reset_rngs: the generators depend on the positions in the members only: each round of them draws alike.
        drop_last: as for StreamingDataset.

    Raises:
        RuntimeError: a member is no StreamingDataset.
        InvalidArgumentError: an argument that can never work, or an empty member.
    """

    def __init__(
        self,
        datasets: Sequence[StreamingDataset],
        length: float | None = None,
        force_override_state_dict: bool = False,  # noqa: FBT001, FBT002 - the public signature
        transform: Callable[..., Any] | None = None,
        seed: int = 42,
        resume: bool = True,  # noqa: FBT001, FBT002 - the public signature
        reset_rngs: bool = False,  # noqa: FBT001, FBT002 - the public signature
        drop_last: bool | None = None,  # noqa: FBT001 - the public signature
    ) -> None:
        """Check the arguments; nothing is read."""
        super().__init__("ParallelStreamingDataset", datasets, drop_last)
        self._length = _checked_length(length)
        self._force = checked_flag("force_override_state_dict", force_override_state_dict)
        self._transform = transform
        self._with_rngs = transform is not None and _takes_rngs(transform)
        self._seed = checked_seed(seed)
        self._resume = checked_flag("resume", resume)
        self._reset_rngs = checked_flag("reset_rngs", reset_rngs)

    def __repr__(self) -> str:
        return f"ParallelStreamingDataset({list(self._datasets)!r}, length={self._length!r})"

    def __len__(self) -> int:
        """Return the samples this rank iterates over in an epoch.

        Raises:
            TypeError: an epoch has no end.
        """
        if self.endless:
            msg = "A ParallelStreamingDataset with length=float('inf') has no len()."
            raise TypeError(msg)
        return super().__len__()

    @property
    def groups(self) -> tuple[tuple[StreamingDataset, ...], ...]:
        """The datasets that are read: one group for each, side by side."""
        return tuple((dataset,) for dataset in self._datasets)

    @property
    def side_by_side(self) -> bool:
        """Whether a sample is a tuple of one of each group."""
        return True

    @property
    def endless(self) -> bool:
        """Whether an epoch has no end."""
        return self._length == math.inf

    @property
    def python_transform(self) -> str | None:
        """Name of the function that makes samples of tuples; None = there is none."""
        if self._transform is None:
            return None
        return str(getattr(self._transform, "__name__", type(self._transform).__name__))

    # ---- the order

    def _sizes(self) -> list[int]:
        sizes = [dataset.num_samples for dataset in self._datasets]
        if not all(sizes):  # a filter may leave nothing of another random part of its dataset
            msg = f"Dataset {sizes.index(0)} holds no samples any more."
            raise InvalidArgumentError(msg)
        return sizes

    def epoch_samples(self, epoch: int) -> int:  # noqa: ARG002 - the same in all
        """Return the samples of an epoch, on all ranks together."""
        if self._length is None:
            return min(self._sizes())
        return _ENDLESS if self._length == math.inf else int(self._length)

    def epoch_rows(self, epoch: int) -> RowsOf:
        """Return which samples make up a slice of an epoch. Later settings do not touch it."""
        sizes, before = self._sizes(), 0
        if isinstance(self._length, int) and self._resume:
            before = (max(epoch, 1) - 1) * self._length
        first_epoch = epoch if self._length is None else 1
        rounds = [
            _Rounds(dataset, size, first_epoch)
            for dataset, size in zip(self._datasets, sizes, strict=True)
        ]

        def rows(part: Slice) -> list[Rows]:
            first = before + part.begin + part.first
            return [member.rows(first, part.rows) for member in rounds]

        return rows

    def random_order(self) -> bool:
        """Return whether epochs differ."""
        goes_on = isinstance(self._length, int) and self._resume
        return goes_on or self._with_rngs or any(one.random_order() for one in self._datasets)

    def read_rows(self, rows: list[Rows], on_error: OnError) -> Iterator[Any]:
        """Return an iterator over the samples of rows."""
        members = (zip(one.epochs, one.positions, one.items, strict=True) for one in rows)
        for places in zip(*members, strict=True):
            sample = tuple(
                dataset.read_one(epoch, position, item, on_error)
                for dataset, (epoch, position, item) in zip(self._datasets, places, strict=True)
            )
            skipped = next((leaf for leaf in sample if isinstance(leaf, Skipped)), None)
            yield self._made(sample, places) if skipped is None else skipped

    def _made(self, sample: tuple[Any, ...], places: Sequence[tuple[int, int, int]]) -> Any:
        """Return what the transform makes of a tuple from these (epoch, position, item)."""
        if self._transform is None:
            return sample
        if not self._with_rngs:
            return self._transform(sample)
        positions = [position for _, position, _ in places]
        epochs = None if self._reset_rngs else [epoch for epoch, _, _ in places]
        return self._transform(sample, _generators(self._seed, positions, epochs))

    def ids(self, rows: list[Rows]) -> Iterable[tuple[int, ...]]:
        """Return the numbers in the members of the samples of rows."""
        return zip(*(one.items for one in rows), strict=True)

    def settings(self) -> dict[str, Any]:
        """Return what workers that live on need to know, as plain values."""
        return {"members": [dataset.settings() for dataset in self._datasets]}

    def adopt(self, settings: dict[str, Any]) -> None:
        """Take over `settings` of the same dataset in another process."""
        for dataset, its in zip(self._datasets, settings["members"], strict=True):
            dataset.adopt(its)

    # ---- states

    def progress(self, epoch: int, position: int) -> ParallelProgress:
        """Return a state of this dataset and its options."""
        length = self._length
        return ParallelProgress(
            datasets=member_states(self._datasets),
            seed=self._seed,
            length="inf" if isinstance(length, float) else length,
            resume=self._resume,
            reset_rngs=self._reset_rngs,
            epoch=epoch,
            position=position,
        )

    def check_state(self, state: dict[str, Any]) -> tuple[int, int]:
        """Return (epoch, position) of a state that fits this dataset; see `load_state_dict`."""
        epoch, position = checked_place(state)
        members, mine = state.get("datasets"), self.progress(0, 0).to_state()
        ours = mine.pop("datasets")
        if not isinstance(members, list) or not all(isinstance(one, dict) for one in members):
            msg = (
                "The state is not one of a ParallelStreamingDataset: it has no list of `datasets`."
            )
            raise StateMismatchError(msg)
        if len(members) != len(ours):
            msg = f"The state has {len(members)} datasets side by side, here are {len(ours)}."
            raise StateMismatchError(msg)
        for number, (its, own) in enumerate(zip(members, ours, strict=True)):
            check_fields(its, own, force=self._force, where=f" of dataset {number}")
        check_fields(state, mine, force=self._force)
        check_delivered(position, self.epoch_samples(epoch))
        return epoch, position


class _Rounds:
    """A member's epochs one after another, in the order it has now."""

    def __init__(self, dataset: StreamingDataset, size: int, first_epoch: int) -> None:
        """Keep a copy, which later settings of the dataset do not touch."""
        self._dataset, self._size, self._first_epoch = copy(dataset), size, first_epoch
        self._plans: dict[int, _core.EpochPlan] = {}

    def rows(self, first: int, count: int) -> Rows:
        """Return samples [first, first + count), counted from the start of the first epoch."""
        epochs: list[int] = []
        positions: list[int] = []
        items: list[int] = []
        while count:
            lap, start = divmod(first, self._size)
            taken = min(count, self._size - start)
            epoch = (self._first_epoch + lap) % _EPOCHS
            epochs += [epoch] * taken
            positions += range(start, start + taken)
            items += self._plan(epoch).fill(start, taken)
            first, count = first + taken, count - taken
        return Rows([0] * len(items), epochs, positions, items)

    def _plan(self, epoch: int) -> _core.EpochPlan:
        if epoch not in self._plans:
            while len(self._plans) >= _KEPT_PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[epoch] = self._dataset.epoch_plan(epoch)
        return self._plans[epoch]


def _generators(seed: int, positions: list[int], epochs: list[int] | None) -> dict[str, Any]:
    """Return the random number generators of a tuple."""
    digest = hashlib.sha256(repr((seed, positions, epochs)).encode()).digest()
    own = [int.from_bytes(digest[start : start + 8], "little") for start in (0, 8, 16)]
    return {
        "random": random.Random(own[0]),  # noqa: S311 - for augmentation
        "numpy": np.random.default_rng(own[1]),
        "torch": torch.Generator().manual_seed(own[2] >> 1),
    }


def _checked_length(length: object) -> float | None:
    """Return ``length``: None, an int, or infinity.

    Raises:
        InvalidArgumentError: it is something else.
    """
    if length is None:
        return None
    if isinstance(length, float) and length == math.inf:
        return math.inf
    if (
        isinstance(length, bool)
        or not isinstance(length, Integral)
        or not 1 <= int(length) < _ENDLESS
    ):
        msg = f"length={length!r} must be an int from 1 to 2**62 - 1, float('inf') for an epoch without end, or None."
        raise InvalidArgumentError(msg)
    return int(length)


def _takes_rngs(transform: object) -> bool:
    """Return whether a transform needs the generators too: two positional arguments without default values.

    Raises:
        InvalidArgumentError: it can be called neither with one argument nor with two.
    """
    if not callable(transform):
        msg = f"transform must be a callable of the tuple, or of the tuple and a dict of generators, found {transform!r}."
        raise InvalidArgumentError(msg)
    try:
        asked: Any = transform
        signature = inspect.signature(
            asked.forward if isinstance(asked, torch.nn.Module) else asked
        )
    except (TypeError, ValueError):  # some builtins do not tell
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in signature.parameters.values() if p.kind in kinds and p.default is p.empty]
    count = max(len(needed), 1)
    try:
        signature.bind(*range(count))
    except TypeError as error:
        count, why = 3, str(error)
    else:
        why = f"it needs {count} arguments"
    if count > 2:  # noqa: PLR2004 - the tuple and the generators
        msg = f"transform={transform!r} must take the tuple, or the tuple and a dict of generators, but {why}."
        raise InvalidArgumentError(msg)
    return count == 2  # noqa: PLR2004
