# SPDX-License-Identifier: Apache-2.0
"""CombinedStreamingDataset: options that change in the middle of an epoch, and what is refused."""

from __future__ import annotations

import math
from collections import Counter
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

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
from stoker import CombinedStreamingDataset, StreamingDataLoader, StreamingDataset
from stoker.exceptions import InvalidArgumentError, StateMismatchError

BACKENDS = pytest.mark.parametrize("backend", ["torch", "auto"])


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write(tmp_path_factory.mktemp("small"), SIZES, 5)


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write(tmp_path_factory.mktemp("big"), BIG, 500)


# ---- changes on the way


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, True)])
@BACKENDS
def test_weights_set_between_epochs_hold_from_the_next_on(
    big: list[Path], backend: Any, workers: int, persistent: bool
) -> None:
    options = {"num_workers": workers, "persistent_workers": persistent, "backend": backend}
    loader = StreamingDataLoader(mix(big, WEIGHTS), batch_size=64, **options)
    numbers(loader)
    loader.dataset.set_weights([0, 1, 1])
    state = loader.state_dict()
    assert (state["epoch"], state["position"], state["set_weights"]) == (2, 0, [0, 0.5, 0.5])
    second = numbers(loader, BLOCK // 64)
    assert Counter(sources(second)) == {1: BLOCK // 2, 2: BLOCK // 2}
    check_members(big, 2, second)
    state = through_json(loader.state_dict())
    assert (state["weights"], state["set_weights"]) == (list(WEIGHTS), [0, 0.5, 0.5])
    fresh = StreamingDataLoader(mix(big, WEIGHTS), batch_size=10, backend=backend)
    fresh.load_state_dict(state)
    check_members(big, 2, second + numbers(fresh))


def test_weights_set_within_an_epoch_are_in_the_state_and_exact(places: list[Path]) -> None:
    dataset = mix(places, WEIGHTS)
    delivered = list(islice(dataset, 11))
    for weights in ([0, 1, 0], [3, 1, 0]):
        dataset.set_weights(weights)
        state = through_json(dataset.state_dict())
        assert state["segment"]["position"] == state["position"] == len(delivered)
        dataset = mix(places, WEIGHTS)
        dataset.load_state_dict(state)
        assert dataset.state_dict() == state
        part = list(islice(dataset, 8))
        assert weights != [0, 1, 0] or set(sources(part)) == {1}
        delivered += part
    state = through_json(dataset.state_dict())
    dataset.load_state_dict(state)
    delivered += list(dataset)
    check_members(places, 1, delivered)
    assert Counter(sources(delivered))[1] == SIZES[1], "the epoch ends when dataset 1 does"


@pytest.mark.parametrize("taken", [0, 7])
def test_a_running_iteration_and_its_states_keep_the_shuffle_they_began_with(
    places: list[Path], taken: int
) -> None:
    whole = list(mix(places, WEIGHTS))
    for dataset in (mix(places, WEIGHTS), StreamingDataLoader(mix(places, WEIGHTS), batch_size=None)):  # fmt: skip
        running = iter(dataset)
        delivered = [int(sample) for sample in islice(running, taken)]
        owner: Any = dataset if isinstance(dataset, CombinedStreamingDataset) else dataset.dataset
        owner.set_shuffle(False)
        delivered += [int(sample) for sample in islice(running, 5)]
        assert delivered == whole[: taken + 5]
        fresh = mix(places, WEIGHTS)
        fresh.load_state_dict(through_json(dataset.state_dict()))
        assert delivered + list(fresh) == whole


@pytest.mark.parametrize("method", ["stratified", "per_stream"])
@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (2, True)])
@pytest.mark.parametrize("taken", [0, 3])
@BACKENDS
def test_weights_set_in_a_loop_hold_from_the_next_batch_on(
    places: list[Path], backend: Any, workers: int, persistent: bool, method: str, taken: int
) -> None:
    options = {"num_workers": workers, "persistent_workers": persistent, "backend": backend}
    dataset = mix(places, WEIGHTS, batching_method=method)
    loader = StreamingDataLoader(dataset, batch_size=4, batch_transform=list, **options)
    running = iter(loader)
    before = numbers(running, taken)
    loader.set_weights([0, 1, 0])
    after = numbers(running, 2)
    state = through_json(loader.state_dict())
    loader.set_weights([1, 1, 0])
    rest = numbers(running)
    assert (set(sources(after)), len(after)) == ({1}, 8)
    assert set(sources(rest)) == {0, 1}
    check_members(places, 1, before + after + rest)
    again = StreamingDataLoader(mix(places, WEIGHTS, batching_method=method), batch_size=4, **options)  # fmt: skip
    again.load_state_dict(state)
    again.set_weights([1, 1, 0])
    assert numbers(again) == rest
    second = numbers(loader)
    again.set_epoch(2)
    assert numbers(again) == second, "the weights that were set hold in later epochs too"
    assert not set(sources(second)) & {2}


