# SPDX-License-Identifier: Apache-2.0
"""Nodes with several ranks each: which chunks a node reads, counted, and two nodes of torchrun side by side."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from datasets import write_dataset
from stoker import StreamingDataLoader, StreamingDataset, _core
from stoker.streaming._assignment import Cursor
from stoker.streaming._order import STREAMS, Order
from worlds import as_rank, clean_environment

CHUNKS, SIZE = 64, 12  # of the dataset that is really there
N = CHUNKS * SIZE
PATIENCE = 90  # seconds until processes count as hanging
BACKENDS = pytest.mark.parametrize("backend", ["torch", "auto"])


class Cluster(NamedTuple):
    """Ranks 0 .. per_node - 1 are node 0, and so on."""

    nodes: int
    per_node: int
    batch_size: int

    @property
    def world(self) -> int:
        return self.nodes * self.per_node

    @property
    def global_batch(self) -> int:
        return self.world * self.batch_size

    def node(self, rank: int) -> int:
        return rank // self.per_node


# Their global batches are multiples of the streams, so that each batch has as many rows of every stream.
EVEN = [
    Cluster(2, 2, 4),
    Cluster(2, 3, 8),
    Cluster(4, 1, 2),
    Cluster(4, 2, 3),
    Cluster(8, 2, 1),
    Cluster(8, 1, 5),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("numbers") / "d", range(N), chunk_size=SIZE)


def loader_of(place: Path, cluster: Cluster, **options: Any) -> StreamingDataLoader:
    dataset = StreamingDataset(place, shuffle=True, drop_last=False)
    return StreamingDataLoader(dataset, batch_size=cluster.batch_size, **options)


def numbers(loader: StreamingDataLoader) -> list[int]:
    return [int(number) for batch in loader for number in batch]


# ---- chunks of a node


def chunks_of_nodes(
    cluster: Cluster, counts: Sequence[int], epoch: int, *, drop_last: bool = False
) -> list[set[int]]:
    """Return the chunks that the ranks of each node read in an epoch of the default shuffle."""
    ends = list(accumulate(counts))
    intervals = _core.make_intervals([0, *ends[:-1]], ends, counts)
    plan = _core.EpochPlan(intervals, Order(True, 42, 4, STREAMS).of_epoch(epoch))
    chunks: list[set[int]] = [set() for _ in range(cluster.nodes)]
    for rank in range(cluster.world):
        cursor = Cursor(epoch, 0, cluster.batch_size, drop_last, rank, cluster.world)
        for part in cursor.slices(plan.size, 0, 1):
            _, items = plan.rows(*part)
            chunks[cluster.node(rank)].update(bisect_right(ends, item) for item in items)
    return chunks


def shared(chunks: list[set[int]]) -> Counter[int]:
    """Return the chunks that more than one node reads, and how many do."""
    readers = Counter(chunk for node in chunks for chunk in node)
    return Counter({chunk: count for chunk, count in readers.items() if count > 1})


@pytest.mark.parametrize("cluster", EVEN, ids=str)
@pytest.mark.parametrize("count", [CHUNKS, 3 * CHUNKS])
def test_each_chunk_is_read_by_one_node_which_is_the_same_in_all_epochs(
    cluster: Cluster, count: int
) -> None:
    first = chunks_of_nodes(cluster, [SIZE] * count, 1)
    assert [len(chunks) for chunks in first] == [count // cluster.nodes] * cluster.nodes
    assert set().union(*first) == set(range(count))
    assert not shared(first)
    for epoch in (2, 3, 1000):
        assert chunks_of_nodes(cluster, [SIZE] * count, epoch) == first


UNEVEN = {
    "a short last chunk": [SIZE] * CHUNKS + [5],
    "chunks that streams do not divide": [SIZE] * 70,
    "chunks of any size": [random.Random(1).randint(5, 40) for _ in range(100)],
}


@pytest.mark.parametrize("cluster", EVEN, ids=str)
@pytest.mark.parametrize("counts", UNEVEN.values(), ids=UNEVEN)
def test_a_chunk_that_lies_across_the_border_of_two_nodes_is_read_by_both(
    cluster: Cluster, counts: list[int]
) -> None:
    """Streams are as long as each other to one sample, so a border between two of them may cut a chunk."""
    chunks = chunks_of_nodes(cluster, counts, 1, drop_last=True)
    both = shared(chunks)
    assert len(both) <= cluster.nodes - 1, "one for each border at most"
    assert set(both.values()) <= {2}
    for mine, following in pairwise(chunks):
        assert len(mine & following) <= 1
    assert sum(len(mine & following) for mine, following in pairwise(chunks)) == len(both)


@pytest.mark.parametrize("cluster", [Cluster(2, 2, 4), Cluster(4, 2, 3), Cluster(8, 1, 1)], ids=str)
@BACKENDS
def test_a_node_needs_no_other_chunks_on_its_disk(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster, backend: str
) -> None:
    """Nor do threads that read ahead ask for others; the native backend only looks at the first sample for its layout."""
    names = [
        chunk["filename"] for chunk in json.loads((place / "index.json").read_text())["chunks"]
    ]
    delivered: list[list[int]] = [[], []]
    for rank in range(cluster.world):
        node = tmp_path / f"node{cluster.node(rank)}"
        if not node.exists():
            node.mkdir()
            (node / "index.json").symlink_to(place / "index.json")
            own = chunks_of_nodes(cluster, [SIZE] * CHUNKS, 1)[cluster.node(rank)]
            for chunk in own if backend == "torch" else own | {0}:
                (node / names[chunk]).symlink_to(place / names[chunk])
        as_rank(monkeypatch, rank, cluster.world)
        loader = loader_of(node, cluster, num_workers=1, backend=backend)
        for epoch in delivered:
            epoch.extend(numbers(loader))
    assert [sorted(epoch) for epoch in delivered] == [list(range(N))] * 2


# ---- two nodes, two ranks each, two workers each

TWO = Cluster(2, 2, 8)
SCRIPT = """
import json, os, sys
from pathlib import Path

