# SPDX-License-Identifier: Apache-2.0
"""Inputs -> one run of inputs per worker. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from stoker.exceptions import InvalidArgumentError


def as_sequence(inputs: Any) -> Sequence[Any]:
    """Return ``inputs`` as something with a length and positions.

    Sequences, arrays and tensors stay as they are. Everything else is iterated, also what has a length and a
    ``__getitem__``: that may go by label instead of position.

    Raises:
        InvalidArgumentError: a str, bytes or dict, nothing iterable, or no input at all.
    """
    if isinstance(inputs, (str, bytes, dict)) or not (
        hasattr(inputs, "__getitem__") or isinstance(inputs, Iterable)
    ):
        msg = f"inputs must be a sequence or an iterable of inputs, found {type(inputs).__name__}."
        raise InvalidArgumentError(msg)
    by_position = (
        isinstance(inputs, Sequence)
        or hasattr(inputs, "__array_interface__")
        or hasattr(inputs, "numpy")
    )
    sequence = inputs if by_position and getattr(inputs, "ndim", 1) > 0 else list(inputs)
    if len(sequence) == 0:
        msg = (
            "inputs is empty; it should be non empty: one sample (or more) is made from each input."
        )
        raise InvalidArgumentError(msg)
    return sequence


def group(inputs: Sequence[Any], batch_size: int | None) -> Sequence[Any]:
    """Return lists of ``batch_size`` consecutive inputs (the last one shorter), or the inputs when it is None."""
    if batch_size is None:
        return inputs
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        msg = f"batch_size={batch_size!r} must be an int of at least 1."
        raise InvalidArgumentError(msg)
    return [
        take(inputs, i, min(i + batch_size, len(inputs))) for i in range(0, len(inputs), batch_size)
    ]


def take(inputs: Sequence[Any], begin: int, end: int) -> list[Any] | range:
    """Return inputs [begin, end) as a list (a range stays one: it is small to send)."""
    if isinstance(inputs, range):
        return inputs[begin:end]
    return [inputs[i] for i in range(begin, end)]


def bounds(count: int, workers: int) -> list[tuple[int, int]]:
    """Return per worker the inputs [begin, end) it gets: contiguous, in order, sizes differing by at most one."""
    return [(count * w // workers, count * (w + 1) // workers) for w in range(workers)]