def test_an_iteration_that_is_not_the_current_one_keeps_its_weights(places: list[Path]) -> None:
    whole = list(mix(places, WEIGHTS))
    for dataset in (mix(places, WEIGHTS), StreamingDataLoader(mix(places, WEIGHTS), batch_size=None)):  # fmt: skip
        older = iter(dataset)
        delivered = [int(sample) for sample in islice(older, 6)]
        state = dataset.state_dict()
        delivered += [int(sample) for sample in islice(older, 2)]
        dataset.load_state_dict(state)
        (dataset if isinstance(dataset, CombinedStreamingDataset) else dataset.dataset).set_weights([0, 1, 0])  # type: ignore[attr-defined] # fmt: skip
        delivered += [int(sample) for sample in islice(older, 10)]
        assert delivered == whole[:18]
        rest = [int(sample) for sample in dataset]
        assert set(sources(rest)) == {1}
        check_members(places, 1, whole[:6] + rest)


def test_states_of_an_iteration_whose_weights_were_set_are_exact(places: list[Path]) -> None:
    dataset = mix(places, WEIGHTS)
    running = iter(dataset)
    delivered = list(islice(running, 11))
    dataset.set_weights([0, 1, 1])
    part = list(islice(running, 9))
    assert not set(sources(part)) & {0}
    dataset.load_state_dict(through_json(dataset.state_dict()))
    rest = list(dataset)
    assert rest == list(running)
    check_members(places, 1, delivered + part + rest)


@pytest.mark.parametrize("method", ["stratified", "per_stream"])
def test_len_is_of_a_whole_epoch_with_the_weights_of_now(places: list[Path], method: str) -> None:
    loader = StreamingDataLoader(mix(places, WEIGHTS, batching_method=method), batch_size=4)
    running = iter(loader)
    numbers(running, 5)
    before = len(loader)
    loader.set_weights([1, 1, 5])
    set_now = len(loader)
    numbers(running, 1)
    assert before != len(loader) == set_now
    loader.set_epoch(1)
    assert len(list(loader)) == set_now


def test_weights_that_are_in_force_already_change_nothing(places: list[Path]) -> None:
    whole = list(mix(places, WEIGHTS))
    dataset = mix(places, WEIGHTS)
    running = iter(dataset)
    delivered = list(islice(running, 11))
    dataset.set_weights([10 * weight for weight in WEIGHTS])
    assert dataset.state_dict()["segment"]["position"] == 0
    assert delivered + list(running) == whole


def test_an_epoch_whose_weights_changed_can_start_again(places: list[Path]) -> None:
    expected = list(mix(places, [1, 1, 0]))
    dataset = mix(places, WEIGHTS)
    assert len(list(islice(dataset, 11))) == 11
    dataset.set_weights([1, 1, 0])
    state = through_json(dataset.state_dict())
    assert list(dataset) == expected
    dataset.load_state_dict(state)
    dataset.set_epoch(1)
    assert list(dataset) == expected
    loader = StreamingDataLoader(mix(places, WEIGHTS), batch_size=4)
    loader.load_state_dict(state)
    loader.set_epoch(1)
    assert numbers(loader) == expected


@BACKENDS
def test_weights_set_after_a_state_was_loaded_hold_from_there_on(
    places: list[Path], backend: Any
) -> None:
    first = StreamingDataLoader(mix(places, WEIGHTS), batch_size=4, backend=backend)
    delivered = numbers(first, 3)
    loader = StreamingDataLoader(mix(places, WEIGHTS), batch_size=4, backend=backend)
    loader.load_state_dict(first.state_dict())
    loader.dataset.set_weights([0, 1, 0])
    rest = numbers(loader)
    assert set(sources(rest)) == {1}
    check_members(places, 1, delivered + rest)