import torch.distributed as dist

from stoker import StreamingDataLoader, StreamingDataset, environment

out, place, batch_size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
result = {"world": world, "node": int(os.environ["GROUP_RANK"]), "local": environment.local_world_size()}
for backend in ("torch", "auto"):
    dataset = StreamingDataset(place, shuffle=True, drop_last=False)
    loader = StreamingDataLoader(dataset, batch_size=batch_size, num_workers=2, backend=backend)
    result[backend] = [[batch.tolist() for batch in loader] for _ in range(2)]
    result[backend + " state"] = loader.state_dict()
(out / f"{rank}.json").write_text(json.dumps(result))
dist.barrier()
dist.destroy_process_group()
"""


def check_two_by_two(epoch: Sequence[list[list[int]]]) -> None:
    """Check the batches of each rank."""
    steps = N // TWO.global_batch
    for batches in epoch:
        assert [len(batch) for batch in batches] == [TWO.batch_size] * steps
    delivered = [[number for batch in batches for number in batch] for batches in epoch]
    assert sorted(number for numbers in delivered for number in numbers) == list(range(N))
    chunks: list[set[int]] = [set(), set()]
    for rank, rank_numbers in enumerate(delivered):
        chunks[TWO.node(rank)].update(number // SIZE for number in rank_numbers)
    assert [len(node) for node in chunks] == [CHUNKS // 2] * 2
    assert not chunks[0] & chunks[1]


@BACKENDS
def test_two_nodes_of_two_ranks_of_two_workers(
    place: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    epochs: list[list[list[list[int]]]] = [[], []]
    for rank in range(TWO.world):
        as_rank(monkeypatch, rank, TWO.world)
        monkeypatch.setenv("LOCAL_WORLD_SIZE", str(TWO.per_node))
        loader = loader_of(place, TWO, num_workers=2, backend=backend)
        for epoch in epochs:
            epoch.append([batch.tolist() for batch in loader])
    for epoch in epochs:
        check_two_by_two(epoch)
    assert epochs[0] != epochs[1]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def torchrun_nodes(out: Path, arguments: Sequence[str]) -> None:
    """Run torchrun once for each node, all on this machine; end them all when one fails."""
    script = out / "worker.py"
    script.write_text(SCRIPT)
    shared_by_all = [
        f"--nnodes={TWO.nodes}",
        f"--nproc-per-node={TWO.per_node}",
        "--master-addr=127.0.0.1",
        f"--master-port={free_port()}",
    ]
    command = [sys.executable, "-m", "torch.distributed.run", *shared_by_all]
    nodes = [
        subprocess.Popen(
            [*command, f"--node-rank={node}", str(script), str(out), *arguments],
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for node in range(TWO.nodes)
    ]
    try:
        for node in nodes:
            output, _ = node.communicate(timeout=PATIENCE)
            assert node.returncode == 0, output
    finally:
        for node in nodes:
            node.terminate()  # torchrun ends its workers then
            node.wait()


def test_two_nodes_of_torchrun(place: Path, tmp_path: Path) -> None:
    torchrun_nodes(tmp_path, [str(place), str(TWO.batch_size)])
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(TWO.world)]
    assert [rank["world"] for rank in ranks] == [TWO.world] * TWO.world
    assert [rank["node"] for rank in ranks] == [TWO.node(rank) for rank in range(TWO.world)]
    assert [rank["local"] for rank in ranks] == [TWO.per_node] * TWO.world
    for backend in ("torch", "auto"):
        for epoch in range(2):
            check_two_by_two([rank[backend][epoch] for rank in ranks])
        states = [rank[f"{backend} state"] for rank in ranks]
        assert states == [states[0]] * TWO.world
        assert (states[0]["epoch"], states[0]["position"]) == (2, N)
    assert [rank["torch"] for rank in ranks] == [rank["auto"] for rank in ranks]
