# SPDX-License-Identifier: Apache-2.0
"""Question: how near to the memory's speed are token batches?

2048-token blocks stored as uint16, read as int64, 512 per batch (8 MiB), shuffled, into a ring of slabs that is larger than
the caches. The limit writes cold memory with non-temporal stores and does nothing else; ``ratio`` = bytes of int64 per CPU
second / the limit's. With ``--peer`` beside litdata 0.2.76, whose samples are converted with ``.long()``.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
from typing import Any

import numpy as np
import torch

from harness import LIMITS, PEER_PYTHON, Arm, alternate, cpu_seconds, emit, peer_ready, record

BLOCK, BATCH = 2048, 512


def document(i: int) -> np.ndarray[Any, Any]:
    """Return a document of random tokens."""
    generator = np.random.default_rng(i)
    return generator.integers(0, 50_000, 1 << 16).astype(np.uint16)


def arm(lib: str, directory: str, passes: int) -> None:
    """Stream whole epochs."""
    torch.set_num_threads(1)
    module = importlib.import_module(lib)
    if lib == "stoker":
        loader = module.TokensLoader(block_size=BLOCK, dtype=torch.int64)
        dataset = module.StreamingDataset(directory, item_loader=loader, shuffle=True)
        batches = module.StreamingDataLoader(dataset, batch_size=BATCH, num_workers=1)
    else:
        loader = importlib.import_module("litdata.streaming.item_loader").TokensLoader(BLOCK)
        dataset = module.StreamingDataset(directory, item_loader=loader, shuffle=True)
        batches = module.StreamingDataLoader(dataset, batch_size=BATCH, num_workers=0)

    def epoch() -> int:
        return sum(batch.long().numel() * 8 for batch in batches)

    epoch()
    best, size = 1e9, 0
    for _ in range(passes):
        cpu, size = cpu_seconds(epoch)
        best = min(best, cpu)
    emit(gb_per_cpu_s=size / best * 1e-9)


def main() -> None:
    """Make the data, run the arms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arm", nargs=3, metavar=("LIB", "DIR", "PASSES"))
    parser.add_argument("--peer", action="store_true", help="also run litdata 0.2.76")
    parser.add_argument("--size", choices=("tiny", "full"), default="full")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.arm:
        arm(arguments.arm[0], arguments.arm[1], int(arguments.arm[2]))
        return
    import stoker

    tiny = arguments.size == "tiny"
    with tempfile.TemporaryDirectory() as directory:
        place = f"{directory}/tokens"
        stoker.optimize(
            document,
            range(64 if tiny else 4096),
            place,
            chunk_bytes="64MB",
            num_workers=2,
            item_loader=stoker.TokensLoader(),
            verbose=False,
        )
        passes = "1" if tiny else "3"
        arms = [
            Arm("limit", "", ("write", "128", "3" if tiny else "20"), program=LIMITS),
            Arm("stoker", "tokens.py", ("--arm", "stoker", place, passes)),
        ]
        if arguments.peer and peer_ready():
            peer = ("--arm", "litdata", place, passes)
            arms.append(Arm("litdata", "tokens.py", peer, python=PEER_PYTHON))
        measured = alternate(arms, 1 if tiny else arguments.rounds)
    key = "gb_per_cpu_s"
    mine = measured["stoker"].median(key)
    figures = {key: mine, "ratio": mine / measured["limit"].median(key)}
    if "litdata" in measured:
        figures["peer_ratio"] = mine / measured["litdata"].median(key)
    record("tokens.int64", figures)


if __name__ == "__main__":
    main()