def test_datasets_are_added_at_the_end_by_force_only(places: list[Path]) -> None:
    before = mix(places[:2])
    delivered = list(islice(before, 20))
    state = through_json(before.state_dict())
    with pytest.raises(StateMismatchError, match="2 datasets, here are 3"):
        mix(places).load_state_dict(state)
    grown = mix(places, force_override_state_dict=True)
    grown.load_state_dict(state)
    rest = list(grown)
    check_members(places, 1, delivered + rest)
    assert sorted(delivered + rest) == all_of()
    with pytest.raises(StateMismatchError, match="none may be left out"):
        mix(places[:1], force_override_state_dict=True).load_state_dict(state)


@pytest.mark.parametrize("options", [{"weights": (1, 3, 0)}, {"seed": 7}, {"iterate_over_all": True}])  # fmt: skip
@BACKENDS
def test_forced_options_hold_from_the_states_position_on(
    places: list[Path], backend: Any, options: dict[str, Any]
) -> None:
    before = mix(places, WEIGHTS)
    delivered = list(islice(before, 20))
    state = through_json(before.state_dict())
    if "iterate_over_all" not in options:
        options = {"weights": WEIGHTS, **options}
    with pytest.raises(StateMismatchError, match="does not fit"):
        mix(places, **options).load_state_dict(state)
    loader = StreamingDataLoader(
        mix(places, **options, force_override_state_dict=True), batch_size=4, backend=backend
    )
    loader.load_state_dict(state)
    delivered += numbers(loader, 2)
    again = StreamingDataLoader(mix(places, **options), batch_size=3, backend=backend)
    again.load_state_dict(through_json(loader.state_dict()))
    delivered += numbers(again)
    check_members(places, 1, delivered)


# ---- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [0.5, 0.3, 0.2]}, "iterate_over_all=False"),
        ({"weights": [1, 2], "iterate_over_all": False}, "3 numbers"),
        ({"weights": 1.0, "iterate_over_all": False}, "3 numbers"),
        ({"weights": [1, -1, 1], "iterate_over_all": False}, "-1 is no finite"),
        ({"weights": [0, 0, 0.0], "iterate_over_all": False}, "add up to 0"),
        ({"weights": [1, math.nan, 1], "iterate_over_all": False}, "nan is no finite"),
        ({"weights": [1, math.inf, 1], "iterate_over_all": False}, "inf is no finite"),
        ({"weights": [10**400, 1, 1], "iterate_over_all": False}, "too large"),
        ({"weights": [1e308, 1e308, 1], "iterate_over_all": False}, "too large"),
        ({"weights": [1, True, 1], "iterate_over_all": False}, "True is no finite"),
        ({"seed": True}, "seed=True"),
        ({"seed": -1}, "seed=-1"),
        ({"batching_method": "by_luck"}, "'stratified' or 'per_stream'"),
        ({"drop_last": 1}, "drop_last=1"),
    ],
    ids=str,
)
def test_arguments_that_cannot_work(
    places: list[Path], options: dict[str, Any], message: str
) -> None:
    members = [StreamingDataset(place) for place in places]
    with pytest.raises(InvalidArgumentError, match=message):
        CombinedStreamingDataset(members, **options)


def test_members_that_cannot_work(places: list[Path], tmp_path: Path) -> None:
    for nothing in ([], StreamingDataset(places[0])):
        with pytest.raises(InvalidArgumentError, match="list of one StreamingDataset or more"):
            CombinedStreamingDataset(nothing)  # type: ignore[arg-type]
    for stranger in ([1, 2], mix(places)):
        with pytest.raises(RuntimeError, match=f"number 1 is a {type(stranger).__name__}"):
            CombinedStreamingDataset([StreamingDataset(places[0]), stranger])  # type: ignore[list-item]
    with pytest.warns(UserWarning, match="leaves none"):
        empty = StreamingDataset(places[1], subsample=0.001)
    with pytest.raises(InvalidArgumentError, match=r"dataset 1 .* holds no samples"):
        CombinedStreamingDataset([StreamingDataset(places[0]), empty])


