# SPDX-License-Identifier: Apache-2.0
"""What has been delivered, as a state of a few hundred bytes, and the checks when it comes back."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import Any

from stoker.exceptions import StateMismatchError

logger = logging.getLogger(__name__)

STATE_VERSION = 1
_TOO_BIG = 1 << 63  # C++ takes 64 bits


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of an iteration. JSON-serializable; independent of ranks, workers and batch size.

    Attributes:
        dataset: fingerprint of the dataset's index.
        samples: items of the dataset after subsampling.
        order_version, shuffle, seed, window, subsample: what the order is made from.
        epoch: the epoch the position belongs to.
        position: samples of that epoch delivered by all ranks together.
    """

    dataset: str
    samples: int
    order_version: int
    shuffle: bool
    seed: int
    window: int
    subsample: float
    epoch: int
    position: int

    def to_state(self) -> dict[str, Any]:
        """Return the state as a dict of plain values."""
        return {"state_version": STATE_VERSION, **asdict(self)}


def load_progress(state: dict[str, Any], current: Progress, *, force: bool) -> tuple[int, int]:
    """Return (epoch, position) of ``state`` after checking that it fits ``current``.

    Args:
        state: what `Progress.to_state` returned, now or in another process. It is not modified.
        current: the dataset and options the state is loaded into.
        force: only warn about differences: the local options win, and the position is counted in their order.

    Raises:
        StateMismatchError: no state of this kind, or one of another dataset or other options; the message names
            each value, found and expected.
    """
    if not isinstance(state, dict) or state.get("state_version") != STATE_VERSION:
        version = state.get("state_version") if isinstance(state, dict) else None
        msg = f"This is no state of version {STATE_VERSION} (found {version!r}). Pass what `state_dict()` returned."
        raise StateMismatchError(msg)
    mine = current.to_state()
    missing = mine.keys() - state.keys()
    if missing:
        msg = f"The state lacks {sorted(missing)}; it was cut or altered."
        raise StateMismatchError(msg)
    differing = [k for k in mine if k not in ("epoch", "position") and state[k] != mine[k]]
    if differing:
        text = "; ".join(
            f"`{k}` is {state[k]!r} in the state and {mine[k]!r} here" for k in differing
        )
        if not force:
            msg = f"The state does not fit: {text}. Use the same options, or force_override_state_dict=True to go on with the local ones."
            raise StateMismatchError(msg)
        logger.warning(
            "Loading a state that does not fit (force_override_state_dict=True): %s.", text
        )
    epoch, position = state["epoch"], state["position"]
    if (
        type(epoch) is not int
        or type(position) is not int
        or not 0 <= epoch < _TOO_BIG
        or position < 0
    ):
        msg = f"The state has epoch={epoch!r} and position={position!r}; both must be ints of at least 0."
        raise StateMismatchError(msg)
    if position > current.samples:
        msg = (
            f"The state has delivered {position} samples, but the dataset holds {current.samples}."
        )
        raise StateMismatchError(msg)
    return epoch, position
