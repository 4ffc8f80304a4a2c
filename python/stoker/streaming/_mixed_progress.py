# SPDX-License-Identifier: Apache-2.0
"""The state of a mixture, and how one is read back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeGuard

from stoker.exceptions import InvalidArgumentError, StateMismatchError
from stoker.streaming._mixing import Mix, Segment, checked_weights
from stoker.streaming._order import checked_seed
from stoker.streaming._progress import Progress, checked_place

_MOST_SAMPLES = 1 << 36  # of a member: a mixture of more cannot be drawn in reasonable time
METHODS = ("stratified", "per_stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedProgress(Progress):
    """The state of a mixture.

    Attributes:
        datasets: states of the members, without place.
        seed, iterate_over_all, batching_method: of the choice.
        weights: of the constructor, adding up to 1; None: in proportion to what is left.
        set_weights: set since; None: none were.
        segment: since when the weights in force hold in this epoch: {"position", "delivered": of each dataset before it,
            "batches": samples of a global batch of each dataset, or None}.
    """

    datasets: list[dict[str, Any]]
    seed: int
    iterate_over_all: bool
    batching_method: str
    weights: list[float] | None
    set_weights: list[float] | None
    segment: dict[str, Any]

    def mix(self) -> Mix:
        """Return the choice that the state was taken from."""
        weights = self.weights if self.set_weights is None else self.set_weights
        sizes = [member["samples"] for member in self.datasets]
        return Mix(sizes, weights, self.seed, self.epoch, segment_of(self.segment))

    def checked_mix(self) -> Mix:
        """Return `mix` after checking that it leads to the position.

        Raises:
            StateMismatchError: it does not.
        """
        mix = self.mix()
        if self.position > mix.end:
            msg = f"The state has delivered {self.position} samples, but its epoch has {mix.end}."
            raise StateMismatchError(msg)
        mix.draw_at(self.position)
        return mix


def as_plain(segment: Segment) -> dict[str, Any]:
    """Return a segment as a state holds it."""
    batches = None if segment.batches is None else list(segment.batches)
    return {
        "position": segment.position,
        "delivered": list(segment.delivered),
        "batches": batches,
    }


def segment_of(plain: dict[str, Any]) -> Segment:
    """Return what `as_plain` was given."""
    batches = None if plain["batches"] is None else tuple(plain["batches"])
    return Segment(plain["position"], tuple(plain["delivered"]), batches)


def read_progress(state: Any) -> MixedProgress:
    """Return a state as what it says.

    Raises:
        StateMismatchError: it is no state of a mixture, or one that no mixture gave.
    """
    checked_place(state)
    members = state.get("datasets")
    if not isinstance(members, list) or not all(map(_is_member, members)):
        msg = "The state is not one of a CombinedStreamingDataset: it has no list of `datasets`."
        raise StateMismatchError(msg)
    missing = MixedProgress.__dataclass_fields__.keys() - state.keys()
    if missing:
        msg = f"The state lacks {sorted(missing)}; it was cut or altered."
        raise StateMismatchError(msg)
    found = MixedProgress(**{key: state[key] for key in MixedProgress.__dataclass_fields__})
    _check_choice(found)
    _check_segment(found)
    return found


def _is_member(member: Any) -> bool:
    if not isinstance(member, dict):
        return False
    samples = member.get("samples")
    return type(samples) is int and 0 < samples < _MOST_SAMPLES


def _check_choice(found: MixedProgress) -> None:
    try:
        checked_seed(found.seed)
        for weights in (found.weights, found.set_weights):
            if weights is not None:
                checked_weights(weights, len(found.datasets))
    except InvalidArgumentError as error:
        msg = f"The state was altered: {error}"
        raise StateMismatchError(msg) from None
    shares = [weights for weights in (found.weights, found.set_weights) if weights is not None]
    if any(abs(sum(weights) - 1) > 1e-6 for weights in shares):  # noqa: PLR2004 - of rounding
        msg = f"The state's weights are {shares}, which do not add up to 1; it was altered."
        raise StateMismatchError(msg)
    exactly_one = found.iterate_over_all is (found.weights is None)
    if (
        not exactly_one
        or found.batching_method not in METHODS
        or (found.set_weights is not None and found.iterate_over_all)
    ):
        msg = (
            f"The state has iterate_over_all={found.iterate_over_all!r}, weights={found.weights!r}, set_weights="
            f"{found.set_weights!r} and batching_method={found.batching_method!r}; it was altered."
        )
        raise StateMismatchError(msg)


def _check_segment(found: MixedProgress) -> None:
    """Check that a segment is one, and that it begins where the position can have come from."""
    segment = found.segment if isinstance(found.segment, dict) else {}
    begin, delivered = segment.get("position"), segment.get("delivered", ())
    batches = segment.get("batches", "missing")
    sizes = [member["samples"] for member in found.datasets]
    if (
        type(begin) is int
        and begin <= found.position
        and _are_counts(delivered, sizes)
        and sum(delivered) == begin
        and (batches is None or _are_counts(batches, [1 << 62] * len(sizes), least=1))
        and (batches is None) <= (found.batching_method == "stratified" or begin == found.position)
        and (batches is None) >= (found.batching_method == "stratified")
    ):
        return
    msg = f"The state's `segment` is {found.segment!r}, at position {found.position}; it was cut or altered."
    raise StateMismatchError(msg)


def _are_counts(numbers: Any, most: list[int], least: int = 0) -> TypeGuard[list[int]]:
    return (
        isinstance(numbers, list)
        and len(numbers) == len(most)
        and all(
            type(number) is int and least <= number <= top
            for number, top in zip(numbers, most, strict=True)
        )
    )
