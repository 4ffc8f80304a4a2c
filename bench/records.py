# SPDX-License-Identifier: Apache-2.0
"""Question: what do small records cost, and what does handing a batch over cost?

``records.shuffled``, ``records.in_order``: {int, float, float32[16]} into columns; ``records.text``: the same with a str;
millions of records per CPU second (all threads count). ``records.next``: microseconds of ``next(loader)`` when batches of
four tensors are ready. With ``--peer`` the shuffled records beside litdata 0.2.76.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import tempfile
import time
from typing import Any

import numpy as np
import torch

from harness import PEER_PYTHON, Arm, alternate, cpu_seconds, emit, peer_ready, record

BATCH = 4096


def numbers(i: int) -> dict[str, Any]:
    """Return a record of 100 stored bytes."""
    return {"i": i, "x": i * 0.5, "v": np.arange(i, i + 16, dtype=np.float32)}


def four(i: int) -> dict[str, Any]:
    """Return four leaves that become tensors."""
    return {**numbers(i), "even": i % 2 == 0}


def text(i: int) -> dict[str, Any]:
    """Return the same with a text."""
    return {**numbers(i), "s": f"sample number {i:08d}"}


def arm(lib: str, directory: str, kind: str) -> None:
    """Stream whole epochs, or time ``next`` on a full queue."""
    torch.set_num_threads(1)
    module = importlib.import_module(lib)
    dataset = module.StreamingDataset(directory, shuffle=kind != "in_order")
    options: dict[str, Any] = {"num_workers": 1 if lib == "stoker" else 0}
    batches = module.StreamingDataLoader(dataset, batch_size=BATCH, **options)
    if kind == "next":
        emit(us=next_us(batches))
        return

    def epoch() -> int:
        return sum(len(batch["i"]) for batch in batches)

    epoch()
    best, count = 1e9, 0
    for _ in range(3):
        cpu, count = cpu_seconds(epoch)
        best = min(best, cpu)
    emit(million_per_cpu_s=count / best * 1e-6)


def next_us(batches: Any) -> float:
    """Return the median microseconds of ``next`` while batches wait."""
    taken = []
    for _ in range(5):
        running = iter(batches)
        next(running)
        while batches.stats()["queued"] < 3 and len(taken) < 1000:
            time.sleep(0.001)
        for _ in range(3):
            start = time.perf_counter()
            next(running)
            taken.append(time.perf_counter() - start)
        running.close()
    return statistics.median(taken) * 1e6


def measure(kind: str, fn: Any, samples: int, rounds: int, *, peer: bool) -> None:
    """Make the data, run the arms, record."""
    import stoker

    with tempfile.TemporaryDirectory() as directory:
        place = f"{directory}/records"
        stoker.optimize(fn, range(samples), place, chunk_bytes="8MB", num_workers=2, verbose=False)
        arms = [Arm("stoker", "records.py", ("--arm", "stoker", place, kind))]
        if peer and kind == "shuffled":
            arguments = ("--arm", "litdata", place, kind)
            arms.append(Arm("litdata", "records.py", arguments, python=PEER_PYTHON))
        measured = alternate(arms, rounds)
    key = "us" if kind == "next" else "million_per_cpu_s"
    figures = {key: measured["stoker"].median(key)}
    if "litdata" in measured:
        figures["peer_ratio"] = figures[key] / measured["litdata"].median(key)
    record(f"records.{kind}", figures)


def main() -> None:
    """Run all kinds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arm", nargs=3, metavar=("LIB", "DIR", "KIND"))
    parser.add_argument("--peer", action="store_true", help="also run litdata 0.2.76")
    parser.add_argument("--size", choices=("tiny", "full"), default="full")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.arm:
        arm(*arguments.arm)
        return
    tiny = arguments.size == "tiny"
    samples, rounds = (20_000, 1) if tiny else (2_000_000, arguments.rounds)
    peer = arguments.peer and peer_ready()
    for kind in ("shuffled", "in_order", "text", "next"):
        fn = {"text": text, "next": four}.get(kind, numbers)
        measure(kind, fn, samples, rounds, peer=peer)


if __name__ == "__main__":
    main()
