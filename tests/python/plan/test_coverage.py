# SPDX-License-Identifier: Apache-2.0
"""Ranks and workers share an epoch: together they deliver each sample once, whatever the order and the world."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasets import write_dataset
from stoker import StreamingDataLoader, StreamingDataset, _core
from stoker.streaming._assignment import Cursor
from stoker.streaming._order import Order, planned
from worlds import as_rank

SHUFFLES = (False, True, "full")
MOST = 500  # samples of an epoch
N = 120  # samples of the dataset that is really there

backends = st.sampled_from(["torch", "auto"])


class Epoch(NamedTuple):
    """The order of an epoch, and the number of its samples."""

    order: Order
    counts: list[int]
    epoch: int

    @property
    def size(self) -> int:
        return sum(self.counts)

    def plan(self) -> _core.EpochPlan:
        begins, at = [], 0
        for count in self.counts:
            begins.append(at)
            at += count
        ends = [begin + count for begin, count in zip(begins, self.counts, strict=True)]
        intervals = _core.make_intervals(begins, ends, self.counts)
        return _core.EpochPlan(intervals, self.order.of_epoch(self.epoch))


@st.composite
def epochs(draw: st.DrawFn) -> Epoch:
    """Chunks of one size and a shorter last one, as a writer leaves them, or of any sizes (some empty)."""
    size = draw(st.integers(1, MOST), label="samples")
    if draw(st.booleans(), label="equal chunks"):
        chunk = draw(st.integers(1, 80), label="chunk size")
        counts = [min(chunk, size - begin) for begin in range(0, size, chunk)]
    else:
        cuts = sorted(draw(st.lists(st.integers(0, size), max_size=30), label="cuts"))
        counts = [end - begin for begin, end in zip([0, *cuts], [*cuts, size], strict=True)]
    order = Order(
        shuffle=draw(st.sampled_from(SHUFFLES), label="shuffle"),
        seed=draw(st.integers(0, (1 << 63) - 1), label="seed"),
        window=draw(st.integers(1, 6), label="window"),
        streams=draw(st.integers(1, 80), label="num_canonical_nodes"),
    )
    return Epoch(order, counts, draw(st.integers(0, 1 << 40), label="epoch"))


def of_rank(plan: _core.EpochPlan, cursor: Cursor, num_workers: int) -> list[list[int]]:
    """Return the batches of a rank as torch hands them out: one of each worker in turn; 0 workers = in this process."""
    workers = []
    for worker in range(max(num_workers, 1)):
        items = (item for _, item in planned(plan, cursor, worker, max(num_workers, 1)))
        batches: list[list[int]] = []
        while batch := list(islice(items, cursor.batch_size)):
            batches.append(batch)
        workers.append(batches)
    return [
        batches[turn]
        for turn in range(len(workers[0]))
        for batches in workers
        if turn < len(batches)
    ]


def ranks_of(cursor: Cursor) -> list[Cursor]:
    """Return the cursors of all ranks."""
    mine = (cursor.epoch, cursor.start, cursor.batch_size, cursor.drop_last)
    return [Cursor(*mine, rank, cursor.world_size) for rank in range(cursor.world_size)]


@settings(max_examples=150)
@given(epochs(), st.integers(1, 64), st.integers(0, 7), st.integers(1, 12), st.data())
def test_every_sample_once_over_all_ranks_and_workers(
    epoch: Epoch, world: int, workers: int, batch_size: int, data: st.DataObject
) -> None:
    plan = epoch.plan()
    whole = plan.fill(0, epoch.size)
    assert sorted(whole) == list(range(epoch.size))
    start = data.draw(st.just(0) | st.integers(0, epoch.size), label="start")
    delivered = []
    for cursor in ranks_of(Cursor(epoch.epoch, start, batch_size, False, 0, world)):
        batches = of_rank(plan, cursor, workers)
        assert len(batches) == cursor.num_batches(epoch.size)
        delivered += [item for batch in batches for item in batch]
    assert sorted(delivered) == sorted(whole[start:])


@settings(max_examples=150)
@given(epochs(), st.integers(1, 64), st.integers(0, 7), st.integers(1, 12))
def test_with_drop_last_ranks_have_as_many_full_batches_and_share_the_first_global_ones(
    epoch: Epoch, world: int, workers: int, batch_size: int
) -> None:
    plan = epoch.plan()
    ranks = [
        of_rank(plan, cursor, workers)
        for cursor in ranks_of(Cursor(epoch.epoch, 0, batch_size, True, 0, world))
    ]
    together = world * batch_size
    steps = epoch.size // together
    for batches in ranks:
        assert [len(batch) for batch in batches] == [batch_size] * steps
    for step in range(steps):
        items = sorted(item for batches in ranks for item in batches[step])
        assert items == sorted(plan.fill(step * together, together)), f"global batch {step}"


@settings(max_examples=100)
@given(epochs(), st.integers(1, 64), st.integers(1, 7), st.integers(1, 12), st.booleans())
def test_what_a_rank_delivers_does_not_depend_on_its_workers(
    epoch: Epoch, world: int, workers: int, batch_size: int, drop_last: bool
) -> None:
    plan = epoch.plan()
    for cursor in ranks_of(Cursor(epoch.epoch, 0, batch_size, drop_last, 0, world))[:: max(world // 3, 1)]:  # fmt: skip
        assert of_rank(plan, cursor, workers) == of_rank(plan, cursor, 0)


# ---- padded batches


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("numbers") / "d", range(N), chunk_size=7)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(1, N),
    st.sampled_from(SHUFFLES),
    st.integers(1, 10),
    st.integers(1, 13),
    st.integers(1, 9),
    backends,
)
def test_padded_ranks_have_as_many_full_batches_and_each_sample_is_valid_once(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    shuffle: Any,
    streams: int,
    world: int,
    batch_size: int,
    backend: Any,
) -> None:
    steps = -(-size // (world * batch_size))
    valid: list[list[int]] = [[] for _ in range(steps)]
    filling: list[list[int]] = [[] for _ in range(steps)]
    for rank in range(world):
        as_rank(monkeypatch, rank, world)
        whole = StreamingDataset(place, shuffle=shuffle, num_canonical_nodes=streams)
        loader = StreamingDataLoader(
            whole.subset(range(size)), batch_size=batch_size, pad="mask", num_workers=0, backend=backend
        )  # fmt: skip
        assert len(loader) == steps
        batches = list(loader)
        assert len(batches) == steps
        for step, (batch, mask) in enumerate(batches):
            assert batch.shape == mask.shape == (batch_size,)
            valid[step] += batch[mask].tolist()
            filling[step] += batch[~mask].tolist()
    assert sorted(row for rows in valid for row in rows) == list(range(size))
    assert [sorted(rows) for rows in filling[:-1]] == [[]] * (steps - 1), (
        "only the last is filled up"
    )
    assert set(filling[-1]) <= set(valid[-1]), "with samples of the same global batch"
    assert {len(rows) for rows in valid[:-1]} <= {world * batch_size}


def test_padding_with_worker_processes_is_the_same(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for options in ({"backend": "torch", "num_workers": 2}, {"backend": "auto", "num_workers": 1}):
        ranks = []
        for rank in range(3):
            as_rank(monkeypatch, rank, 3)
            dataset = StreamingDataset(place, shuffle=True)
            loader = StreamingDataLoader(dataset, batch_size=7, pad="mask", **options)
            ranks.append([(batch.tolist(), mask.tolist()) for batch, mask in loader])
        found.append(ranks)
    assert found[0] == found[1]
    valid = [n for rank in found[0] for batch, mask in rank for n, own in zip(batch, mask, strict=True) if own]  # fmt: skip
    assert sorted(valid) == list(range(N))
