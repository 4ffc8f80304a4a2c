# SPDX-License-Identifier: Apache-2.0
"""CombinedStreamingDataset: order, shares, worlds, exact resume."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixtures import (
    BIG,
    BLOCK,
    SIZES,
    WEIGHTS,
    all_of,
    check_members,
    mix,
    numbers,
    sources,
    through_json,
    write,
)
from stoker import CombinedStreamingDataset, StreamingDataLoader, StreamingDataset, environment
from worlds import as_rank

N = sum(SIZES)
BACKENDS = pytest.mark.parametrize("backend", ["torch", "auto"])
COPIES = pytest.mark.parametrize(
    "copy", [lambda thing: pickle.loads(pickle.dumps(thing)), deepcopy], ids=["pickle", "deepcopy"]
)
GOLDEN = [
    9, 20000, 26, 10022, 15, 39, 10010, 11, 10014, 14, 47, 43, 8, 10005, 25, 23, 37, 10, 30, 10009,
    10015, 10026, 10027, 46, 10023, 10012, 40, 10001, 6, 28, 22, 19, 0, 32, 48, 10004, 49, 20001, 7, 29,
]  # fmt: skip


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write(tmp_path_factory.mktemp("small"), SIZES, 5)


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write(tmp_path_factory.mktemp("big"), BIG, 500)


# ---- epochs of one process


@pytest.mark.parametrize(
    ("workers", "persistent"), [(0, False), (1, False), (2, False), (2, True), (3, True)]
)
@BACKENDS
def test_each_epoch_holds_every_sample_once_for_any_workers(
    places: list[Path], backend: Any, workers: int, persistent: bool
) -> None:
    plain = mix(places)
    epochs = [list(plain) for _ in range(3)]
    for epoch, samples in enumerate(epochs, 1):
        assert sorted(samples) == all_of()
        check_members(places, epoch, samples)
    assert len({tuple(sources(samples)) for samples in epochs}) == 3, "each epoch mixes anew"
    options = {"num_workers": workers, "persistent_workers": persistent, "backend": backend}
    loader = StreamingDataLoader(mix(places), batch_size=4, **options)
    assert [numbers(loader) for _ in range(3)] == epochs
    assert len(loader) == math.ceil(N / 4)
    assert loader.state_dict() == plain.state_dict()


def test_the_order_is_the_one_of_earlier_versions(places: list[Path]) -> None:
    assert list(islice(mix(places), 40)) == GOLDEN


def test_without_weights_all_datasets_end_together(big: list[Path]) -> None:
    drawn = sources(mix(big))
    assert len(drawn) == 6500
    for start in range(0, 6500, BLOCK):
        block = Counter(drawn[start : start + BLOCK])
        for number, size in enumerate(BIG):
            assert abs(block[number] - size * block.total() / 6500) < 2


def test_every_block_holds_the_weights_shares_within_one(big: list[Path]) -> None:
    dataset = mix(big, [5, 3, 2])
    assert dataset.weights == WEIGHTS
    samples = list(dataset)
    check_members(big, 1, samples)
    drawn = sources(samples)
    assert len(drawn) > 5 * BLOCK
    for start in range(0, len(drawn) - BLOCK + 1, BLOCK):
        block = Counter(drawn[start : start + BLOCK])
        assert all(abs(block[k] - share * BLOCK) < 1 for k, share in enumerate(WEIGHTS))


@pytest.mark.parametrize("weights", [[5, 3, 2], [1, 1, 1], [0, 1, 9], [1, 0, 0]])
def test_a_weighted_epoch_ends_before_the_first_draw_from_an_empty_dataset(
    places: list[Path], big: list[Path], weights: list[int]
) -> None:
    drawn, longer = sources(mix(places, weights)), sources(mix(big, weights))
    assert drawn == longer[: len(drawn)], "which dataset comes does not depend on sizes"
    assert Counter(drawn)[longer[len(drawn)]] == SIZES[longer[len(drawn)]]


def test_the_shares_are_those_of_the_sizes_when_there_are_no_weights(places: list[Path]) -> None:
    dataset = mix(places, iterate_over_all=False)
    assert dataset.weights == pytest.approx([size / N for size in SIZES])
    assert sources(dataset) == sources(mix(places, list(SIZES)))
    assert mix(places).weights is None


def test_the_choice_is_another_with_another_seed(places: list[Path]) -> None:
    assert sources(mix(places, seed=1)) != sources(mix(places))


def tripled(sample: int) -> int:
    return sample * 3


@BACKENDS
def test_datasets_keep_their_own_shuffle_and_transform(places: list[Path], backend: Any) -> None:
    first = StreamingDataset(places[0], shuffle=True, seed=7)
    members = [first, StreamingDataset(places[1], transform=tripled), StreamingDataset(places[2])]
    loader = StreamingDataLoader(CombinedStreamingDataset(members), batch_size=4, backend=backend)
    samples = numbers(loader)
    assert [s for s in samples if s < 100] == list(StreamingDataset(first.input_dir, shuffle=True, seed=7))  # fmt: skip
    assert [s for s in samples if s >= 30_000] == [3 * (10_000 + i) for i in range(SIZES[1])]
    assert len(samples) == N


@BACKENDS
def test_shuffle_of_the_loader_sets_every_dataset(places: list[Path], backend: Any) -> None:
    members = [StreamingDataset(places[0], shuffle=True), StreamingDataset(places[1])]
    dataset = CombinedStreamingDataset(members)
    plain = StreamingDataLoader(dataset, batch_size=4, shuffle=False, backend=backend)
    assert [sorted(numbers(plain)), [m.shuffle for m in members]] == [all_of(SIZES[:2]), [False, False]]  # fmt: skip
    assert sources(sorted(numbers(plain))) == sources(all_of(SIZES[:2]))
    StreamingDataLoader(dataset, shuffle="full")
    assert [member.shuffle for member in dataset.datasets] == ["full", "full"]


# ---- worlds


@pytest.mark.parametrize("world", [1, 2, 3, 4])
@BACKENDS
def test_all_ranks_together_deliver_every_sample_once(
    places: list[Path], monkeypatch: pytest.MonkeyPatch, backend: Any, world: int
) -> None:
    delivered: list[list[int]] = [[], []]
    states = []
    for rank in range(world):
        as_rank(monkeypatch, rank, world)
        loader = StreamingDataLoader(mix(places, drop_last=False), batch_size=3, backend=backend)
        for epoch in range(2):
            delivered[epoch] += numbers(loader)
        states.append(loader.state_dict())
        plain = mix(places, drop_last=False)
        assert abs(len(list(plain)) - N / world) < 1
        assert plain.state_dict()["position"] == N
    assert [sorted(epoch) for epoch in delivered] == [all_of()] * 2
    assert states == [states[0]] * world
    assert (states[0]["epoch"], states[0]["position"]) == (2, N)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@BACKENDS
def test_a_global_batch_is_the_same_set_in_any_world(
    places: list[Path], monkeypatch: pytest.MonkeyPatch, backend: Any, weights: Any
) -> None:
    found = []
    for world, workers in ((1, 0), (2, 2), (3, 0), (4, 1)):
        batches: dict[int, set[int]] = {}
        for rank in range(world):
            as_rank(monkeypatch, rank, world)
            dataset = mix(places, weights, drop_last=False)
            options = {"batch_size": 12 // world, "num_workers": workers, "backend": backend}
            for step, batch in enumerate(StreamingDataLoader(dataset, **options)):
                batches.setdefault(step, set()).update(batch.tolist())
        found.append(batches)
    assert found == [found[0]] * 4


def test_by_default_all_ranks_take_the_same_number_of_steps(
    places: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    delivered: list[int] = []
    for rank in range(3):
        as_rank(monkeypatch, rank, 3)
        loader = StreamingDataLoader(mix(places), batch_size=4)
        batches = [batch.tolist() for batch in loader]
        assert [len(batch) for batch in batches] == [4] * (N // 12) == [4] * len(loader)
        delivered += [number for batch in batches for number in batch]
        assert loader.state_dict()["position"] == N, "what drop_last left out is not owed"
    assert len(set(delivered)) == N // 12 * 12


# ---- resume


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize(("world", "workers", "size"), [(1, 0, 1), (1, 2, 5), (2, 0, 7), (3, 2, 2)])
@BACKENDS
def test_a_state_goes_on_in_another_world_with_other_workers_and_batches(
    places: list[Path], monkeypatch: pytest.MonkeyPatch, backend: Any, weights: Any,
    world: int, workers: int, size: int
) -> None:  # fmt: skip
    expected = mix(places, weights)
    expected.set_epoch(2)
    whole, following = list(expected), list(expected)
    delivered, state = [], {}
    for rank in range(2):
        as_rank(monkeypatch, rank, 2)
        loader = StreamingDataLoader(
            mix(places, weights, drop_last=False), batch_size=3, backend=backend
        )
        loader.set_epoch(2)
        delivered += numbers(loader, 4)
        state = through_json(loader.state_dict())
    assert sorted(delivered) == sorted(whole[:24])
    after: list[int] = []
    for rank in range(world):
        as_rank(monkeypatch, rank, world)
        dataset = mix(places, weights, drop_last=False)
        options = {"batch_size": size, "num_workers": workers, "backend": backend}
        loader = StreamingDataLoader(dataset, **options)
        loader.load_state_dict(state)
        delivered += numbers(loader)
        after += numbers(loader)
    assert sorted(delivered) == sorted(whole)
    assert sorted(after) == sorted(following), "only the continued epoch is short"


@BACKENDS
def test_a_resumed_epoch_can_be_resumed_again(places: list[Path], backend: Any) -> None:
    whole = list(mix(places, WEIGHTS))
    plain = mix(places, WEIGHTS)
    delivered = list(islice(plain, 5))
    state = plain.state_dict()
    for size, count in ((3, 2), (2, 4), (5, None)):
        loader = StreamingDataLoader(mix(places, WEIGHTS), batch_size=size, backend=backend)
        loader.load_state_dict(through_json(state))
        assert loader.state_dict() == state
        delivered += numbers(loader, count)
        state = loader.state_dict()
        assert state["position"] == len(delivered)
    assert delivered == whole


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_a_state_from_the_end_of_an_epoch_starts_the_next(places: list[Path], weights: Any) -> None:
    plain = mix(places, weights)
    first, state, second = list(plain), plain.state_dict(), list(plain)
    assert (state["epoch"], state["position"]) == (1, len(first))
    again = mix(places, weights)
    again.load_state_dict(through_json(state))
    assert (again.current_epoch, list(again)) == (2, second)
    loader = StreamingDataLoader(mix(places, weights), batch_size=4)
    loader.load_state_dict(through_json(state))
    assert numbers(loader) == second


@BACKENDS
def test_a_loop_that_broke_early_can_go_on_from_its_state_only(
    places: list[Path], backend: Any
) -> None:
    plain = mix(places)
    first = list(plain)
    loader = StreamingDataLoader(mix(places), batch_size=4, backend=backend)
    assert numbers(loader, 3) == first[:12]
    state = loader.state_dict()
    assert numbers(loader) == list(plain), "the next loop is the next epoch"
    loader.load_state_dict(state)
    assert numbers(loader) == first[12:]
    broken = mix(places)
    assert list(islice(broken, 30)) == first[:30]
    state = broken.state_dict()
    assert list(broken) == first, "without a loader an epoch that was not finished starts again"
    broken.load_state_dict(state)
    assert list(broken) == first[30:]


@COPIES
@BACKENDS
def test_a_copy_in_use_goes_on_where_it_is(
    places: list[Path], backend: Any, copy: Callable[[Any], Any]
) -> None:
    whole = list(mix(places, WEIGHTS))
    loader = StreamingDataLoader(mix(places, WEIGHTS), batch_size=4, backend=backend)
    running = iter(loader)
    first = next(running).tolist()
    other = copy(loader)
    other.load_state_dict(other.state_dict())
    assert first + numbers(other) == first + numbers(running) == whole
    plain = mix(places, WEIGHTS)
    taken = list(islice(plain, 9))
    twin = copy(plain)
    assert twin.state_dict() == plain.state_dict()
    twin.load_state_dict(twin.state_dict())
    assert taken + list(twin) == whole


# ---- everything at once


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write(tmp_path_factory.mktemp("parts"), (60, 60, 60), 7)


@settings(max_examples=40)
@given(st.data())
def test_ranks_workers_and_a_split_deliver_every_sample_once(parts: list[Path], data: Any) -> None:
    sizes = data.draw(st.lists(st.integers(1, 60), min_size=1, max_size=3), label="sizes")
    weight = st.integers(0, 100)
    weights = data.draw(st.none() | st.lists(weight, min_size=len(sizes), max_size=len(sizes)).filter(any), label="weights")  # fmt: skip
    epoch = data.draw(st.integers(0, 1 << 40), label="epoch")
    worlds = data.draw(st.tuples(st.integers(1, 64), st.integers(1, 64)), label="worlds")
    workers = data.draw(st.integers(1, 3), label="workers")
    taken = data.draw(st.integers(0, 90 // worlds[0]), label="samples of each rank before")

    def make() -> CombinedStreamingDataset:
        members = [StreamingDataset(p, shuffle=True, subsample=n / 60) for p, n in zip(parts, sizes, strict=False)]  # fmt: skip
        every = weights is None
        made = CombinedStreamingDataset(members, 3, weights, iterate_over_all=every, drop_last=False)  # fmt: skip
        made.set_epoch(epoch)
        return made

    whole = list(make())
    assert len(set(whole)) == len(whole)
    assert weights is not None or len(whole) == sum(sizes)
    delivered, states = [], []
    with pytest.MonkeyPatch.context() as patch:
        for rank in range(worlds[0]):
            patch.setattr(environment, "detect", lambda r=rank: environment.World(r, worlds[0]))
            dataset = make()
            delivered += list(islice(dataset, taken))
            states.append(through_json(dataset.state_dict()))
        assert all(state == states[0] for state in states)
        for rank in range(worlds[1]):
            for worker in range(workers):
                world = environment.World(rank, worlds[1], worker, workers)
                patch.setattr(environment, "detect", lambda w=world: w)
                dataset = make()
                dataset.load_state_dict(states[0])
                delivered += [] if dataset.current_epoch != epoch else list(dataset)
    assert sorted(delivered) == sorted(whole)
