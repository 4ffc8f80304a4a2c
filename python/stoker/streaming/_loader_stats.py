# SPDX-License-Identifier: Apache-2.0
"""Where the time of an iteration goes, and what it is bound by."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal

_NANO = 1e-9
_KEEPS_UP = 0.05  # the loop waits less than this part of the time
_STARVED = 0.5  # threads have nothing to do for more than this part of their time


@dataclass(slots=True)
class LoaderStats:
    """Counters of one iteration, kept by the loader.

    Attributes:
        backend: who builds the batches.
        threads: of the native backend.
        skipped: samples left out by torch's workers.
    """

    backend: Literal["native", "torch"]
    threads: int = 0
    skipped: int = 0
    _batches: int = 0
    _waited: float = 0.0
    _start: float = field(default_factory=time.perf_counter)

    def took(self, seconds: float) -> None:
        """Count a batch for which the consumer waited so long."""
        self._batches += 1
        self._waited += seconds

    def summary(self, engine: dict[str, int] | None) -> dict[str, Any]:
        """Return the figures for people; ``engine`` is what the native engine counted."""
        elapsed = time.perf_counter() - self._start
        out: dict[str, Any] = {
            "backend": self.backend,
            "batches": self._batches,
            "skipped": self.skipped,
            "elapsed_s": elapsed,
            "consumer_wait_s": self._waited,
        }
        if engine is not None:
            out.update({k: v for k, v in engine.items() if not k.endswith("_ns")})
            del out["batches"]
            out.update(
                {
                    f"{k.removesuffix('_ns')}_s": v * _NANO
                    for k, v in engine.items()
                    if k.endswith("_ns") and k != "consumer_wait_ns"
                }
            )
            out["batches"] = self._batches
        out["verdict"] = self._verdict(elapsed, out)
        return out

    def _verdict(self, elapsed: float, figures: dict[str, Any]) -> str:
        if self._waited < _KEEPS_UP * elapsed:
            return "bound by the consumer: batches wait for the training loop"
        if "read_s" not in figures:
            return "bound by the workers: the training loop waits for batches"
        idle = figures["wait_data_s"] / max(self.threads * elapsed, 1e-9)
        if self.threads and idle > _STARVED:
            return "bound by reading (disk or network): decoding threads wait for data"
        stages = {
            "JPEG decoding": figures["decode_s"],
            "resampling": figures["resample_s"],
            "copying leaves": figures["store_s"],
            "reading": figures["read_s"],
        }
        return f"bound by decoding: most time goes into {max(stages, key=lambda k: stages[k])}"
