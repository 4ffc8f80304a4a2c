# SPDX-License-Identifier: Apache-2.0
"""Which rank and worker delivers which position."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.streaming._assignment import Cursor

worlds = st.integers(1, 64)
totals = st.integers(0, 700)
batch_sizes = st.integers(1, 17)


def delivered(cursor: Cursor, total: int, num_workers: int) -> list[list[int]]:
    """Return the batches of a rank in the order torch hands them out: one from each worker in turn."""
    per_worker = []
    for worker in range(num_workers):
        positions = [
            part.begin + part.first + row
            for part in cursor.slices(total, worker, num_workers)
            for row in range(part.rows)
        ]
        size = cursor.batch_size
        per_worker.append([positions[i : i + size] for i in range(0, len(positions), size)])
    batches = []
    turn = 0
    while any(per_worker):
        if per_worker[turn % num_workers]:
            batches.append(per_worker[turn % num_workers].pop(0))
        turn += 1
    return batches


@given(totals, batch_sizes, worlds, st.booleans(), st.data())
def test_every_position_once_over_all_ranks(
    total: int, size: int, world: int, drop_last: bool, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, total))
    cursors = [Cursor(1, start, size, drop_last, rank, world) for rank in range(world)]
    per_rank = [delivered(c, total, 3) for c in cursors]
    seen = sorted(p for batches in per_rank for batch in batches for p in batch)
    assert seen == list(range(start, cursors[0].end(total)))
    for cursor, batches in zip(cursors, per_rank, strict=True):
        assert cursor.num_batches(total) == len(batches)
        assert cursor.num_samples(total) == sum(map(len, batches))
    if drop_last:
        assert len({len(b) for b in per_rank}) == 1
        assert all(len(batch) == size for batches in per_rank for batch in batches)


@given(totals, batch_sizes, st.integers(1, 5), st.integers(1, 9), st.booleans())
def test_the_number_of_workers_changes_nothing(
    total: int, size: int, world: int, workers: int, drop_last: bool
) -> None:
    cursor = Cursor(1, 0, size, drop_last, world - 1, world)
    assert delivered(cursor, total, workers) == delivered(cursor, total, 1)


@given(totals, st.integers(1, 6), st.integers(1, 6), batch_sizes, batch_sizes, st.data())
def test_a_changed_world_continues_where_the_old_one_stopped(
    total: int, world_a: int, world_b: int, size_a: int, size_b: int, data: st.DataObject
) -> None:
    first = [Cursor(1, 0, size_a, False, rank, world_a) for rank in range(world_a)]
    steps = data.draw(st.integers(0, max(total // first[0].global_batch, 0)))
    before = [p for c in first for batch in delivered(c, total, 2)[:steps] for p in batch]
    start = min(steps * first[0].global_batch, total)
    second = [Cursor(1, start, size_b, False, rank, world_b) for rank in range(world_b)]
    after = [p for c in second for batch in delivered(c, total, 3) for p in batch]
    assert sorted(before + after) == list(range(total))
