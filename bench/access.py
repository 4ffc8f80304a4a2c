# SPDX-License-Identifier: Apache-2.0
"""Question: what does one ``ds[i]`` cost, in random and in sequential order, beside litdata?

Data: small dicts (bench/data.py) in 1 MB chunks on the local disk, warm. Read ``us`` = CPU microseconds per sample and
``peer_ratio`` = litdata's CPU time / ours in the same run.
"""

from __future__ import annotations

import argparse
import importlib
import random
import tempfile
from pathlib import Path
from typing import Any

from harness import PEER_PYTHON, Arm, alternate, cpu_seconds, emit, peer_ready, record


def arm(lib: str, directory: str, mode: str, reads: int) -> None:
    """Read ``reads`` samples of an existing dataset and print the CPU time."""
    dataset = importlib.import_module(lib).StreamingDataset(directory)
    count = len(dataset)
    if mode == "iter":
        cpu, read = cpu_seconds(
            lambda: sum(1 for _, __ in zip(range(reads), dataset, strict=False))
        )
    else:
        generator = random.Random(0)
        order = [
            generator.randrange(count) if mode == "random" else i % count for i in range(reads)
        ]
        for i in order[: reads // 10]:
            dataset[i]

        def work() -> int:
            for i in order:
                dataset[i]
            return len(order)

        cpu, read = cpu_seconds(work)
    emit(us=cpu / read * 1e6, reads=read)


def main() -> None:
    """Write the data, run the arms, record the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arm", nargs=4, metavar=("LIB", "DIR", "MODE", "READS"))
    parser.add_argument("--peer", action="store_true", help="also run litdata 0.2.76")
    parser.add_argument("--size", choices=("tiny", "full"), default="full")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.arm:
        lib, directory, mode, reads = arguments.arm
        arm(lib, directory, mode, int(reads))
        return
    import stoker
    from data import small_dict

    tiny = arguments.size == "tiny"
    samples, reads, rounds = (2_000, 2_000, 1) if tiny else (100_000, 100_000, arguments.rounds)
    with tempfile.TemporaryDirectory() as folder:
        directory = str(Path(folder) / "dicts")
        stoker.optimize(
            small_dict, range(samples), directory, chunk_bytes="1MB", num_workers=1, verbose=False
        )
        for mode in ("random", "sequential", "iter"):
            compare(mode, directory, reads, rounds, peer=arguments.peer and peer_ready())


def compare(mode: str, directory: str, reads: int, rounds: int, *, peer: bool) -> None:
    """Record one mode."""
    arms = [Arm("stoker", "access.py", ("--arm", "stoker", directory, mode, str(reads)))]
    if peer:
        few = str(max(reads // 10, 1000))  # litdata needs far longer per sample
        arms.append(
            Arm(
                "litdata",
                "access.py",
                ("--arm", "litdata", directory, mode, few),
                python=PEER_PYTHON,
            )
        )
    measured = alternate(arms, rounds)
    figures: dict[str, Any] = {
        "us": measured["stoker"].median("us"),
        "reads": reads,
        "rounds": rounds,
    }
    if peer:
        figures["peer_us"] = measured["litdata"].median("us")
        figures["peer_ratio"] = figures["peer_us"] / figures["us"]
    record(f"access.{mode}", figures)


if __name__ == "__main__":
    main()
