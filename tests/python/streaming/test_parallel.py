# SPDX-License-Identifier: Apache-2.0
"""ParallelStreamingDataset: what is side by side, worlds, exact resume, transforms and their random numbers."""

from __future__ import annotations

import functools
import math
import pickle
import random
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixtures import through_json, write
from stoker import (
    CombinedStreamingDataset,
    ParallelStreamingDataset,
    StreamingDataLoader,
    StreamingDataset,
    environment,
)
from stoker.exceptions import CorruptDataError, InvalidArgumentError, StateMismatchError
from worlds import as_rank

SIZES = (10, 7, 23)
INF = float("inf")
BACKENDS = pytest.mark.parametrize("backend", ["torch", "auto"])
LENGTHS = pytest.mark.parametrize("length", [None, 6, 31])
COPIES = pytest.mark.parametrize(
    "copy", [lambda thing: pickle.loads(pickle.dumps(thing)), deepcopy], ids=["pickle", "deepcopy"]
)
Tuples = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write(tmp_path_factory.mktemp("small"), SIZES, 3)


def side_by_side(
    places: Iterable[Path], length: Any = None, shuffle: Any = True, **options: Any
) -> ParallelStreamingDataset:
    members = [StreamingDataset(place, shuffle=shuffle) for place in places]
    return ParallelStreamingDataset(members, length, **options)


def expected(
    places: Iterable[Path], epoch: int, length: Any, shuffle: Any = True, *, resume: bool = True
) -> Tuples:
    """Return an epoch, from the members' own epochs."""
    members = [StreamingDataset(place, shuffle=shuffle) for place in places]

    @functools.cache
    def own(number: int, its: int) -> list[int]:
        members[number].set_epoch(its)
        return list(members[number])

    if length is None:
        return list(zip(*(own(number, epoch) for number in range(len(members))), strict=False))
    first = (epoch - 1) * length if resume else 0
    sizes = [member.num_samples for member in members]
    return [
        tuple(own(n, place // size + 1)[place % size] for n, size in enumerate(sizes))
        for place in range(first, first + length)
    ]


def tuples(batches: Iterable[Any], count: int | None = None) -> Tuples:
    """Return the samples of the first ``count`` batches; then the loop breaks."""
    found: Tuples = []
    for batch in islice(batches, count):
        assert type(batch) is list, "as torch collates tuples"
        found += zip(*(column.tolist() for column in batch), strict=True)
    return found


# ---- what is side by side


def test_unshuffled_members_go_round_and_epochs_go_on(places: list[Path]) -> None:
    def epochs(count: int, length: Any, **options: Any) -> Tuples:
        dataset = side_by_side(places[:2], length, shuffle=False, **options)
        return [(a, b - 10_000) for _ in range(count) for a, b in islice(dataset, 300)]

    second = [(6, 6), (7, 0), (8, 1), (9, 2), (0, 3), (1, 4)]
    assert epochs(2, 6) == [(i, i) for i in range(6)] + second
    assert epochs(2, 6, resume=False) == [(i, i) for i in range(6)] * 2
    assert epochs(2, None) == [(i, i) for i in range(7)] * 2
    assert epochs(1, INF) == [(i % 10, i % 7) for i in range(300)]


@LENGTHS
@pytest.mark.parametrize("shuffle", [False, True, "full"])
@pytest.mark.parametrize("resume", [True, False])
def test_epochs_are_those_of_the_members(
    places: list[Path], length: Any, shuffle: Any, resume: bool
) -> None:
    dataset = side_by_side(places, length, shuffle, resume=resume)
    for epoch in (1, 2, 3):
        assert list(dataset) == expected(places, epoch, length, shuffle, resume=resume)
    dataset.set_epoch(7)
    assert list(dataset) == expected(places, 7, length, shuffle, resume=resume)
    assert len(dataset) == (7 if length is None else length)


def test_epoch_zero_and_one_far_away(places: list[Path]) -> None:
    for length, epoch in ((6, 1), (None, 0)):
        dataset = side_by_side(places, length)
        dataset.set_epoch(0)
        assert list(dataset) == expected(places, epoch, length)
    dataset = side_by_side(places, 10**6)
    dataset.set_epoch((1 << 62) - 1)
    assert len(list(islice(dataset, 60))) == 60


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (1, False), (2, False), (2, True)])
@LENGTHS
@BACKENDS
def test_a_loader_gives_the_same_for_any_workers(
    places: list[Path], backend: Any, length: Any, workers: int, persistent: bool
) -> None:
    plain = side_by_side(places, length)
    epochs = [list(plain) for _ in range(3)]
    options = {"num_workers": workers, "persistent_workers": persistent, "backend": backend}
    loader = StreamingDataLoader(side_by_side(places, length), batch_size=4, **options)
    assert [tuples(loader) for _ in range(3)] == epochs
    assert len(loader) == math.ceil(len(epochs[0]) / 4)
    assert loader.state_dict() == plain.state_dict()


