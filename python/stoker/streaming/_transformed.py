# SPDX-License-Identifier: Apache-2.0
"""A function of whole batches, run on a thread of its own beside the training loop."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_AHEAD = 2  # transformed batches that wait


@dataclass(frozen=True, slots=True)
class _End:
    """Nothing comes any more: the source is exhausted, or something was raised."""

    error: BaseException | None = None


class _Handoff:
    """A place for few values between one producer and one consumer."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: deque[Any] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, value: Any) -> bool:
        """Wait for room; False when nobody will take the value."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._values) < self._size)
            self._values.append(value)
            self._changed.notify_all()
            return not self._closed

    def get(self) -> Any:
        """Wait for a value."""
        with self._changed:
            self._changed.wait_for(lambda: self._values)
            value = self._values.popleft()
            self._changed.notify_all()
            return value

    def close(self) -> None:
        """Let go of the producer."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def _produce(batches: Iterator[Any], function: Callable[[Any], Any], handoff: _Handoff) -> None:
    try:
        for batch in batches:
            if not handoff.put(function(batch)):
                return
    except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the consumer
        handoff.put(_End(error))
    else:
        handoff.put(_End())


def transformed(batches: Iterator[Any], function: Callable[[Any], Any]) -> Iterator[Any]:
    """Yield ``function(batch)`` for every batch, in order.

    The function runs on one helper thread, at most three batches ahead. What it (or the source) raises is raised here,
    in its place. When the consumer stops early, the thread ends after the batch it is at.

    Raises:
        RuntimeError: the process was forked in between; the thread stayed behind.
    """
    handoff, process = _Handoff(_AHEAD), os.getpid()
    thread = threading.Thread(
        target=_produce, args=(batches, function, handoff), name="stoker/transform", daemon=True
    )
    thread.start()
    try:
        while True:
            if os.getpid() != process:
                msg = "An iteration with batch_transform cannot go on in a forked process: start a new one there."
                raise RuntimeError(msg)
            value = handoff.get()
            if isinstance(value, _End):
                if value.error is not None:
                    raise value.error
                return
            yield value
    finally:
        if os.getpid() == process:
            handoff.close()
            thread.join()
