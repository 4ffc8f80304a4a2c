# SPDX-License-Identifier: Apache-2.0
"""A thousand million samples in a hundred thousand chunks: to begin, and to go on, costs next to nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from datasets import write_dataset
from stoker.streaming.index import read_document, write_document

CHUNKS, SIZE = 100_000, 10_000
SAMPLES = CHUNKS * SIZE
BATCH = 64

# CPU seconds of all threads, and megabytes, at most, from an open dataset on: four times what they take, or more.
BEGIN_S, CONTINUE_S, EACH_MORE_S, MEMORY_MB, STATE_BYTES = 1.0, 0.5, 0.3, 200, 1000

SCRIPT = """
import json, sys, time
from pathlib import Path

from stoker import CombinedStreamingDataset, StreamingDataLoader, StreamingDataset

place, members, method, shuffle, backend, batch_size = sys.argv[1:]
batch_size, modes = int(batch_size), {"windows": True, "full": "full"}


def make():
    all_of = [StreamingDataset(place, shuffle=modes[shuffle]) for _ in range(int(members))]
    dataset = all_of[0] if len(all_of) == 1 else CombinedStreamingDataset(all_of, batching_method=method)
    return StreamingDataLoader(dataset, batch_size=batch_size, num_workers=0, backend=backend)


def megabytes(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith(name + ":"))


def measured(work):
    before, start = megabytes("VmRSS"), time.process_time()
    result = work()
    return result, {"s": time.process_time() - start, "mb": megabytes("VmHWM") - before}


def resume():
    resumed.load_state_dict(state)
    return next(iter(resumed)).tolist()


def planned(begin):
    return resumed.order(1, begin, begin + batch_size)


loader, resumed = make(), make()
first, begin = measured(lambda: next(iter(loader)).tolist())
text = json.dumps(loader.state_dict())
state = {**json.loads(text), "position": loader.dataset.epoch_samples(1) // 10 * 9}
later, go_on = measured(resume)
wanted = [0] if method == "per_stream" else [0, state["position"]]
rows, order = measured(lambda: [planned(begin) for begin in wanted])
print(json.dumps({
    "state_bytes": len(text), "begin": begin, "go_on": go_on, "order": order, "rows": rows,
    "batches": [first, later], "position": resumed.state_dict()["position"],
}))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One chunk, which the index lists again and again: sample i of the dataset is i modulo SIZE."""
    directory = write_dataset(tmp_path_factory.mktemp("huge") / "d", range(SIZE), chunk_size=SIZE)
    document = read_document(directory / "index.json")
    write_document(directory / "index.json", document["chunks"] * CHUNKS, document["config"])
    return directory


@pytest.mark.parametrize(
    ("members", "method", "shuffle", "backend"),
    [
        (1, "alone", "windows", "auto"),
        (1, "alone", "full", "torch"),
        (2, "stratified", "windows", "torch"),
        (2, "stratified", "full", "auto"),
        (2, "per_stream", "windows", "auto"),
    ],
)
def test_to_begin_and_to_go_on_costs_next_to_nothing(
    place: Path, members: int, method: str, shuffle: str, backend: str
) -> None:
    options = [str(members), method, shuffle, backend, str(BATCH)]
    command = [sys.executable, "-c", SCRIPT, str(place), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    more = (members - 1) * EACH_MORE_S
    assert found["begin"]["s"] < BEGIN_S + more
    assert found["go_on"]["s"] < CONTINUE_S + more
    assert found["order"]["s"] < CONTINUE_S + more
    assert max(found[what]["mb"] for what in ("begin", "go_on", "order")) < MEMORY_MB
    assert found["state_bytes"] < STATE_BYTES
    assert found["position"] == members * SAMPLES // 10 * 9 + BATCH
    for batch, planned in zip(found["batches"], found["rows"], strict=False):
        items = planned if members == 1 else [item for _, item in planned]
        assert all(0 <= item < SAMPLES for item in items)
        assert batch == [item % SIZE for item in items], "what was planned is what comes"
