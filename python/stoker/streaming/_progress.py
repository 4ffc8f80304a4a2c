# SPDX-License-Identifier: Apache-2.0
"""What has been delivered, as a state of a few hundred bytes, and the checks when it comes back."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import Any

from stoker.exceptions import StateMismatchError
from stoker.streaming._order import ShuffleMode

logger = logging.getLogger(__name__)

STATE_VERSION = 1
_TOO_BIG = 1 << 63  # C++ takes 64 bits
_LITDATA_KEYS = {"num_samples_yielded", "latest_worker_idx", "current_epoch"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an epoch has come. The kinds of dataset add what their order is made from.

    Attributes:
        epoch: the epoch the position belongs to.
        position: samples of that epoch delivered by all ranks together.
    """

    epoch: int
    position: int

    def to_state(self) -> dict[str, Any]:
        """Return the state as a dict of plain values: JSON-serializable, to be loaded with any ranks, workers and batch size."""
        return {"state_version": STATE_VERSION, **asdict(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetProgress(Progress):
    """The state of a StreamingDataset.

    Attributes:
        dataset: fingerprint of the dataset's index.
        samples: items of the dataset after subsampling, subset and filter.
        order_version, shuffle, seed, window, num_canonical_nodes, subsample: what the order is made from.
        selection: "all" (of the subsampled dataset), or 16 hex digits of the item ranges of a subset or filter.
    """

    dataset: str
    samples: int
    order_version: int
    shuffle: ShuffleMode
    seed: int
    window: int
    num_canonical_nodes: int
    subsample: float
    selection: str


def check_fields(
    state: dict[str, Any], mine: dict[str, Any], *, force: bool, where: str = ""
) -> bool:
    """Compare what is in a state with what is here; epoch and position may differ.

    Args:
        state: as saved.
        mine: as it would be saved here.
        force: only warn.
        where: names the part of the state in messages.

    Returns:
        Whether all is equal.

    Raises:
        StateMismatchError: a field is missing; or one differs and not ``force``. The message names each value.
    """
    missing = mine.keys() - state.keys()
    if missing:
        msg = f"The state{where} lacks {sorted(missing)}; it was cut or altered."
        raise StateMismatchError(msg)
    differing = [k for k in mine if k not in ("epoch", "position") and state[k] != mine[k]]
    if not differing:
        return True
    text = "; ".join(f"`{k}` is {state[k]!r} in the state and {mine[k]!r} here" for k in differing)
    if not force:
        msg = f"The state{where} does not fit: {text}. Use the same options, or force_override_state_dict=True to go on with the local ones."
        raise StateMismatchError(msg)
    logger.warning(
        "Loading a state that does not fit (force_override_state_dict=True)%s: %s.", where, text
    )
    return False


def checked_place(state: Any) -> tuple[int, int]:
    """Return (epoch, position) of a state of this version.

    Raises:
        StateMismatchError: it is none.
    """
    version = state.get("state_version") if isinstance(state, dict) else None
    if isinstance(state, dict) and "state_version" not in state and _LITDATA_KEYS & state.keys():
        msg = (
            "This is a state of litdata, which counts in another order of the samples; it cannot be continued here. Start "
            "the epoch again: loader.set_epoch(state['current_epoch']), without load_state_dict."
        )
        raise StateMismatchError(msg)
    if type(version) is not int or version != STATE_VERSION:
        msg = f"This is no state of version {STATE_VERSION} (found {version!r}). Pass what `state_dict()` returned."
        raise StateMismatchError(msg)
    if "buckets" in state:
        msg = "This state was counted in buckets: load it into a StreamingDataLoader with the same bucket_by."
        raise StateMismatchError(msg)
    epoch, position = state.get("epoch"), state.get("position")
    if (
        type(epoch) is not int
        or type(position) is not int
        or not 0 <= epoch < _TOO_BIG
        or not 0 <= position < _TOO_BIG
    ):
        msg = f"The state has epoch={epoch!r} and position={position!r}; both must be ints of at least 0."
        raise StateMismatchError(msg)
    return epoch, position


def check_delivered(position: int, samples: int) -> None:
    """Compare a position with the size of its epoch.

    Raises:
        StateMismatchError: more was delivered than there is.
    """
    if position > samples:
        msg = f"The state has delivered {position} samples, but the dataset holds {samples}."
        raise StateMismatchError(msg)


def load_progress(
    state: dict[str, Any], current: DatasetProgress, *, force: bool
) -> tuple[int, int]:
    """Return (epoch, position) of ``state`` after checking that it fits ``current``.

    Args:
        state: what `Progress.to_state` returned, now or in another process. It is not modified.
        current: the dataset and options the state is loaded into.
        force: only warn about differences: the local options win, and the position is counted in their order.

    Raises:
        StateMismatchError: no state of this kind, or one of another dataset or other options; the message names
            each value, found and expected.
    """
    epoch, position = checked_place(state)
    check_fields(state, current.to_state(), force=force)
    check_delivered(position, current.samples)
    return epoch, position
