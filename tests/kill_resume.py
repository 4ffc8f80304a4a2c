# SPDX-License-Identifier: Apache-2.0
"""Kills a training process at random moments and looks at what all its lives delivered together.

    python tests/kill_resume.py                      # 50 kills for each kind of dataset on each backend
    python tests/kill_resume.py --kinds mixed --backends torch --kills 10 --seed 7

The process reads batches, writes down what it got, and saves the state every few batches. It is killed with SIGKILL
(half of the times with its workers), started again, and goes on from the last saved state; what it wrote down after
that state is forgotten, as a model forgets it. In the end the list must be the one of a process that was never killed,
batch by batch, and hold every sample of the epoch once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "python"))

from datasets import write_dataset
from stoker import (
    CombinedStreamingDataset,
    ParallelStreamingDataset,
    StreamingDataLoader,
    StreamingDataset,
)

BATCH = 4
SIZES = (4001, 1700)  # of the two datasets; sample i of the second one is SECOND + i
SECOND = 100_000
BOUNDARIES = (200, 1500, 2900)
EVERY = 3  # batches from one saved state to the next
MOST_BATCHES = 8  # of a life
STEP = 0.001  # seconds that training takes for a batch
PATIENCE = 60  # seconds until a life counts as hanging


def odd(sample: int) -> bool:
    return sample % 2 == 1


def itself(sample: int) -> int:
    return sample


def plain(places: Sequence[Path]) -> tuple[Any, dict[str, Any]]:
    return StreamingDataset(places[0], shuffle=True), {}


def mixed(places: Sequence[Path]) -> tuple[Any, dict[str, Any]]:
    return CombinedStreamingDataset([StreamingDataset(p, shuffle=True) for p in places]), {}


def batches_mixed(places: Sequence[Path]) -> tuple[Any, dict[str, Any]]:
    members = [StreamingDataset(place, shuffle=True) for place in places]
    return CombinedStreamingDataset(members, batching_method="per_stream"), {}


def zipped(places: Sequence[Path]) -> tuple[Any, dict[str, Any]]:
    members = [StreamingDataset(place, shuffle=True) for place in places]
    return ParallelStreamingDataset(members, length=SIZES[0]), {}


def filtered(places: Sequence[Path]) -> tuple[Any, dict[str, Any]]:
    return StreamingDataset(places[0], shuffle=True, filter=odd), {}


def bucketed(places: Sequence[Path]) -> tuple[Any, dict[str, Any]]:
    options = {"bucket_by": itself, "bucket_boundaries": BOUNDARIES}
    return StreamingDataset(places[0], shuffle=True), options


KINDS: dict[str, Callable[[Sequence[Path]], tuple[Any, dict[str, Any]]]] = {
    "plain": plain,
    "mixed": mixed,
    "batches_mixed": batches_mixed,
    "zipped": zipped,
    "filtered": filtered,
    "bucketed": bucketed,
}
BACKENDS = ("native", "torch")
FIRST, OTHER = range(SIZES[0]), range(SECOND, SECOND + SIZES[1])
EPOCHS: dict[str, list[Any]] = {
    "plain": list(FIRST),
    "mixed": [*FIRST, *OTHER],
    "batches_mixed": [*FIRST, *OTHER],
    "zipped": list(FIRST),  # of the pairs the first samples
    "filtered": list(FIRST)[1::2],
    "bucketed": list(FIRST),
}


# ---- the process that is killed


def train(kind: str, backend: str, places: Sequence[Path], folder: Path, step: float = 0.0) -> None:
    """Read the rest of an epoch; write down each batch, and save the state every few."""
    dataset, options = KINDS[kind](places)
    workers = {"num_workers": 2} if backend == "torch" else {}
    loader = StreamingDataLoader(dataset, batch_size=BATCH, backend=backend, **workers, **options)  # type: ignore[arg-type]
    log, saved = folder / "log", folder / "saved"
    size = 0
    if saved.exists():
        checkpoint = json.loads(saved.read_text())
        loader.load_state_dict(checkpoint["state"])
        size = checkpoint["size"]
        if loader.state_dict()["epoch"] > 1:  # killed after the last batch
            (folder / "done").touch()
            return
    with log.open("ab") as out:
        out.truncate(size)
        for number, batch in enumerate(loader, 1):
            rows = (
                list(zip(*(part.tolist() for part in batch), strict=True))
                if kind == "zipped"
                else batch.tolist()
            )
            out.write(json.dumps(rows).encode() + b"\n")
            out.flush()
            time.sleep(step)
            if number % EVERY == 0:
                text = json.dumps({"state": loader.state_dict(), "size": out.tell()})
                fresh = folder / "saved.new"
                fresh.write_text(text)
                fresh.replace(saved)
    (folder / "done").touch()


def start(*arguments: Any) -> int:
    """Start `train` in a process, and a group, of its own; return its number."""
    child = os.fork()
    if child:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it ended, or did it itself
            os.setpgid(child, child)
        return child
    try:
        os.setpgid(0, 0)
        train(*arguments)
    except BaseException:  # noqa: BLE001 - whatever it is, the process must end here
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


# ---- who kills it


class HangingError(Exception):
    """Nothing came for a long time."""


def has_ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def live(folder: Path, chance: random.Random, *arguments: Any) -> bool:
    """Let a process live for a random number of batches; return whether it was killed before it ended."""
    log, saved, wanted = folder / "log", folder / "saved", chance.randint(0, MOST_BATCHES)
    size = json.loads(saved.read_text())["size"] if saved.exists() else 0
    log.touch()
    os.truncate(log, size)
    child, deadline = start(*arguments, folder, STEP), time.monotonic() + PATIENCE
    while log.read_bytes()[size:].count(b"\n") < wanted and not has_ended(child):
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            msg = f"{wanted} batches did not come in {PATIENCE} s"
            raise HangingError(msg)
        time.sleep(0.001)
    time.sleep(chance.random() * 2 * STEP)
    with contextlib.suppress(ProcessLookupError):  # it has ended
        (os.killpg if chance.random() < 0.5 else os.kill)(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def finish(child: int) -> None:
    """Let a process read to the end."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        msg = f"the process ended with {code}"
        raise RuntimeError(msg)


