# SPDX-License-Identifier: Apache-2.0
"""Question: what does it cost to begin?

``startup.import``: milliseconds that ``import stoker`` adds to ``import torch`` (CPU). ``startup.index``: seconds to open a
dataset of 100,000 chunks. ``startup.memory``: MB of resident memory that opening a dataset of 1,000,000 samples adds to
an interpreter with torch. With ``--peer`` beside litdata.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import tempfile
from pathlib import Path
from typing import Any

from harness import (
    PEER_PYTHON,
    Arm,
    alternate,
    cpu_seconds,
    emit,
    peer_ready,
    record,
    resident_bytes,
)


def import_arm(lib: str) -> None:
    """Time the import on top of torch."""
    import torch  # noqa: F401 - its own time is not ours

    cpu, _ = cpu_seconds(lambda: importlib.import_module(lib))
    emit(ms=cpu * 1e3)


def open_arm(lib: str, directory: str) -> None:
    """Time opening a dataset and weigh it."""
    import torch  # noqa: F401 - its memory is not ours

    module = importlib.import_module(lib)
    gc.collect()
    before = resident_bytes()
    cpu, dataset = cpu_seconds(lambda: module.StreamingDataset(directory))
    emit(seconds=cpu, mb=(resident_bytes() - before) / 1e6, samples=len(dataset))


def write_index(directory: Path, chunks: int) -> None:
    """Write the index of a dataset of so many chunks, without the chunks: opening must not look at them."""
    entries = [
        {
            "chunk_bytes": 64_000_000,
            "chunk_size": 1000,
            "dim": None,
            "file_bytes": 64_000_000,
            "filename": f"chunk-0-{k}.bin",
            "xxh3_64": f"{k * 0x9E3779B97F4A7C15 % 2**64:016x}",
        }
        for k in range(chunks)
    ]
    leaf = {"type": None, "context": None, "children_spec": []}
    config = {
        "chunk_bytes": 64_000_000,
        "chunk_size": None,
        "compression": None,
        "data_format": ["int"],
        "data_spec": json.dumps([1, leaf]),
        "encryption": None,
        "item_loader": "PyTreeLoader",
    }
    directory.mkdir()
    (directory / "index.json").write_text(
        json.dumps({"chunks": entries, "config": config, "updated_at": "0"})
    )


def measure(
    question: str, key: str, arguments: tuple[str, ...], rounds: int, *, peer: bool
) -> None:
    """Record one figure, beside litdata's."""
    arms = [Arm("stoker", "startup.py", ("--arm", "stoker", *arguments))]
    if peer:
        arms.append(
            Arm("litdata", "startup.py", ("--arm", "litdata", *arguments), python=PEER_PYTHON)
        )
    for arm in arms:
        arm.run()  # compiles modules, fills caches
    measured = alternate(arms, rounds)
    figures: dict[str, Any] = {key: measured["stoker"].median(key)}
    if peer:
        figures[f"peer_{key}"] = measured["litdata"].median(key)
    record(question, figures)


def main() -> None:
    """Make the data, run the arms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arm", nargs="+", metavar="LIB")
    parser.add_argument("--peer", action="store_true", help="also run litdata 0.2.76")
    parser.add_argument("--size", choices=("tiny", "full"), default="full")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.arm:
        import_arm(arguments.arm[0]) if len(arguments.arm) == 1 else open_arm(*arguments.arm)
        return
    import stoker
    from data import small_dict

    tiny = arguments.size == "tiny"
    rounds, peer = 1 if tiny else arguments.rounds, arguments.peer and peer_ready()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measure("startup.import", "ms", (), rounds, peer=peer)
        write_index(folder / "many", 1_000 if tiny else 100_000)
        measure("startup.index", "seconds", (str(folder / "many"),), rounds, peer=peer)
        samples = 1_000 if tiny else 1_000_000
        directory = str(folder / "dicts")
        stoker.optimize(
            small_dict, range(samples), directory, chunk_bytes="8MB", num_workers=2, verbose=False
        )
        measure("startup.memory", "mb", (directory,), rounds, peer=peer)


if __name__ == "__main__":
    main()