@pytest.mark.parametrize("workers", [0, 2])
@BACKENDS
def test_an_endless_epoch(places: list[Path], backend: Any, workers: int) -> None:
    whole = expected(places, 1, 120)
    dataset = side_by_side(places, INF, drop_last=True)
    assert dataset.endless
    assert not side_by_side(places, 6).endless
    assert list(islice(dataset, 120)) == whole
    loader = StreamingDataLoader(dataset, batch_size=8, num_workers=workers, backend=backend)
    for sized in (dataset, loader):
        with pytest.raises(TypeError, match=r"length=float\('inf'\) has no len\(\)"):
            len(sized)
    assert tuples(loader, 15) == whole
    state = through_json(loader.state_dict())
    assert (state["epoch"], state["position"], state["length"]) == (1, 120, "inf")
    assert tuples(loader, 2) == whole[:16], "each epoch starts where the first does"
    other = StreamingDataLoader(side_by_side(places, INF), batch_size=10, backend=backend)
    other.load_state_dict(state)
    assert tuples(other, 3) == expected(places, 1, 150)[120:]


@BACKENDS
def test_members_keep_their_options_and_may_repeat(places: list[Path], backend: Any) -> None:
    twice = StreamingDataset(places[0], shuffle=True, seed=7)
    plain = StreamingDataset(places[1], transform=tripled)
    full = StreamingDataset(places[2], shuffle="full", drop_last=True, subsample=0.5)
    dataset = ParallelStreamingDataset([twice, plain, twice, full], 10)
    loader = StreamingDataLoader(dataset, batch_size=4, backend=backend)
    one, two, three, four = zip(*tuples(loader), strict=True)
    assert list(one) == list(three) == list(StreamingDataset(places[0], shuffle=True, seed=7))
    assert list(two) == [3 * (10_000 + i % 7) for i in range(10)]
    assert list(four) == list(StreamingDataset(places[2], shuffle="full", subsample=0.5))[:10]
    assert len(set(four)) == 10


def tripled(sample: int) -> int:
    return sample * 3


@BACKENDS
def test_one_member_alone_gives_tuples_of_one(places: list[Path], backend: Any) -> None:
    loader = StreamingDataLoader(side_by_side(places[:1], 25), batch_size=4, backend=backend)
    assert tuples(loader) == list(side_by_side(places[:1], 25)) == expected(places[:1], 1, 25)
    singly = StreamingDataLoader(side_by_side(places), batch_size=None)
    assert [tuple(sample) for sample in singly] == expected(places, 1, None)


def test_the_order_is_told_by_number(places: list[Path]) -> None:
    loader = StreamingDataLoader(side_by_side(places, 31), batch_size=4)
    order = loader.order(2)
    assert [(a, 10_000 + b, 20_000 + c) for a, b, c in order] == expected(places, 2, 31)
    endless = StreamingDataLoader(side_by_side(places, INF), batch_size=4)
    assert endless.order(1, 31, 62) == order
    unshuffled = StreamingDataLoader(side_by_side(places, 31), batch_size=4, shuffle=False)
    assert tuples(unshuffled) == expected(places, 1, 31, shuffle=False), "of every member"


