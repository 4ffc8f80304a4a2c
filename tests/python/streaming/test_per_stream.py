# SPDX-License-Identifier: Apache-2.0
"""CombinedStreamingDataset(batching_method="per_stream"): every batch from one dataset."""

from __future__ import annotations

import pickle
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixtures import BIG, SIZES, WEIGHTS, all_of, check_members, mix, sources, through_json, write
from stoker import StreamingDataLoader, StreamingDataset
from stoker.exceptions import InvalidArgumentError, StateMismatchError
from worlds import as_rank

BACKENDS = pytest.mark.parametrize("backend", ["torch", "auto"])
KINDS = pytest.mark.parametrize("weights", [None, WEIGHTS])
N = sum(SIZES)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write(tmp_path_factory.mktemp("small"), SIZES, 5)


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write(tmp_path_factory.mktemp("big"), BIG, 500)


def make(places: list[Path], weights: Any = None, batch_size: Any = 4, **options: Any) -> StreamingDataLoader:  # fmt: skip
    dataset = mix(
        places,
        weights,
        batching_method="per_stream",
        drop_last=options.pop("drop_last", False),
        force_override_state_dict=options.pop("force", False),
    )
    return StreamingDataLoader(dataset, batch_size=batch_size, **options)


def lists(loader: Any, count: int | None = None) -> list[list[int]]:
    """Return the batches, without what fills them up."""
    batches = islice(loader, count)
    return [
        batch[0][batch[1]].tolist() if isinstance(batch, list | tuple) else batch.tolist()
        for batch in batches
    ]


def flat(batches: list[list[int]]) -> list[int]:
    return [sample for batch in batches for sample in batch]


@KINDS
@pytest.mark.parametrize("size", [4, [4, 3, 2], np.int64(4)], ids=str)
@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, True)])
@BACKENDS
def test_batches_are_of_one_dataset_each(
    places: list[Path], backend: Any, workers: int, persistent: bool, size: Any, weights: Any
) -> None:
    options = {"num_workers": workers, "persistent_workers": persistent, "backend": backend}
    loader = make(places, weights, size, **options)
    sizes = size if isinstance(size, list) else [4, 4, 4]
    for epoch in (1, 2):
        batches = lists(loader)
        kinds = [set(sources(batch)) for batch in batches]
        assert all(len(kind) == 1 for kind in kinds)
        check_members(places, epoch, flat(batches))
        short = Counter()
        for batch, kind in zip(batches, kinds, strict=True):
            number = kind.pop()
            short[number] += len(batch) < sizes[number]
            assert len(batch) <= sizes[number]
        assert max(short.values()) <= 1
        assert weights is not None or sorted(flat(batches)) == all_of()
        assert len(batches) == len(loader)
    assert [len(kind) for kind in kinds] == [0] * len(kinds)
    assert loader.explain().startswith("torch" if backend == "torch" else "native")


@BACKENDS
def test_weights_are_shares_of_batches(big: list[Path], backend: Any) -> None:
    batches = lists(make(big, WEIGHTS, [1, 2, 3], backend=backend), 1024)
    counts = Counter(sources([batch[0] for batch in batches]))
    assert all(abs(counts[k] - share * 1024) < 1 for k, share in enumerate(WEIGHTS))