def test_weights_that_cannot_be_set_change_nothing(places: list[Path]) -> None:
    dataset = mix(places, WEIGHTS)
    with pytest.raises(InvalidArgumentError, match="add up to 0"):
        dataset.set_weights([0, 0, 0])
    assert dataset.weights == WEIGHTS
    with pytest.raises(InvalidArgumentError, match="no weights to set"):
        mix(places).set_weights(WEIGHTS)


ALTERED = {
    "another seed": {"seed": 1},
    "other weights": {"weights": [0.2, 0.3, 0.5]},
    "more than there is": {"position": 10_000},
    "no segment": {"segment": None},
    "part of a segment": {"segment": {"position": 6}},
    "a short segment": {"segment": {"position": 6, "delivered": [4, 2], "batches": None}},
    "a segment of another sum": {
        "segment": {"position": 6, "delivered": [4, 2, 1], "batches": None}
    },
    "a negative segment": {"segment": {"position": 6, "delivered": [4, 3, -1], "batches": None}},
    "a segment of words": {"segment": {"position": 6, "delivered": ["4", 2, 0], "batches": None}},
    "a segment of the future": {
        "segment": {"position": 31, "delivered": [14, 10, 7], "batches": None}
    },
    "a segment of too much": {
        "segment": {"position": 20, "delivered": [0, 0, 20], "batches": None}
    },
    "a segment of batches": {
        "segment": {"position": 0, "delivered": [0, 0, 0], "batches": [4, 4, 4]}
    },
    "more than there is, with a segment": {
        "position": 10_000,
        "segment": {"position": 20, "delivered": [12, 5, 3], "batches": None},
    },
    "weights set of words": {"set_weights": ["a", "b", "c"]},
    "weights set that are too large": {"set_weights": [2**62, 2**62, 1]},
    "weights set for two": {"set_weights": [0.5, 0.5]},
    "weights set and every sample once": {
        "set_weights": [0.5, 0.3, 0.2],
        "weights": None,
        "iterate_over_all": True,
    },
    "another method": {"batching_method": "by_luck"},
    "no datasets": {"datasets": None},
    "datasets of words": {"datasets": ["a", "b", "c"]},
    "another version": {"state_version": 2},
}


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("change", ALTERED.values(), ids=ALTERED)
def test_altered_states_are_refused_and_change_nothing(
    places: list[Path], change: dict[str, Any], force: bool
) -> None:
    dataset = mix(places, WEIGHTS, force_override_state_dict=force)
    whole = list(dataset)
    dataset.set_epoch(1)
    assert len(list(islice(dataset, 20))) == 20
    state = dataset.state_dict() | change
    if force and change.keys() & {"seed", "weights"}:
        state = {**state, "seed": "many", "weights": "heavy"}
    with pytest.raises(StateMismatchError):
        dataset.load_state_dict(state)
    assert list(dataset) == whole


def test_states_of_others_are_refused(places: list[Path]) -> None:
    alone = StreamingDataset(places[0], shuffle=True)
    with pytest.raises(StateMismatchError, match="not one of a CombinedStreamingDataset"):
        mix(places).load_state_dict(alone.state_dict())
    with pytest.raises(StateMismatchError, match="lacks"):
        alone.load_state_dict(mix(places).state_dict())
    litdata = {"dataset": {"0": {}, "1": {}}, "current_epoch": 1, "num_samples_yielded": {"0": 8}}
    with pytest.raises(StateMismatchError, match="state of litdata"):
        mix(places).load_state_dict(litdata)
    swapped = mix([places[1], places[0], places[2]])
    with pytest.raises(StateMismatchError, match="of dataset 0 does not fit"):
        swapped.load_state_dict(mix(places).state_dict())


@BACKENDS
def test_loading_leaves_the_state_as_it_is(places: list[Path], backend: Any) -> None:
    dataset = mix(places, WEIGHTS)
    assert len(list(islice(dataset, 8))) == 8
    state = dataset.state_dict()
    before = deepcopy(state)
    loader = StreamingDataLoader(mix(places, WEIGHTS), batch_size=4, backend=backend)
    loader.load_state_dict(state)
    numbers(loader)
    dataset.load_state_dict(state)
    assert len(list(dataset)) > 0
    assert state == before