@pytest.mark.parametrize("workers", [0, 2])
@LENGTHS
@BACKENDS
def test_what_is_set_while_an_epoch_runs_holds_from_the_next(
    places: list[Path], backend: Any, length: Any, workers: int
) -> None:
    options = {"num_workers": workers, "backend": backend, "persistent_workers": workers > 0}
    loader = StreamingDataLoader(side_by_side(places, length), batch_size=2, **options)
    running = iter(loader)
    first = tuples(running, 1)
    loader.dataset.set_shuffle(False)
    assert first + tuples(running) == expected(places, 1, length)
    assert tuples(loader) == expected(places, 2, length, shuffle=False)
    plain = iter(dataset := side_by_side(places, length))
    head = [next(plain)]
    dataset.set_shuffle("full")
    assert head + list(plain) == expected(places, 1, length)


def test_epochs_differ_when_anything_in_them_does(places: list[Path]) -> None:
    still = functools.partial(side_by_side, places, shuffle=False)
    fixed = [still(), still(INF, transform=sum), still(6, resume=False)]
    assert not any(dataset.random_order() for dataset in fixed)
    other = [side_by_side(places), side_by_side(places, INF), still(6), still(transform=drawing)]
    assert all(dataset.random_order() for dataset in other)


# ---- worlds and resume


@pytest.mark.parametrize("world", [1, 2, 3, 4])
@LENGTHS
@BACKENDS
def test_all_ranks_together_deliver_every_tuple_once(
    places: list[Path], monkeypatch: pytest.MonkeyPatch, backend: Any, length: Any, world: int
) -> None:
    whole = [expected(places, epoch, length) for epoch in (1, 2)]
    delivered: list[Tuples] = [[], []]
    states = []
    for rank in range(world):
        as_rank(monkeypatch, rank, world)
        loader = StreamingDataLoader(side_by_side(places, length, drop_last=False), backend=backend)
        for epoch in range(2):
            delivered[epoch] += tuples(loader)
        states.append(loader.state_dict())
    assert [sorted(epoch) for epoch in delivered] == [sorted(epoch) for epoch in whole]
    assert states == [states[0]] * world
    assert (states[0]["epoch"], states[0]["position"]) == (2, len(whole[0]))


@pytest.mark.parametrize("steps", [1, 2, 5])  # 5: where the smallest member goes round
@pytest.mark.parametrize(("world", "workers", "size"), [(1, 0, 1), (1, 2, 5), (2, 0, 3), (3, 2, 2)])
@BACKENDS
def test_a_state_goes_on_in_another_world_with_other_workers_and_batches(
    places: list[Path], monkeypatch: pytest.MonkeyPatch, backend: Any, steps: int,
    world: int, workers: int, size: int
) -> None:  # fmt: skip
    length, start = 31, 3  # epoch 3 begins within rounds of all members
    whole, following = (expected(places, epoch, length) for epoch in (start, start + 1))
    delivered, state = [], {}
    for rank in range(2):
        as_rank(monkeypatch, rank, 2)
        dataset = side_by_side(places, length, drop_last=False)
        loader = StreamingDataLoader(dataset, batch_size=2, backend=backend)
        loader.set_epoch(start)
        delivered += tuples(loader, steps)
        state = through_json(loader.state_dict())
    assert sorted(delivered) == sorted(whole[: 4 * steps])
    after: Tuples = []
    for rank in range(world):
        as_rank(monkeypatch, rank, world)
        dataset = side_by_side(places, length, drop_last=False)
        options = {"batch_size": size, "num_workers": workers, "backend": backend}
        loader = StreamingDataLoader(dataset, **options)
        loader.load_state_dict(state)
        delivered += tuples(loader)
        after += tuples(loader)
    assert sorted(delivered) == sorted(whole)
    assert sorted(after) == sorted(following), "only the continued epoch is short"