def torture(kind: str, backend: str, places: Sequence[Path], folder: Path, kills: int, seed: int) -> int:  # fmt: skip
    """Kill a process so often, let it finish, and check what it wrote down; return how often it was killed.

    Raises:
        AssertionError: something was lost, repeated or came in another order.
    """
    chance = random.Random(seed)
    whole, tortured = folder / "whole", folder / "tortured"
    whole.mkdir(parents=True)
    tortured.mkdir()
    finish(start(kind, backend, places, whole))
    done = 0
    while done < kills and not (tortured / "done").exists():
        done += live(tortured, chance, kind, backend, places)
    if not (tortured / "done").exists():
        finish(start(kind, backend, places, tortured))
    expected, found = ((f / "log").read_text().splitlines() for f in (whole, tortured))
    assert found == expected, f"{kind} on {backend}: other batches, seed {seed}"
    rows = [row for line in found for row in json.loads(line)]
    ids = Counter(row[0] if kind == "zipped" else row for row in rows)
    assert ids == Counter(EPOCHS[kind]), f"{kind} on {backend}: lost or repeated, seed {seed}"
    return done


def prepare(folder: Path) -> list[Path]:
    """Write the two datasets."""
    numbers = (range(SIZES[0]), range(SECOND, SECOND + SIZES[1]))
    return [write_dataset(folder / str(k), own, chunk_size=50) for k, own in enumerate(numbers)]


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--kills", type=int, default=50, help="for each kind and backend")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        places = prepare(Path(name) / "data")
        for kind in arguments.kinds:
            for backend in arguments.backends:
                folder = Path(name) / kind / backend
                begun = time.monotonic()
                done = torture(kind, backend, places, folder, arguments.kills, arguments.seed)
                took = time.monotonic() - begun
                print(f"{kind:>13} {backend}: {done} kills, every batch once and in order ({took:.0f} s)", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
