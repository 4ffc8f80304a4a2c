# SPDX-License-Identifier: Apache-2.0
"""Question: how well does a shuffle mix, and what does it cost?

``shuffle.order.<library>.<mode>``: an epoch of 200 chunks of 500 small dicts. ``near``: percent of samples that lie within 256
positions, in the data, of the sample before them; ``same_chunk``: percent that come from its chunk; ``batch_near``: percent of
the pairs in batches of 64 that lie so near; ``spearman``: rank correlation of the order with the data. Chance gives 0.5, 0.5,
0.5 and 0. ``shuffle.cost.<backend>.<batch size>``: CPU time per sample with shuffling / without, epochs in turn in one process.
``shuffle.start``: CPU milliseconds until the first 64 samples of an epoch of 100,000,000 in 100,000 chunks are known.
``shuffle.next``: nanoseconds per index after that, as ints of a list in Python.

With ``--peer`` also the orders of litdata 0.2.76, and of mosaicml-streaming 0.13.0 when somebody made a venv for it:
``python -m venv tests/compat/.venv-mosaic``, and in it ``pip install numpy`` and ``pip install --no-deps mosaicml-streaming==0.13.0``.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import statistics
import sys
import tempfile
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness import PEER_PYTHON, ROOT, Arm, alternate, cpu_seconds, emit, peer_ready, record

MOSAIC_PYTHON = ROOT / "tests" / "compat" / ".venv-mosaic" / "bin" / "python"
NEAR = 256  # positions in the data
BATCH = 64
BLOCK = 4096  # indices asked for at a time
COSTS = (("native", 64), ("native", 4096), ("torch", 64))  # backend, samples of a batch
PAIRS = 7  # of epochs: in order, shuffled
SEED, EPOCH = 42, 1

MODES: dict[str, Any] = {"in_order": False, "windows": True, "full": "full"}
LITDATA: dict[str, dict[str, Any]] = {
    "default": {},
    "full": {"item_shuffle_window": "full"},
}
MOSAIC = {"py1e": 1, "py1s": 64}  # algorithm -> canonical nodes it has by default on one node


# ---- orders


def stoker_order(place: str, mode: str) -> list[int]:
    """Return the numbers of the samples in the order in which a loader gives them."""
    import stoker

    dataset = stoker.StreamingDataset(place, shuffle=MODES[mode], seed=SEED)
    loader = stoker.StreamingDataLoader(dataset, batch_size=BATCH, num_workers=1)
    return [number for batch in loader for number in batch["i"].tolist()]


def litdata_order(place: str, mode: str) -> list[int]:
    """Return the same of litdata."""
    litdata = importlib.import_module("litdata")
    dataset = litdata.StreamingDataset(place, shuffle=True, seed=SEED, **LITDATA[mode])
    return [int(sample["i"]) for sample in dataset]


def mosaic_order(sizes: Sequence[int], mode: str) -> list[int]:
    """Return the same of mosaicml-streaming for one rank and worker, computed as its datasets do and without data."""
    found = importlib.util.find_spec("streaming")
    for name in ("streaming", "streaming.base"):  # themselves they import clients of many clouds
        package = types.ModuleType(name)
        package.__path__ = [str(Path(found.origin).parent / name.partition(".")[2])]  # type: ignore[union-attr, arg-type]
        sys.modules[name] = package
    shuffles = importlib.import_module("streaming.base.shuffle")
    partitions = importlib.import_module("streaming.base.partition")
    nodes, block = MOSAIC[mode], max(4_000_000 // MOSAIC[mode], 1 << 18)
    items = shuffles.get_shuffle(mode, np.array(sizes, np.int64), nodes, SEED, EPOCH, block)
    rows = partitions.get_partitions("relaxed", len(items), nodes, 1, 1, 1, BATCH).ravel()
    return list(dict.fromkeys(items[rows[rows >= 0]].tolist()))  # it repeats some to fill up


def quality(order: Sequence[int], chunk: int) -> dict[str, float]:
    """Return how well an order of all samples, in chunks of one size, mixes."""
    items = np.array(order)
    if not np.array_equal(np.sort(items), np.arange(len(items))):
        sys.exit("the order does not hold every sample once")
    before, after = items[:-1], items[1:]
    batches = items[: len(items) // BATCH * BATCH].reshape(-1, BATCH)
    apart = np.concatenate(
        [np.abs(batches[:, k:] - batches[:, :-k]).ravel() for k in range(1, BATCH)]
    )
    return {
        "batch_near": float((apart <= NEAR).mean() * 100),
        "near": float((np.abs(after - before) <= NEAR).mean() * 100),
        "same_chunk": float((after // chunk == before // chunk).mean() * 100),
        "spearman": float(np.corrcoef(np.arange(len(items)), items)[0, 1]),
    }


def order_arm(lib: str, place: str, mode: str, chunks: int, chunk: int) -> None:
    """Print the quality of one order."""
    orders: dict[str, Callable[[], list[int]]] = {
        "stoker": lambda: stoker_order(place, mode),
        "litdata": lambda: litdata_order(place, mode),
        "mosaic": lambda: mosaic_order([chunk] * chunks, mode),
    }
    emit(**quality(orders[lib](), chunk))


# ---- costs


def cost_arm(place: str, backend: str, batch_size: int, mode: str, pairs: int) -> None:
    """Read epochs in order and shuffled in turn; print microseconds per sample and the ratio of each pair."""
    import torch

    import stoker

    torch.set_num_threads(1)

    def epochs(shuffle: str) -> Callable[[], int]:
        dataset = stoker.StreamingDataset(place, shuffle=MODES[shuffle], seed=SEED)
        loader = stoker.StreamingDataLoader(
            dataset, batch_size=batch_size, num_workers=int(backend == "native"), backend=backend
        )
        return lambda: sum(len(batch["i"]) for batch in loader)

    plain, shuffled = epochs("in_order"), epochs(mode)
    plain(), shuffled()
    taken: list[tuple[float, float]] = []
    count = 1
    for pair in range(pairs):
        first, second = (plain, shuffled) if pair % 2 == 0 else (shuffled, plain)
        (one, count), (other, _) = cpu_seconds(first), cpu_seconds(second)
        taken.append((one, other) if pair % 2 == 0 else (other, one))
    emit(
        plain_us=statistics.median(a for a, _ in taken) / count * 1e6,
        us=statistics.median(b for _, b in taken) / count * 1e6,
        cost=statistics.median(b / a for a, b in taken),
    )


def plan_arm(place: str, mode: str, epochs: int, indices: int) -> None:
    """Time the first samples of an epoch, and the indices after them."""
    import stoker

    starts = []
    for epoch in range(1, epochs + 1):
        dataset = stoker.StreamingDataset(place, shuffle=MODES[mode], seed=SEED)
        loader = stoker.StreamingDataLoader(dataset, batch_size=BATCH)
        cpu, _ = cpu_seconds(lambda: loader.order(epoch, 0, BATCH))  # noqa: B023 - called at once
        starts.append(cpu)
    plan = dataset.epoch_plan(1)
    cpu, _ = cpu_seconds(
        lambda: [plan.fill(begin, BLOCK) and None for begin in range(0, indices, BLOCK)]
    )
    emit(start_ms=statistics.median(starts) * 1e3, ns=cpu / indices * 1e9)


# ---- all of it


def compare_orders(place: str, chunks: int, chunk: int, *, peer: bool) -> None:
    """Record the quality of every order."""

    def arm(lib: str, mode: str, python: Path | None = None) -> Arm:
        arguments = ("--arm", "order", lib, place, mode, str(chunks), str(chunk))
        return Arm(f"{lib}.{mode}", "shuffle.py", arguments, python=python)

    arms = [arm("stoker", mode) for mode in MODES]
    if peer and peer_ready():
        arms += [arm("litdata", mode, PEER_PYTHON) for mode in LITDATA]
    if peer and MOSAIC_PYTHON.exists():
        arms += [arm("mosaic", mode, MOSAIC_PYTHON) for mode in MOSAIC]
    for one in arms:
        record(f"shuffle.order.{one.name}", one.run())


def compare_costs(place: str, backend: str, batch_size: int, rounds: int, pairs: int) -> None:
    """Record what the two shuffles cost in one backend."""
    options = ("cost", place, backend, str(batch_size))
    arms = [
        Arm(mode, "shuffle.py", ("--arm", *options, mode, str(pairs)))
        for mode in ("windows", "full")
    ]
    measured = alternate(arms, rounds)
    figures: dict[str, Any] = {"in_order_us": measured["windows"].median("plain_us")}
    for mode, one in measured.items():
        figures |= {f"{mode}_us": one.median("us"), f"{mode}_cost": one.median("cost")}
    record(f"shuffle.cost.{backend}.{batch_size}", {**figures, "rounds": rounds, "pairs": pairs})


def compare_plans(place: str, rounds: int, epochs: int, indices: int) -> None:
    """Record how soon an epoch is planned, and each index after that."""
    arms = [
        Arm(mode, "shuffle.py", ("--arm", "plan", place, mode, str(epochs), str(indices)))
        for mode in ("windows", "full")
    ]
    measured = alternate(arms, rounds)
    for question, key in (("start", "start_ms"), ("next", "ns")):
        unit = key.rpartition("_")[2]
        figures = {f"{mode}_{unit}": one.median(key) for mode, one in measured.items()}
        record(f"shuffle.{question}", figures)


def main() -> None:
    """Make the data, run the arms, record the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arm", nargs="+", metavar="WHAT")
    parser.add_argument("--peer", action="store_true", help="also litdata and mosaicml-streaming")
    parser.add_argument("--size", choices=("tiny", "full"), default="full")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.arm:
        arms: dict[str, Callable[..., None]] = {
            "order": order_arm,
            "cost": cost_arm,
            "plan": plan_arm,
        }
        what, *values = arguments.arm
        arms[what](*(int(value) if value.isdecimal() else value for value in values))
        return
    import stoker
    from data import small_dict
    from startup import write_index

    tiny = arguments.size == "tiny"
    chunks, chunk, rounds = (16, 50, 1) if tiny else (200, 500, arguments.rounds)
    with tempfile.TemporaryDirectory() as name:
        place = f"{name}/dicts"
        stoker.optimize(
            small_dict, range(chunks * chunk), place, chunk_size=chunk, num_workers=1, verbose=False
        )
        compare_orders(place, chunks, chunk, peer=arguments.peer)
        for backend, batch_size in COSTS:
            compare_costs(place, backend, batch_size, rounds, 1 if tiny else PAIRS)
        many = Path(name, "many")
        write_index(many, 1_000 if tiny else 100_000)
        compare_plans(str(many), rounds, 2 if tiny else 10, (10 if tiny else 1_000) * BLOCK)


if __name__ == "__main__":
    main()