@LENGTHS
@BACKENDS
def test_every_position_can_be_resumed_again(places: list[Path], backend: Any, length: Any) -> None:
    whole = expected(places, 2, length)
    for cut in range(1, len(whole)):
        plain = side_by_side(places, length)
        plain.set_epoch(2)
        delivered, state = list(islice(plain, cut)), plain.state_dict()
        for size, count in ((3, 1), (2, 2), (5, None)):
            if state["position"] == len(whole):
                break
            loader = StreamingDataLoader(side_by_side(places, length), batch_size=size, backend=backend)  # fmt: skip
            loader.load_state_dict(through_json(state))
            assert loader.state_dict() == state
            delivered, state = delivered + tuples(loader, count), loader.state_dict()
            assert (state["epoch"], state["position"]) == (2, len(delivered))
        assert delivered == whole


@LENGTHS
def test_a_state_from_the_end_of_an_epoch_starts_the_next(places: list[Path], length: Any) -> None:
    plain = side_by_side(places, length)
    first, state, second = list(plain), plain.state_dict(), list(plain)
    assert (state["epoch"], state["position"]) == (1, len(first))
    again = side_by_side(places, length)
    again.load_state_dict(state)
    assert (again.current_epoch, list(again)) == (2, second)


@COPIES
@BACKENDS
def test_a_copy_in_use_goes_on_where_it_is(
    places: list[Path], backend: Any, copy: Callable[[Any], Any]
) -> None:
    whole = expected(places, 1, 31)
    loader = StreamingDataLoader(side_by_side(places, 31), batch_size=4, backend=backend)
    running = iter(loader)
    first = tuples(running, 1)
    other = copy(loader)
    other.load_state_dict(other.state_dict())
    assert first + tuples(other) == first + tuples(running) == whole
    taken = list(islice(plain := side_by_side(places, 31), 9))
    twin = copy(plain)
    assert twin.state_dict() == plain.state_dict()
    twin.load_state_dict(twin.state_dict())
    assert taken + list(twin) == whole
    plain.close()
    assert list(plain) == whole, "files open again"


# ---- transforms


def drawing(numbers: tuple[int, ...], rngs: dict[str, Any]) -> tuple[Any, ...]:
    """Return the numbers and what each generator draws."""
    assert (type(numbers), set(rngs)) == (tuple, {"random", "numpy", "torch"})
    made = rngs["random"], rngs["numpy"], rngs["torch"]
    assert [type(rng) for rng in made] == [random.Random, np.random.Generator, torch.Generator]
    one, two = made[0].randrange(1 << 40), int(made[1].integers(1 << 40))
    return (*numbers, one, two, int(torch.randint(1 << 40, (), generator=made[2])))


def draws(samples: Tuples) -> Tuples:
    return [sample[-3:] for sample in samples]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_transform_of_the_tuple(places: list[Path], workers: int) -> None:
    whole = [sum(sample) for sample in expected(places, 1, 31)]
    assert list(side_by_side(places, 31, transform=sum)) == whole
    loader = StreamingDataLoader(side_by_side(places, 31, transform=sum), num_workers=workers)
    assert [int(number) for number in loader] == whole
    assert loader.explain().endswith("because its transform 'sum' is a Python function.")


@pytest.mark.parametrize("length", [None, 31, INF])
@pytest.mark.parametrize("reset", [False, True])
def test_generators_depend_on_the_place_only(
    places: list[Path], monkeypatch: pytest.MonkeyPatch, length: Any, reset: bool
) -> None:
    options = {"transform": drawing, "reset_rngs": reset, "drop_last": False}
    count = 7 if length is None else 31
    whole = list(islice(side_by_side(places, length, **options), count))
    assert [sample[:3] for sample in whole] == expected(places, 1, None if length is None else 31)
    assert len({number for sample in draws(whole) for number in sample}) == 3 * count
    for world, workers, cut in ((1, 0, 2), (2, 2, 1), (3, 0, 1)):
        delivered, state = [], {}
        for rank in range(world):
            as_rank(monkeypatch, rank, world)
            loader = StreamingDataLoader(side_by_side(places, length, **options), num_workers=workers)  # fmt: skip
            delivered += tuples(loader, cut)
            state = through_json(loader.state_dict())
        as_rank(monkeypatch, 0, 1)
        rest = side_by_side(places, length, **options)
        rest.load_state_dict(state)
        delivered += islice(rest, count - len(delivered))
        assert sorted(delivered) == sorted(whole)


