# SPDX-License-Identifier: Apache-2.0
"""CombinedStreamingDataset: one epoch mixed from several datasets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.exceptions import InvalidArgumentError, StateMismatchError
from stoker.streaming._assignment import Cursor, Slice
from stoker.streaming._epochs import EpochDataset, OnError
from stoker.streaming._members import checked_members, member_states, open_members
from stoker.streaming._mixing import Mix, Segment, checked_weights
from stoker.streaming._order import ShuffleMode, checked_seed
from stoker.streaming._progress import Progress, check_delivered, check_fields, checked_place
from stoker.streaming.dataset import StreamingDataset


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedProgress(Progress):
    """The state of a mixture.

    Attributes:
        datasets: states of the members, without place.
        seed, iterate_over_all: of the choice.
        weights: adding up to 1; None: in proportion to what is left.
        segment: since when these weights hold in this epoch: {"position", "delivered": of each dataset before it}.
    """

    datasets: list[dict[str, Any]]
    seed: int
    iterate_over_all: bool
    weights: list[float] | None
    segment: dict[str, Any]


class CombinedStreamingDataset(EpochDataset):
    """Samples of several datasets in one epoch, each dataset in its own order.

    Which dataset a position takes its sample from is a pure function of the position: every 1,024 samples hold each
    dataset's share, rounded up or down at random, in a random order. So a mixture resumes exactly, in any world. The
    members' own transforms apply; their drop_last does not.

    Args:
        datasets: StreamingDatasets.
        seed: of the choice, 0 <= seed < 2**63.
        weights: a number of at least 0 for each dataset. None = in proportion to the datasets' sizes.
        iterate_over_all: True: an epoch holds every sample of every dataset exactly once, and all datasets end together
            (no weights are possible). False: it ends before the first draw from a dataset that has no more.
        batching_method: "stratified": each sample is chosen for itself.
        force_override_state_dict: when loading a state that does not fit, warn and let the local options win.
        drop_last: as for StreamingDataset.

    Raises:
        RuntimeError: a member is no StreamingDataset.
        InvalidArgumentError: an argument that can never work, or an empty member.
    """

    def __init__(
        self,
        datasets: Sequence[StreamingDataset],
        seed: int = 42,
        weights: Sequence[float] | None = None,
        iterate_over_all: bool = True,  # noqa: FBT001, FBT002 - the public signature
        batching_method: str = "stratified",
        force_override_state_dict: bool = False,  # noqa: FBT001, FBT002 - the public signature
        drop_last: bool | None = None,  # noqa: FBT001 - the public signature
    ) -> None:
        """Check the arguments; nothing is read."""
        super().__init__(drop_last)
        self._datasets = checked_members("CombinedStreamingDataset", datasets)
        self._seed = checked_seed(seed)
        if iterate_over_all and weights is not None:
            msg = "With weights an epoch cannot hold every sample exactly once: pass iterate_over_all=False too."
            raise InvalidArgumentError(msg)
        if batching_method != "stratified":
            msg = f"batching_method={batching_method!r} is unknown; use 'stratified'."
            raise InvalidArgumentError(msg)
        self._iterate_over_all = bool(iterate_over_all)
        self._weights = None if iterate_over_all else self._shares(weights)
        self._force = force_override_state_dict
        # Of the epoch in which a state was loaded, or weights were set in the middle; others begin at 0.
        self._segment: tuple[int, Segment] | None = None
        self._mixes: dict[tuple[Any, ...], Mix] = {}

    def _shares(self, weights: Sequence[float] | None) -> tuple[float, ...]:
        given = self._sizes() if weights is None else weights
        return checked_weights(given, len(self._datasets))

    def _sizes(self) -> list[int]:
        return [dataset.num_samples for dataset in self._datasets]

    def __repr__(self) -> str:
        return f"CombinedStreamingDataset({self._datasets!r}, weights={self._weights!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Pickle options and state; the native mixture is made anew in the other process."""
        return {**self.__dict__, "_mixes": {}}

    @property
    def datasets(self) -> tuple[StreamingDataset, ...]:
        """The members."""
        return self._datasets

    @property
    def weights(self) -> tuple[float, ...] | None:
        """What the datasets' samples are drawn by, adding up to 1; None: each sample once."""
        return self._weights

    def set_weights(self, weights: Sequence[float]) -> None:
        """Draw by other weights from the next iteration on, also one that goes on in the middle of an epoch.

        Raises:
            InvalidArgumentError: weights that do not fit, or iterate_over_all=True.
        """
        if self._iterate_over_all:
            msg = "With iterate_over_all=True every sample comes once; there are no weights to set."
            raise InvalidArgumentError(msg)
        shares = checked_weights(weights, len(self._datasets))
        epoch, position = self._position or (self._next_epoch, self._resume_at)
        if position:
            self.begin_segment(epoch, position)
        self._weights = shares

    def begin_segment(self, epoch: int, position: int) -> None:
        """Let what is set from now on count from this position of this epoch only."""
        if position == 0:
            self._segment = None
            return
        mix, segment = self._mix(epoch)
        delivered = mix.delivered(position - segment.position)
        self._segment = (epoch, Segment(position, tuple(delivered)))

    # ---- the order

    def _segment_of(self, epoch: int) -> Segment:
        if self._segment is not None and self._segment[0] == epoch:
            return self._segment[1]
        return Segment(0, (0,) * len(self._datasets))

    def _mix(self, epoch: int) -> tuple[Mix, Segment]:
        segment = self._segment_of(epoch)
        key = (epoch, segment, self._weights, tuple(self._sizes()))
        if key not in self._mixes:
            draws_key = (self._seed, epoch, segment.position)
            made = Mix(self._sizes(), self._weights, draws_key, segment.delivered)
            self._mixes = {key: made}  # of one epoch at a time
        return self._mixes[key], segment

    def epoch_samples(self, epoch: int) -> int:
        """Return the samples of an epoch, on all ranks together."""
        mix, segment = self._mix(epoch)
        return segment.position + mix.size

    def samples(
        self, cursor: Cursor, worker: int, num_workers: int, on_error: OnError
    ) -> Iterator[Any]:
        """Return an iterator over what one worker of a rank delivers. Later settings do not touch it."""
        mix, segment = self._mix(cursor.epoch)
        plans = [dataset.epoch_plan(cursor.epoch) for dataset in self._datasets]
        total = segment.position + mix.size

        def read(part: Slice) -> Iterator[Any]:
            first = part.begin + part.first - segment.position
            sources, before = mix.sources(first, part.rows), mix.delivered(first)
            readers = []
            for number, dataset in enumerate(self._datasets):
                start, count = before[number], sources.count(number)
                items = enumerate(plans[number].fill(start, count), start)
                readers.append(dataset.read(cursor.epoch, items, on_error))
            for number in sources:
                yield next(readers[number])

        for part in cursor.slices(total, worker, num_workers):
            yield from read(part)

    def set_shuffle(self, shuffle: ShuffleMode) -> None:
        """Shuffle all members or none, from the next iteration on."""
        for dataset in self._datasets:
            dataset.set_shuffle(shuffle)

    def open(self) -> None:
        """Make native readers now, so that forked workers share them."""
        open_members(self._datasets)

    def close(self) -> None:
        """Close all files; they open again when needed."""
        for dataset in self._datasets:
            dataset.close()

    # ---- states

    def progress(self, epoch: int, position: int) -> CombinedProgress:
        """Return a state of this dataset and its options."""
        segment = self._segment_of(epoch)
        if segment.position > position:  # the epoch was started again
            segment = Segment(0, (0,) * len(self._datasets))
        return CombinedProgress(
            datasets=member_states(self._datasets),
            seed=self._seed,
            iterate_over_all=self._iterate_over_all,
            weights=None if self._weights is None else list(self._weights),
            segment={"position": segment.position, "delivered": list(segment.delivered)},
            epoch=epoch,
            position=position,
        )

    def check_state(self, state: dict[str, Any]) -> tuple[int, int]:
        """Return (epoch, position) of a state that fits this dataset; see `load_state_dict`.

        With force_override_state_dict other weights, another seed or more datasets than in the state hold from its
        position on; what was delivered before stays delivered.
        """
        epoch, position = checked_place(state)
        mine = self.progress(epoch, 0).to_state()
        members = state.get("datasets")
        if not isinstance(members, list) or not all(isinstance(m, dict) for m in members):
            msg = (
                "The state is not one of a CombinedStreamingDataset: it has no list of `datasets`."
            )
            raise StateMismatchError(msg)
        same = len(members) == len(self._datasets)
        if len(members) > len(self._datasets) or (not same and not self._force):
            msg = (
                f"The state has {len(members)} datasets, here are {len(self._datasets)}. Datasets may be added at the end "
                "with force_override_state_dict=True; none may be left out."
            )
            raise StateMismatchError(msg)
        for number, (theirs, ours) in enumerate(zip(members, mine["datasets"], strict=False)):
            same &= check_fields(theirs, ours, force=self._force, where=f" of dataset {number}")
        ignored = ("datasets", "segment")
        rest = {key: value for key, value in mine.items() if key not in ignored}
        same &= check_fields(state, rest, force=self._force)
        segment = _checked_segment(state.get("segment"), len(members))
        if same:
            self._segment = (epoch, segment) if segment.position else None
        else:
            self._adopt_foreign(state, epoch, position, segment)
        check_delivered(position, self.epoch_samples(epoch))
        return epoch, position

    def _adopt_foreign(
        self, state: dict[str, Any], epoch: int, position: int, segment: Segment
    ) -> None:
        sizes = [member.get("samples", 0) for member in state["datasets"]]
        key = (state["seed"], epoch, segment.position)
        mix = Mix(sizes, state["weights"], key, segment.delivered)
        if position - segment.position > mix.size:
            check_delivered(position, segment.position + mix.size)
        delivered = mix.delivered(position - segment.position)
        delivered += [0] * (len(self._datasets) - len(delivered))
        for number, (count, size) in enumerate(zip(delivered, self._sizes(), strict=True)):
            if count > size:
                msg = f"The state has delivered {count} samples of dataset {number}, which holds {size}."
                raise StateMismatchError(msg)
        self._segment = (epoch, Segment(position, tuple(delivered))) if position else None

    def settings(self) -> dict[str, Any]:
        """Return what workers that live on need to know, as plain values."""
        segment = None
        if self._segment is not None:
            epoch, found = self._segment
            segment = [epoch, found.position, list(found.delivered)]
        members = [dataset.settings() for dataset in self._datasets]
        return {"members": members, "weights": self._weights, "segment": segment}

    def adopt(self, settings: dict[str, Any]) -> None:
        """Take over `settings` of the same dataset in another process."""
        for dataset, its in zip(self._datasets, settings["members"], strict=True):
            dataset.adopt(its)
        weights, segment = settings["weights"], settings["segment"]
        self._weights = None if weights is None else tuple(weights)
        self._segment = (
            None if segment is None else (segment[0], Segment(segment[1], tuple(segment[2])))
        )


def _checked_segment(segment: Any, count: int) -> Segment:
    if isinstance(segment, dict):
        position, delivered = segment.get("position"), segment.get("delivered")
        numbers: list[Any] = delivered if isinstance(delivered, list) else [None]
        if (
            type(position) is int
            and len(numbers) == count
            and all(type(number) is int and number >= 0 for number in numbers)
            and sum(numbers) == position
        ):
            return Segment(position, tuple(numbers))
    msg = f"The state's `segment` is {segment!r}; it was cut or altered."
    raise StateMismatchError(msg)
