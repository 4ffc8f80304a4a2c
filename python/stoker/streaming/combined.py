# SPDX-License-Identifier: Apache-2.0
"""CombinedStreamingDataset: one epoch mixed from several datasets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from stoker.exceptions import InvalidArgumentError, StateMismatchError
from stoker.streaming._assignment import Cursor, Slice
from stoker.streaming._epochs import OnError, checked_flag
from stoker.streaming._members import ComposedDataset, member_states
from stoker.streaming._mixed_progress import (
    METHODS,
    MixedProgress,
    as_plain,
    read_progress,
    segment_of,
)
from stoker.streaming._mixing import Mix, Segment, checked_weights
from stoker.streaming._order import checked_seed
from stoker.streaming._per_stream import PerStreamSteps
from stoker.streaming._progress import Progress, check_fields
from stoker.streaming._rows import Rows, RowsOf
from stoker.streaming._steps import SliceSteps, Steps
from stoker.streaming.dataset import StreamingDataset


class CombinedStreamingDataset(ComposedDataset):
    """Samples of several datasets in one epoch, each dataset in its own order.

    Which dataset a position takes its sample from is a pure function of the position: every 1,024 samples hold each
    dataset's share, rounded up or down at random, in a random order. So a mixture resumes exactly, in any world. The
    members' own transforms apply; their drop_last does not.

    Args:
        datasets: StreamingDatasets. One may come several times: each takes its samples from the start.
        seed: of the choice, 0 <= seed < 2**63.
        weights: a number of at least 0 for each dataset; needs iterate_over_all=False. None = the datasets' sizes.
        iterate_over_all: True: an epoch holds every sample of every dataset exactly once, and all datasets end together
            (no weights are possible). False: it ends before the first draw from a dataset that has no more.
        batching_method: "stratified": each sample is chosen for itself. "per_stream": each global batch is, and comes
            from one dataset; weights are then shares of batches. The loader's batch_size may have a size per dataset,
            and a dataset's last batch, which comes in the middle of an epoch, may be short: drop_last leaves it out,
            the loader's pad="mask" fills it up.
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
        super().__init__("CombinedStreamingDataset", datasets, drop_last)
        self._seed = checked_seed(seed)
        if iterate_over_all and weights is not None:
            msg = "With weights an epoch cannot hold every sample exactly once: pass iterate_over_all=False too."
            raise InvalidArgumentError(msg)
        if batching_method not in METHODS:
            msg = f"batching_method={batching_method!r} is unknown; use {' or '.join(map(repr, METHODS))}."
            raise InvalidArgumentError(msg)
        self._batching_method = batching_method
        self._iterate_over_all = checked_flag("iterate_over_all", iterate_over_all)
        self._weights = None
        if not iterate_over_all:
            given = self._sizes() if weights is None else weights
            self._weights = checked_weights(given, len(self._datasets))
        self._set_weights: tuple[float, ...] | None = None
        self._force = checked_flag("force_override_state_dict", force_override_state_dict)
        # Where the weights in force begin to hold in the epoch that runs, or was loaded; in others they do at 0.
        self._segment: tuple[int, Segment] | None = None
        self._mixes: dict[tuple[Any, ...], Mix] = {}

    def _sizes(self) -> list[int]:
        return [dataset.num_samples for dataset in self._datasets]

    def __repr__(self) -> str:
        return f"CombinedStreamingDataset({self._datasets!r}, weights={self.weights!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Pickle options and state; the native mixture is made anew in the other process."""
        return {**self.__dict__, "_mixes": {}}

    @property
    def groups(self) -> tuple[tuple[StreamingDataset, ...], ...]:
        """The datasets that are read: one group."""
        return (self._datasets,)

    @property
    def batched(self) -> bool:
        """Whether each batch is from one dataset."""
        return self._batching_method == "per_stream"

    @property
    def weights(self) -> tuple[float, ...] | None:
        """What the datasets are drawn by now, adding up to 1; None: each sample once."""
        return self._weights if self._set_weights is None else self._set_weights

    def set_weights(self, weights: Sequence[float]) -> None:
        """Draw by other weights: from the next batch on that is asked for, also in an epoch that runs.

        A state keeps them. When ranks are several, set them on all ranks between the same two batches.

        Raises:
            InvalidArgumentError: weights that do not fit, or iterate_over_all=True.
        """
        if self._iterate_over_all:
            msg = "With iterate_over_all=True every sample comes once; there are no weights to set."
            raise InvalidArgumentError(msg)
        shares = checked_weights(weights, len(self._datasets))
        if shares == self.weights:
            return
        self._set_weights = None if shares == self._weights else shares
        self._changes += 1

    # ---- the order

    def _first_segment(self, batches: tuple[int, ...] | None = None) -> Segment:
        return Segment(0, (0,) * len(self._datasets), batches)

    def _segment_of(self, epoch: int) -> Segment:
        if self._segment is not None and self._segment[0] == epoch:
            return self._segment[1]
        return self._first_segment()

    def _segment_at(self, cursor: Cursor) -> Segment:
        """Return the segment of an iteration."""
        batches = None
        if self.batched:
            sizes = cursor.sizes or (cursor.batch_size,) * len(self._datasets)
            batches = tuple(size * cursor.world_size for size in sizes)
        if cursor.start == 0:
            return self._first_segment(batches)
        segment = self._segment_of(cursor.epoch)
        if segment.batches == batches:
            return segment
        return self._mix(cursor.epoch, segment).segment_from(cursor.start, batches)

    def _mix(self, epoch: int, segment: Segment) -> Mix:
        key = (epoch, segment, self.weights, tuple(self._sizes()))
        if key not in self._mixes:
            made = Mix(self._sizes(), self.weights, self._seed, epoch, segment)
            self._mixes = {key: made}  # of one epoch at a time
        return self._mixes[key]

    def begin(self, cursor: Cursor) -> None:
        """Get ready for an iteration."""
        self._segment = (cursor.epoch, self._segment_at(cursor))

    def restore(self, start: Progress) -> None:
        """Go back to what held in the epoch of a state of this dataset and its options."""
        self._segment = (start.epoch, segment_of(_mixed(start).segment))

    def rebase(self, start: Progress, position: int) -> None:
        """Let the weights hold from this position on in the epoch that began with ``start``."""
        start = _mixed(start)
        batches = segment_of(start.segment).batches
        self._segment = (start.epoch, start.mix().segment_from(position, batches))

    def epoch_samples(self, epoch: int) -> int:
        """Return the samples of an epoch, on all ranks together."""
        return self._mix(epoch, self._segment_of(epoch)).end

    def whole_epoch_samples(self, epoch: int) -> int:
        """Return the samples of an epoch begun at its start with the options as they are now, on all ranks together."""
        return self._mix(epoch, self._first_segment()).end

    def epoch_rows(self, epoch: int) -> RowsOf:
        """Return which samples make up a slice of an epoch, when batches are slices."""
        segment = self._segment_of(epoch)
        mix = self._mix(epoch, segment)
        plans = [dataset.epoch_plan(epoch) for dataset in self._datasets]

        def rows(part: Slice) -> list[Rows]:
            first = part.begin + part.first - segment.position
            sources, before = mix.sources(first, part.rows), mix.delivered(first)
            members = []
            for number, plan in enumerate(plans):
                start, count = before[number], sources.count(number)
                members.append(enumerate(plan.fill(start, count), start))
            places = [next(members[number]) for number in sources]
            positions, items = [place[0] for place in places], [place[1] for place in places]
            return [Rows(sources, [epoch] * len(sources), positions, items)]

        return rows

    def steps(self, cursor: Cursor) -> Steps:
        """Return the batches of the rest of an epoch. Later settings do not touch them."""
        if not self.batched:
            return SliceSteps(self, cursor)
        mix = self._mix(cursor.epoch, self._segment_at(cursor))
        plans = [dataset.epoch_plan(cursor.epoch) for dataset in self._datasets]
        return PerStreamSteps(plans, mix, cursor)

    def read_rows(self, rows: list[Rows], on_error: OnError) -> Iterator[Any]:
        """Return an iterator over the samples of rows."""
        for part, epoch, position, item in zip(*rows[0], strict=True):
            yield self._datasets[part].read_one(epoch, position, item, on_error)

    def ids(self, rows: list[Rows]) -> Iterable[tuple[int, int]]:
        """Return (number of the dataset, number in it) of the samples of rows."""
        return zip(rows[0].parts, rows[0].items, strict=True)

    # ---- states

    def progress(self, epoch: int, position: int) -> MixedProgress:
        """Return a state of this dataset and its options."""
        segment = self._segment_of(epoch)
        if segment.position > position:  # the epoch was started again
            segment = self._first_segment()
        return MixedProgress(
            datasets=member_states(self._datasets),
            seed=self._seed,
            iterate_over_all=self._iterate_over_all,
            batching_method=self._batching_method,
            weights=None if self._weights is None else list(self._weights),
            set_weights=None if self._set_weights is None else list(self._set_weights),
            segment=as_plain(segment),
            epoch=epoch,
            position=position,
        )

    def check_state(self, state: dict[str, Any]) -> tuple[int, int]:
        """Return (epoch, position) of a state that fits this dataset; see `load_state_dict`.

        With force_override_state_dict other weights, another seed or more datasets than in the state hold from its
        position on; what was delivered before stays delivered.
        """
        found = read_progress(state)
        same, position = self._fits(state), found.position
        mix = found.checked_mix()
        if same:
            segment = segment_of(found.segment)
            weights = None if found.set_weights is None else tuple(found.set_weights)
        else:
            delivered = mix.delivered(mix.draw_at(position))
            segment = self._forced_segment(position, delivered)
            weights = None
        if (
            position and position == mix.end
        ):  # also when here it would not be the end: that epoch is over
            epoch, position = found.epoch + 1, 0
        else:
            epoch = found.epoch
        self._segment = (epoch, segment) if position else None
        if weights != self._set_weights:
            self._set_weights = weights
            self._changes += 1
        return epoch, position

    def _fits(self, state: dict[str, Any]) -> bool:
        """Return whether a state is one of these datasets and options; else go on only by force."""
        mine, members = self.progress(state["epoch"], 0).to_state(), state["datasets"]
        same = len(members) == len(self._datasets)
        if len(members) > len(self._datasets) or (not same and not self._force):
            msg = (
                f"The state has {len(members)} datasets, here are {len(self._datasets)}. Datasets may be added at the end "
                "with force_override_state_dict=True; none may be left out."
            )
            raise StateMismatchError(msg)
        for number, (theirs, ours) in enumerate(zip(members, mine["datasets"], strict=False)):
            same &= check_fields(theirs, ours, force=self._force, where=f" of dataset {number}")
        free = ("datasets", "segment", "set_weights")
        rest = {key: value for key, value in mine.items() if key not in free}
        return check_fields(state, rest, force=self._force) and same

    def _forced_segment(self, position: int, delivered: list[int]) -> Segment:
        """Return where a state of another mixture goes on in this one."""
        delivered += [0] * (len(self._datasets) - len(delivered))
        for number, (count, size) in enumerate(zip(delivered, self._sizes(), strict=True)):
            if count > size:
                msg = f"The state has delivered {count} samples of dataset {number}, which holds {size}."
                raise StateMismatchError(msg)
        return Segment(position, tuple(delivered))

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be epoch ``epoch`` (an int of at least 0) from its start."""
        super().set_epoch(epoch)
        self._segment = None

    def settings(self) -> dict[str, Any]:
        """Return what workers that live on need to know, as plain values."""
        segment = None
        if self._segment is not None:
            segment = [self._segment[0], as_plain(self._segment[1])]
        members = [dataset.settings() for dataset in self._datasets]
        return {"members": members, "set_weights": self._set_weights, "segment": segment}

    def adopt(self, settings: dict[str, Any]) -> None:
        """Take over `settings` of the same dataset in another process."""
        for dataset, its in zip(self._datasets, settings["members"], strict=True):
            dataset.adopt(its)
        weights, segment = settings["set_weights"], settings["segment"]
        self._set_weights = None if weights is None else tuple(weights)
        self._segment = None if segment is None else (segment[0], segment_of(segment[1]))


def _mixed(start: Progress) -> MixedProgress:
    if not isinstance(start, MixedProgress):
        msg = f"{type(start).__name__} is no state of a mixture"
        raise TypeError(msg)
    return start