def test_rounds_draw_differently_unless_the_generators_are_reset(places: list[Path]) -> None:
    first = [places[0], places[0]]
    for length in (None, 10):
        one, two = (side_by_side(first, length, transform=drawing, reset_rngs=r) for r in (False, True))  # fmt: skip
        epochs, reset = ([draws(list(dataset)) for _ in range(3)] for dataset in (one, two))
        assert len({sample for epoch in epochs for sample in epoch}) == 30
        assert reset == [reset[0]] * 3
    endless = side_by_side(first, INF, transform=drawing, reset_rngs=True)
    assert draws(list(islice(endless, 20))) == reset[0] * 2
    again = side_by_side(first, 10, transform=drawing, resume=False)
    assert draws(list(again)) == draws(list(again)) == epochs[0]
    other = side_by_side(first, 10, transform=drawing, seed=43)
    assert not {*draws(list(other))} & {*epochs[0]}


def test_what_counts_as_one_argument_or_two(places: list[Path]) -> None:
    class Method:
        def __call__(self, numbers: Any, rngs: Any) -> Any:
            return set(rngs)

    def first_and_any(numbers: Any, rngs: Any, *more: Any, **named: Any) -> Any:
        return set(rngs), more, named

    rngs = {"random", "numpy", "torch"}
    identity = torch.nn.Identity()
    cases: list[tuple[Any, Any]] = [
        (Method(), rngs), (lambda _, rngs="mine": rngs, "mine"), (lambda *numbers: len(numbers), 1), (first_and_any, (rngs, (), {})),
        (max, 10_000), (list, [0, 10_000]), (identity, (0, 10_000)),
        (functools.partial(first_and_any, more=1), (rngs, (), {"more": 1})),
    ]  # fmt: skip
    for transform, made in cases:
        dataset = side_by_side(places[:2], shuffle=False, transform=transform)
        assert next(iter(dataset)) == made
    assert side_by_side(places, transform=identity).python_transform == "Identity"
    assert side_by_side(places).python_transform is None


# ---- backends and damage


def test_numbers_side_by_side_are_read_natively(places: list[Path]) -> None:
    loader = StreamingDataLoader(side_by_side(places), batch_size=4)
    assert loader.explain().startswith("native: ")
    members = [StreamingDataset(places[0]), StreamingDataset(places[1], transform=tripled)]
    loader = StreamingDataLoader(ParallelStreamingDataset(members), batch_size=4)
    assert "because its transform 'tripled' is a Python function" in loader.explain()
    with pytest.raises(InvalidArgumentError, match="'sum' is a Python function"):
        list(StreamingDataLoader(side_by_side(places, transform=sum), backend="native"))


@pytest.mark.parametrize("world", [1, 3])
def test_both_backends_pad_and_leave_out_alike(
    places: list[Path], monkeypatch: pytest.MonkeyPatch, world: int
) -> None:
    for rank, pad in product(range(world), (None, "mask")):
        as_rank(monkeypatch, rank, world)
        found = []
        for backend in ("torch", "native"):
            options: dict[str, Any] = {"backend": backend, "pad": pad, "batch_size": 4}
            loader = StreamingDataLoader(side_by_side(places, 31), **options)
            found.append([str(batch) for batch in loader])
        assert found[0] == found[1]
        assert len(found[0]) == len(loader)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("transform", [None, drawing])
