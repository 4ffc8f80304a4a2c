# SPDX-License-Identifier: Apache-2.0
"""Subsets and filtered datasets in loaders: both backends, ranks, workers, copies, states."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasets import write_dataset
from stoker import (
    CombinedStreamingDataset,
    StreamingDataLoader,
    StreamingDataset,
    train_test_split,
)
from stoker.exceptions import StateMismatchError
from stoker.streaming._assignment import Cursor

N = 103
BACKENDS = pytest.mark.parametrize("backend", ["native", "torch"])
WORKERS = pytest.mark.parametrize("workers", [0, 2])


def sample(i: int) -> dict[str, Any]:
    return {"id": i, "label": i % 10, "name": f"s{i}"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("selection")
    return write_dataset(root / "d", map(sample, range(N)), chunk_size=10)


def ids(batches: Any) -> list[int]:
    return [int(number) for batch in batches for number in batch["id"]]


def below_3(label: int) -> bool:
    return label < 3


def filtered(place: Path, **options: Any) -> StreamingDataset:
    return StreamingDataset(place, filter={"label": below_3}, **options)


def picked(place: Path, **options: Any) -> StreamingDataset:
    return StreamingDataset(place, **options).subset([*range(70, 20, -2), 8, 8, *range(20)])


def split(place: Path, **options: Any) -> StreamingDataset:
    return train_test_split(StreamingDataset(place, **options), [0.4, 0.6])[0]


Make = Callable[..., StreamingDataset]
PARTS = pytest.mark.parametrize("make", [filtered, picked, split])


def loader_of(dataset: StreamingDataset, backend: str, workers: int) -> StreamingDataLoader:
    return StreamingDataLoader(dataset, batch_size=4, num_workers=workers, backend=backend)  # type: ignore[arg-type]


@PARTS
@BACKENDS
@WORKERS
def test_stop_and_resume(place: Path, make: Make, backend: str, workers: int) -> None:
    dataset = make(place, shuffle=True)
    whole = loader_of(dataset, backend, workers)
    assert whole.explain().startswith(backend)
    epochs = [ids(whole), ids(whole)]
    assert Counter(epochs[0]) == Counter(epochs[1]) == Counter(one["id"] for one in dataset[:])
    assert epochs[0] != epochs[1]
    for stop in (1, 5):
        loader = loader_of(make(place, shuffle=True), backend, workers)
        running = iter(loader)
        before = [next(running) for _ in range(stop)]
        state = json.loads(json.dumps(loader.state_dict()))
        del running
        other = "torch" if backend == "native" else "native"
        resumed = loader_of(make(place, shuffle=True), other, 0)
        resumed.load_state_dict(state)
        assert ids(before) + ids(resumed) == epochs[0]
        assert ids(resumed) == epochs[1]


@PARTS
@BACKENDS
@WORKERS
def test_two_ranks_share_and_resume(
    place: Path, make: Make, backend: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    delivered: list[int] = []
    state: dict[str, Any] = {}
    for stop in (2, None):
        for rank in range(2):
            monkeypatch.setenv("RANK", str(rank))
            loader = loader_of(make(place, shuffle=True, drop_last=False), backend, workers)
            if stop is None:
                loader.load_state_dict(state)
            for number, batch in enumerate(loader, 1):
                delivered += batch["id"].tolist()
                if number == stop:
                    break
            after = loader.state_dict()
        state = after
    assert state["position"] == len(delivered)
    assert Counter(delivered) == Counter(one["id"] for one in make(place)[:])


@PARTS
def test_the_backends_agree_in_order(place: Path, make: Make) -> None:
    expected = [one["id"] for one in make(place)[:]]
    for backend in ("native", "torch"):
        assert ids(loader_of(make(place), backend, 2)) == expected


@BACKENDS
def test_a_loader_may_shuffle_a_filtered_part(place: Path, backend: Any) -> None:
    dataset = filtered(place, subsample=0.5)
    loader = StreamingDataLoader(
        dataset, batch_size=4, shuffle=True, num_workers=1, backend=backend
    )
    expected = Counter(one["id"] for one in filtered(place, subsample=0.5, shuffle=True)[:])
    assert Counter(ids(loader)) == expected


def test_workers_that_live_on_follow_the_shuffle(place: Path) -> None:
    dataset = filtered(place, subsample=0.5)
    loader = StreamingDataLoader(
        dataset, batch_size=4, num_workers=2, backend="torch", persistent_workers=True
    )
    in_order = ids(loader)
    assert in_order == [one["id"] for one in dataset[:]]
    dataset.set_shuffle(True)
    assert Counter(ids(loader)) == Counter(one["id"] for one in dataset[:]) != Counter(in_order)


@PARTS
@pytest.mark.parametrize(
    "copy", [lambda x: pickle.loads(pickle.dumps(x)), deepcopy], ids=["pickle", "deepcopy"]
)
def test_copies(place: Path, make: Make, copy: Callable[[Any], Any]) -> None:
    dataset = make(place, shuffle=True)
    list(dataset)
    other = copy(dataset)
    assert other[:] == dataset[:]
    assert list(other) == list(dataset)
    assert other.state_dict() == dataset.state_dict()
    other.set_shuffle(False)
    assert list(other) == dataset[:]


def test_what_a_filter_kept_travels_without_the_filter(place: Path) -> None:
    answers: list[int] = []

    def local(one: dict[str, Any]) -> bool:  # cannot be pickled
        answers.append(one["id"])
        return one["label"] < 3

    dataset = StreamingDataset(place, filter=local)
    other = pickle.loads(pickle.dumps(dataset))
    assert other[:] == dataset[:] == filtered(place)[:]
    assert len(answers) == N
    part = StreamingDataset(place, filter=local, subsample=0.5)
    with pytest.raises((pickle.PicklingError, AttributeError)):  # a shuffle may need it again
        pickle.dumps(part)


def test_a_state_of_another_part_is_refused(place: Path) -> None:
    parts = {
        "whole": StreamingDataset(place),
        "part": StreamingDataset(place).subset(range(30)),
        "other": StreamingDataset(place).subset(range(1, 31)),
        "order": StreamingDataset(place).subset(range(29, -1, -1)),
        "filter": StreamingDataset(place, filter=lambda one: one["id"] >= 73),
    }
    states = {name: part.state_dict() for name, part in parts.items()}
    assert states["whole"]["selection"] == "all"
    assert StreamingDataset(place, subsample=0.5).state_dict()["selection"] == "all"
    assert all(len(json.dumps(state)) < 400 for state in states.values())
    for name, part in parts.items():
        for other, state in states.items():
            if name == other:
                part.load_state_dict(state)
                continue
            with pytest.raises(StateMismatchError) as caught:
                part.load_state_dict(state)
            mine, theirs = states[name]["selection"], state["selection"]
            assert f"`selection` is {theirs!r} in the state and {mine!r} here" in str(caught.value)
    same = StreamingDataset(place).subset(list(range(60))).subset([*range(30)])
    assert same.state_dict() == states["part"]


def test_the_selection_of_a_state_is_pinned(place: Path) -> None:
    """A promise, as the order is: checkpoints of running jobs depend on it."""
    part = StreamingDataset(place).subset([*range(5, 25), 3])
    assert part.state_dict()["selection"] == "35d5b311974eb4e4"


@BACKENDS
def test_parts_in_a_mixture(place: Path, backend: str) -> None:
    left, right = train_test_split(filtered(place, shuffle=True), [0.5, 0.5])
    mixture = CombinedStreamingDataset([left, right])
    loader = StreamingDataLoader(mixture, batch_size=4)
    batches = list(loader)
    assert Counter(ids(batches)) == Counter(one["id"] for one in left[:] + right[:])
    running = iter(loader)
    taken = [next(running), next(running)]
    again = StreamingDataLoader(
        CombinedStreamingDataset(train_test_split(filtered(place, shuffle=True), [0.5, 0.5])),
        batch_size=4,
    )
    again.load_state_dict(loader.state_dict())
    assert ids(taken) + ids(again) == ids(taken) + ids(running)
    swapped = CombinedStreamingDataset([right, left])
    with pytest.raises(StateMismatchError, match="selection"):
        swapped.load_state_dict(loader.state_dict())


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(0, N - 1), max_size=60),
    st.sampled_from([False, True, "full"]),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 5),
)
def test_ranks_and_workers_deliver_every_index_once(
    place: Path, indices: list[int], shuffle: Any, world: int, workers: int, batch: int
) -> None:
    dataset = StreamingDataset(place, shuffle=shuffle)
    part = dataset.subset(indices)
    assert part[:] == [dataset[i] for i in indices]
    delivered: list[int] = []
    for rank in range(world):
        cursor = Cursor(1, 0, batch, False, rank, world)
        for worker in range(workers):
            delivered += [one["id"] for one in part.samples(cursor, worker, workers, "raise")]
    assert Counter(delivered) == Counter(indices)