@KINDS
@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("world", [2, 3, 4])
@BACKENDS
def test_ranks_share_global_batches_of_one_dataset(
    places: list[Path], monkeypatch: pytest.MonkeyPatch, backend: Any, world: int, drop_last: bool, weights: Any
) -> None:  # fmt: skip
    parts = []
    for rank in range(world):
        as_rank(monkeypatch, rank, world)
        options = {"drop_last": drop_last, "backend": backend, "pad": None if drop_last else "mask"}
        loader = make(places, weights, 12 // world, **options)
        parts.append(lists(loader))
        assert len(parts[-1]) == len(loader)
        order = loader.order(1)
    delivered = [sample for part in parts for batch in part for sample in batch]
    assert Counter(delivered) == Counter(10_000 * part + item for part, item in order)
    as_rank(monkeypatch, 0, 1)
    alone = lists(make(places, weights, 12, drop_last=drop_last, backend=backend))
    assert Counter(delivered) == Counter(flat(alone))
    assert {len(part) for part in parts} == {len(alone)}
    steps = [sorted(flat(list(step))) for step in zip(*parts, strict=True)]
    assert steps == [sorted(batch) for batch in alone], "the same global batches in any world"
    assert not drop_last or all(len(batch) == 12 for batch in alone)


def test_no_rank_misses_a_batch(places: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    as_rank(monkeypatch, 0, 4)
    assert len(lists(make(places, None, 3))) == 9, "53 = 4 * 12 + 5, 31 = 2 * 12 + 7, and 7"
    with pytest.raises(InvalidArgumentError, match=r"of the 3 samples .* 4 ranks .*pad='mask'"):
        iter(make(places, None, 7))  # 31 = 28 + 3


@KINDS
@pytest.mark.parametrize(("size", "world"), [(4, 1), ([4, 3, 2], 1), (7, 1), (3, 2)])
@pytest.mark.parametrize("taken", [1, 6, 15])
@BACKENDS
def test_resumes_exactly(
    places: list[Path], monkeypatch: pytest.MonkeyPatch, backend: Any, taken: int, size: Any, world: int, weights: Any
) -> None:  # fmt: skip
    whole = lists(make(places, weights, backend=backend))
    loader = make(places, weights, backend=backend)
    delivered = flat(lists(loader, taken))
    state = through_json(loader.state_dict())
    rest: list[int] = []
    for rank in range(world):
        as_rank(monkeypatch, rank, world)
        pad = None if world == 1 else "mask"
        other = make(places, weights, size, backend=backend, num_workers=2, pad=pad)
        other.load_state_dict(state)
        assert other.state_dict() == state
        other.load_state_dict(through_json(other.state_dict()))
        batches = lists(other)
        assert all(len(set(sources(batch))) <= 1 for batch in batches)
        rest += flat(batches)
        assert (other.state_dict()["epoch"], other.state_dict()["position"]) == (1, _end(other))
    if size == 4:
        assert delivered + rest == flat(whole)
    if world == 1:
        check_members(places, 1, delivered + rest)
    assert len(set(delivered + rest)) == len(delivered) + len(rest)
    if weights is None:
        assert sorted(delivered + rest) == all_of()


def _end(loader: StreamingDataLoader) -> int:
    return loader.dataset.epoch_samples(1)


@KINDS
def test_a_state_from_the_end_starts_the_next_epoch_whatever_the_batch_size(
    places: list[Path], weights: Any
) -> None:
    loader = make(places, weights)
    lists(loader)
    other = make(places, weights, 9)
    other.load_state_dict(through_json(loader.state_dict()))
    assert (other.state_dict()["epoch"], other.state_dict()["position"]) == (2, 0)
    fresh = make(places, weights, 9)
    fresh.set_epoch(2)
    assert lists(other) == lists(fresh)


def test_without_a_loader_samples_come_one_by_one(places: list[Path]) -> None:
    dataset = make(places, WEIGHTS).dataset
    whole = list(dataset)
    dataset.set_epoch(1)
    assert len(dataset) == len(whole)
    part = list(islice(dataset, 9))
    other = make(places, WEIGHTS).dataset
    other.load_state_dict(through_json(dataset.state_dict()))
    assert part + list(other) == whole
    check_members(places, 1, whole)
    singles = make(places, WEIGHTS, None)
    assert [int(sample) for sample in singles] == whole


def test_a_loader_in_use_can_be_copied(places: list[Path]) -> None:
    loader = make(places, WEIGHTS)
    whole = lists(loader)
    loader.set_epoch(1)
    part = lists(loader, 3)
    other = pickle.loads(pickle.dumps(loader))
    other.load_state_dict(other.state_dict())
    assert part + lists(other) == whole


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=3, max_size=3),
    again=st.lists(st.integers(1, 4), min_size=3, max_size=3),
    weights=st.sampled_from([None, WEIGHTS, (1, 0, 1)]),
    world=st.integers(1, 4),
    taken=st.integers(0, 12),
)
def test_every_member_comes_in_its_order_whatever_changes(
    places: list[Path], sizes: list[int], again: list[int], weights: Any, world: int, taken: int
) -> None:
    first = make(places, weights, sizes, backend="torch")
    delivered = flat(lists(first, taken))
    state = through_json(first.state_dict())
    rest = []
    with pytest.MonkeyPatch.context() as patch:
        for rank in range(world):
            as_rank(patch, rank, world)
            loader = make(places, weights, again, backend="torch", pad="mask")
            loader.load_state_dict(state)
            if loader.state_dict()["epoch"] == 1:
                rest += flat(lists(loader))
    counts = Counter(sources(delivered + rest))
    for number, place in enumerate(places):
        alone = StreamingDataset(place, shuffle=True)
        alone.set_epoch(1)
        mine = [sample for sample in delivered + rest if sample // 10_000 == number]
        assert Counter(mine) == Counter(islice(alone, counts[number]))
    assert weights is not None or sum(counts.values()) == N


# ---- errors


@pytest.mark.parametrize("size", [0, -1, True, 2.5, "4", [], [4, 4], [4, 4, 0], [4, 4, 4.0]])
def test_batch_sizes_that_cannot_work(places: list[Path], size: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="batch_size="):
        make(places, None, size)


def test_sizes_of_each_dataset_need_batches_of_one(places: list[Path]) -> None:
    for dataset in (StreamingDataset(places[0]), mix(places)):
        with pytest.raises(InvalidArgumentError, match="batching_method='per_stream'"):
            StreamingDataLoader(dataset, batch_size=[4, 4, 4])


def test_another_method_is_another_state(places: list[Path]) -> None:
    before = StreamingDataLoader(mix(places, WEIGHTS), batch_size=4)
    delivered = flat(lists(before, 5))
    state = through_json(before.state_dict())
    with pytest.raises(StateMismatchError, match="'stratified' in the state and 'per_stream' here"):
        make(places, WEIGHTS).load_state_dict(state)
    loader = make(places, WEIGHTS, force=True)
    loader.load_state_dict(state)
    delivered += flat(lists(loader, 2))
    again = make(places, WEIGHTS, 3)
    again.load_state_dict(through_json(loader.state_dict()))
    check_members(places, 1, delivered + flat(lists(again)))


@pytest.mark.parametrize(
    "change",
    [
        {"batches": [4, 4]},
        {"batches": [4, 4, 0]},
        {"batches": ["4", 4, 4]},
        {"batches": None},
        {"batches": [9, 9, 9]},
        {"position": 19},
        {"position": 10_000},
    ],
    ids=str,
)
def test_altered_states_change_nothing(places: list[Path], change: dict[str, Any]) -> None:
    loader = make(places, WEIGHTS)
    whole = lists(loader)
    loader.set_epoch(1)
    lists(loader, 5)
    state = through_json(loader.state_dict())
    if "batches" in change:
        change = {"segment": {**state["segment"], **change}}
    loader = make(places, WEIGHTS)
    with pytest.raises(StateMismatchError):
        loader.load_state_dict({**state, **change})
    assert lists(loader) == whole