def test_damage_leaves_the_tuple_out(tmp_path: Path, workers: int, transform: Any) -> None:
    places = write(tmp_path, (10, 7), 5)
    whole = list(side_by_side(places, 20, transform=transform))
    path = places[0] / "chunk-0-1.bin"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    with pytest.raises(CorruptDataError, match=r"chunk-0-1\.bin"):
        list(side_by_side(places, 20))
    dataset = side_by_side(places, 20, transform=transform)
    loader = StreamingDataLoader(dataset, batch_size=10, num_workers=workers, on_error="skip")
    good = [sample for sample in whole if sample[0] not in range(5, 10)]
    assert tuples(loader) == good
    assert (len(good), loader.stats()["skipped"]) == (10, 10)
    head = tuples(loader, 1)
    state = through_json(loader.state_dict())
    assert (len(head), state["epoch"], state["position"]) == (5, 2, 10), "those left out count"
    assert "must leave a damaged sample out of all" in loader.explain() or transform is not None


# ---- what is refused


def test_members_that_cannot_be(places: list[Path]) -> None:
    for members in ([], None, StreamingDataset(places[0])):
        with pytest.raises(InvalidArgumentError, match="takes a list of one StreamingDataset"):
            ParallelStreamingDataset(members)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="number 0 is a ParallelStreamingDataset"):
        ParallelStreamingDataset([side_by_side(places)])  # type: ignore[list-item]
    empty = StreamingDataset(places[0]).subset([])
    with pytest.raises(InvalidArgumentError, match=r"dataset 0 .* holds no samples"):
        ParallelStreamingDataset([empty])
    emptied = StreamingDataset(places[2], subsample=0.1, filter=lambda sample: sample == 20_000)
    dataset = ParallelStreamingDataset([emptied], 5)
    dataset.set_shuffle(True)  # takes another part of it
    lost = pytest.raises(InvalidArgumentError, match="Dataset 0 holds no samples any more")
    with pytest.warns(UserWarning, match="leaves none"), lost:
        list(dataset)


@pytest.mark.parametrize("length", [0, -1, True, False, 2.5, 5.0, math.nan, -INF, "inf", 1 << 62, [6]])  # fmt: skip
def test_lengths_that_cannot_be(places: list[Path], length: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"length=.* must be an int from 1 to") as error:
        side_by_side(places, length)
    assert isinstance(error.value, ValueError)


BAD_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"transform": 5}, "transform must be a callable of the tuple, .*found 5"),
    ({"transform": [sum]}, "transform must be a callable"),
    ({"transform": lambda one, two, three: 1}, "transform=.*lambda.* but it needs 3 arguments"),
    ({"transform": lambda one, *, rngs: 1}, "transform=.* but missing a required.* 'rngs'"),
    ({"transform": lambda: 1}, "but too many positional arguments"), ({"seed": -1}, "seed=-1 must be an int from 0"),
    ({"seed": True}, "seed=True must be an int"), ({"resume": 1}, "resume=1 must be a bool"),
    ({"reset_rngs": None}, "reset_rngs=None must be a bool"), ({"drop_last": "no"}, "drop_last='no' must be a bool"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "text"), BAD_OPTIONS)
def test_options_that_cannot_be(places: list[Path], options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        side_by_side(places, **options)


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"seed": 7}, "`seed` is 7 in the state and 42 here"), ({"length": 30}, "`length` is 30 in the state and 31 here"),
    ({"length": "inf"}, "`length` is 'inf' in the state"), ({"length": None}, "`length` is None in the state"),
    ({"resume": False}, "`resume` is False in the state"), ({"reset_rngs": True}, "`reset_rngs` is True in the state"),
]  # fmt: skip
BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"position": 32}, "has delivered 32 samples, but the dataset holds 31"), ({"position": -1}, "position=-1"),
    ({"epoch": 1.5}, "epoch=1.5"), ({"state_version": 99}, "no state of version"),
    ({"datasets": None}, "not one of a ParallelStreamingDataset"),
    ({"datasets": [1, 2, 3]}, "not one of a ParallelStreamingDataset"),
    ({"datasets": []}, "The state has 0 datasets side by side, here are 3"),
    ({"datasets": [{}, {}, {}]}, "of dataset 0 lacks"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "text"), CHANGES + BROKEN)
def test_states_that_do_not_fit(places: list[Path], change: dict[str, Any], text: str) -> None:
    taken = side_by_side(places, 31)
    delivered = list(islice(taken, 5))
    state = taken.state_dict()
    altered = {**state, **change}
    for target in (side_by_side(places, 31), StreamingDataLoader(side_by_side(places, 31))):
        target.load_state_dict(state)
        with pytest.raises(StateMismatchError, match=text):
            target.load_state_dict(altered)
        assert target.state_dict() == state, "nothing changes"
    forced = side_by_side(places, 31, force_override_state_dict=True)
    if (change, text) in CHANGES:
        forced.load_state_dict(altered)
        assert delivered + list(forced) == expected(places, 1, 31), "the local options win"
    else:
        with pytest.raises(StateMismatchError, match=text):
            forced.load_state_dict(altered)


def test_states_of_others(places: list[Path], caplog: pytest.LogCaptureFixture) -> None:
    taken = side_by_side(places, 31, shuffle=False)
    list(islice(taken, 12))
    state = taken.state_dict()
    with pytest.raises(StateMismatchError, match="of dataset 0 does not fit: `shuffle` is False"):
        side_by_side(places, 31).load_state_dict(state)
    with pytest.raises(StateMismatchError, match="of dataset 0 does not fit: `dataset` is"):
        side_by_side([places[1], places[0], places[2]], 31, shuffle=False).load_state_dict(state)
    with pytest.raises(StateMismatchError, match="has 3 datasets side by side, here are 2"):
        side_by_side(places[:2], 31, force_override_state_dict=True).load_state_dict(state)
    forced = side_by_side(places, 31, force_override_state_dict=True)
    forced.load_state_dict(state)
    assert "of dataset 2: `shuffle` is False in the state and True here" in caplog.text
    assert list(forced) == expected(places, 1, 31)[12:]
    members = [StreamingDataset(place) for place in places]
    for other in (CombinedStreamingDataset(members), members[0]):
        with pytest.raises(StateMismatchError):
            side_by_side(places).load_state_dict(other.state_dict())
        with pytest.raises(StateMismatchError):
            other.load_state_dict(state)
    assert taken.state_dict() == state


# ---- everything at once


@settings(max_examples=40)
@given(st.data())
def test_ranks_workers_and_a_split_deliver_every_tuple_once(places: list[Path], data: Any) -> None:
    length = data.draw(st.none() | st.integers(1, 90), label="length")
    resume = data.draw(st.booleans(), label="resume")
    shuffle = data.draw(st.sampled_from([False, True, "full"]), label="shuffle")
    epoch = data.draw(st.integers(1, 50), label="epoch")
    worlds = data.draw(st.tuples(st.integers(1, 16), st.integers(1, 16)), label="worlds")
    workers = data.draw(st.integers(1, 3), label="workers")
    taken = data.draw(st.integers(0, 90 // worlds[0]), label="samples of each rank before")

    def make() -> ParallelStreamingDataset:
        made = side_by_side(places, length, shuffle, resume=resume, drop_last=False)
        made.set_epoch(epoch)
        return made

    whole = expected(places, epoch, length, shuffle, resume=resume)
    delivered, states = [], []
    with pytest.MonkeyPatch.context() as patch:
        for rank in range(worlds[0]):
            patch.setattr(environment, "detect", lambda r=rank: environment.World(r, worlds[0]))
            delivered += islice(dataset := make(), taken)
            states.append(through_json(dataset.state_dict()))
        assert all(state == states[0] for state in states)
        for rank, worker in product(range(worlds[1]), range(workers)):
            world = environment.World(rank, worlds[1], worker, workers)
            patch.setattr(environment, "detect", lambda w=world: w)
            dataset = make()
            dataset.load_state_dict(states[0])
            delivered += [] if dataset.current_epoch != epoch else list(dataset)
    assert sorted(delivered) == sorted(whole)
