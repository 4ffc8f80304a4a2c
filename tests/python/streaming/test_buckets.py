# SPDX-License-Identifier: Apache-2.0
"""StreamingDataLoader(bucket_by=...): batches of one bucket, equal steps, exact resume."""

from __future__ import annotations

import math
import pickle
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets import write_dataset
from mixtures import mix, through_json
from stoker import StreamingDataLoader, StreamingDataset
from stoker.exceptions import CorruptDataError, InvalidArgumentError, StateMismatchError
from worlds import as_rank

N = 101
BOUNDARIES = [10, 25, 40]
SIZES = [10, 15, 15, 61]  # of the buckets that they make of 0..100
BACKENDS = pytest.mark.parametrize("backend", ["torch", "auto"])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("numbers") / "data", range(N), chunk_size=7)


def itself(sample: Any) -> Any:
    return sample


def thirds(sample: Any) -> str:
    return "abc"[int(sample) % 3]


def bucket(sample: int) -> int:
    return sum(sample >= boundary for boundary in BOUNDARIES)


def make(place: Path, batch_size: int = 4, **options: Any) -> StreamingDataLoader:
    shuffle = options.pop("shuffle", True)
    dataset = StreamingDataset(place, shuffle=shuffle, drop_last=options.pop("drop_last", False))
    options = {"bucket_by": itself, "bucket_boundaries": BOUNDARIES, **options}
    return StreamingDataLoader(dataset, batch_size=batch_size, **options)


def lists(batches: Iterable[Any], count: int | None = None) -> list[list[int]]:
    """Return the batches, without what fills them up."""
    return [
        batch[0][batch[1]].tolist() if isinstance(batch, list | tuple) else batch.tolist()
        for batch in islice(batches, count)
    ]


def expected(place: Path, size: int, epoch: int = 1, shuffle: Any = True) -> list[list[int]]:
    """Global batches by the rule, one sample at a time."""
    dataset = StreamingDataset(place, shuffle=shuffle)
    dataset.set_epoch(epoch)
    waiting: dict[int, list[int]] = defaultdict(list)
    out = []
    for sample in dataset:
        mine = waiting[bucket(sample)]
        mine.append(sample)
        if len(mine) == size:
            out.append(waiting.pop(bucket(sample)))
    return out + [waiting[number] for number in sorted(waiting) if waiting[number]]


@pytest.mark.parametrize("shuffle", [False, True, "full"])
@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (3, True)])
@BACKENDS
def test_a_bucket_gives_a_batch_as_soon_as_it_holds_one(
    place: Path, backend: Any, workers: int, persistent: bool, shuffle: Any
) -> None:
    options = {"num_workers": workers, "persistent_workers": persistent, "backend": backend}
    loader = make(place, shuffle=shuffle, **options)
    for epoch in (1, 2):
        batches = lists(loader)
        assert batches == expected(place, 4, epoch, shuffle)
        assert all(len({bucket(sample) for sample in batch}) == 1 for batch in batches)
        assert sorted(sample for batch in batches for sample in batch) == list(range(N))
        assert len(loader) == len(batches) == sum(math.ceil(size / 4) for size in SIZES)
        assert loader.state_dict() == loader.dataset.progress(epoch, N).to_state()


def test_the_native_backend_makes_them(place: Path) -> None:
    assert make(place).explain().startswith("native")


def test_without_boundaries_each_key_is_a_bucket(place: Path) -> None:
    batches = lists(make(place, bucket_by=thirds, bucket_boundaries=None))
    assert all(len({sample % 3 for sample in batch}) == 1 for batch in batches)
    assert [len(batch) for batch in batches[-3:]] == [2, 2, 1], "34, 34 and 33 samples"
    assert [batch[0] % 3 for batch in batches[-3:]] == [0, 1, 2], "by first appearance in the data"
    assert sorted(sample for batch in batches for sample in batch) == list(range(N))


@pytest.mark.parametrize("world", [1, 2, 3, 4])
@pytest.mark.parametrize("drop_last", [True, False])
@BACKENDS
def test_all_ranks_get_their_part_of_each_global_batch(
    place: Path, monkeypatch: pytest.MonkeyPatch, backend: Any, drop_last: bool, world: int
) -> None:
    whole = [b for b in expected(place, 4 * world) if len(b) == 4 * world or not drop_last]
    parts: list[list[list[int]]] = []
    states = []
    for rank in range(world):
        as_rank(monkeypatch, rank, world)
        pad = None if drop_last else "mask"
        loader = make(place, drop_last=drop_last, backend=backend, num_workers=2, pad=pad)
        parts.append(lists(loader))
        assert len(parts[-1]) == len(loader)
        states.append(loader.state_dict())
        assert loader.order(1) == [sample for batch in whole for sample in batch]
    assert states == [states[0]] * world
    full = sum(len(batch) == 4 * world for batch in whole)
    for step in range(full):
        assert [s for part in parts for s in part[step]] == whole[step]
    delivered = sorted(s for part in parts for batch in part for s in batch)
    assert delivered == sorted(s for batch in whole for s in batch)
    if drop_last:
        assert {len(part) for part in parts} == {full}


@BACKENDS
def test_padding_gives_all_ranks_as_many_full_batches(
    place: Path, monkeypatch: pytest.MonkeyPatch, backend: Any
) -> None:
    valid: list[int] = []
    steps = set()
    for rank in range(3):
        as_rank(monkeypatch, rank, 3)
        loader = make(place, pad="mask", backend=backend)
        batches = list(loader)
        steps.add(len(batches))
        for numbers, mask in batches:
            assert len(numbers) == len(mask) == 4
            assert len({bucket(sample) for sample in numbers.tolist()}) == 1
            valid += numbers[mask].tolist()
    assert sorted(valid) == list(range(N))
    assert steps == {sum(math.ceil(size / 12) for size in SIZES)}


@pytest.mark.parametrize("taken", [0, 1, 5, 21, 24, 25, 27])
@BACKENDS
def test_resumes_exactly(place: Path, backend: Any, taken: int) -> None:
    whole = make(place, backend=backend)
    first, second = lists(whole), lists(whole)
    loader = make(place, backend=backend)
    delivered = lists(loader, taken)
    state = through_json(loader.state_dict())
    assert len(str(state)) < 600
    other = make(place, backend=backend, num_workers=2)
    other.load_state_dict(state)
    if taken == len(first):
        assert other.state_dict() == loader.dataset.progress(2, 0).to_state()
    else:
        assert other.state_dict() == state
        other.load_state_dict(through_json(other.state_dict()))
        delivered += lists(other)
    assert delivered == first
    assert lists(other) == second


@settings(max_examples=60, deadline=None)
@given(
    cuts=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(0, 9)), max_size=4),
    drop_last=st.booleans(),
)
def test_batch_size_and_world_may_change_on_the_way(
    place: Path, cuts: list[tuple[int, int, int]], drop_last: bool
) -> None:
    delivered: list[int] = []
    state: dict[str, Any] | None = None
    with pytest.MonkeyPatch.context() as patch:
        for size, world, taken in [*cuts, (3, 2, N)]:
            states = []
            for rank in range(world):
                as_rank(patch, rank, world)
                pad = None if drop_last else "mask"
                loader = make(place, size, drop_last=drop_last, backend="torch", pad=pad)
                if state is not None:
                    loader.load_state_dict(state)
                    if loader.state_dict()["epoch"] == 2:
                        continue
                batches = lists(loader, taken) if _has_batches(loader) else []
                assert all(len({bucket(s) for s in batch}) <= 1 for batch in batches)
                delivered += [s for batch in batches for s in batch]
                states.append(through_json(loader.state_dict()))
            if states:
                assert states == [states[0]] * world
                state = states[0]
    assert len(set(delivered)) == len(delivered)
    if not drop_last and (state is None or state["epoch"] == 1):
        assert sorted(delivered) == list(range(N))


def _has_batches(loader: StreamingDataLoader) -> bool:
    return loader.state_dict()["position"] > 0 or len(loader) > 0


def test_every_sample_of_a_bucket_comes_in_the_order_of_the_epoch(place: Path) -> None:
    order = list(StreamingDataset(place, shuffle=True))
    loader, delivered = make(place, 3), []
    delivered += lists(loader, 9)
    for size, count in ((7, 2), (2, 4), (50, None)):
        state = through_json(loader.state_dict())
        loader = make(place, size)
        loader.load_state_dict(state)
        delivered += lists(loader, count)
    assert [history[0] for history in state["buckets"]["history"]] == [3, 7, 2]
    flat = [sample for batch in delivered for sample in batch]
    for number in range(4):
        mine = [sample for sample in flat if bucket(sample) == number]
        assert mine == [sample for sample in order if bucket(sample) == number]


def test_epochs_of_subsets_filters_and_repeats(place: Path) -> None:
    whole = StreamingDataset(place, shuffle=True)
    for dataset, counts in (
        (whole.subset(range(5, 60)), Counter(range(5, 60))),
        (whole.subset([7, 7, 50, 3, 8, 9]), Counter([7, 7, 50, 3, 8, 9])),
        (StreamingDataset(place, filter=_is_odd), Counter(range(1, N, 2))),
        (StreamingDataset(place, subsample=2.0), Counter([*range(N)] * 2)),
    ):
        loader = StreamingDataLoader(
            dataset, batch_size=2, bucket_by=itself, bucket_boundaries=BOUNDARIES
        )
        batches = lists(loader)
        assert Counter(s for batch in batches for s in batch) == counts
        assert all(len({bucket(s) for s in batch}) == 1 for batch in batches)
        assert len(loader) == len(batches)


def _is_odd(sample: int) -> bool:
    return sample % 2 == 1


def test_a_leaf_may_be_the_key_and_transforms_come_later(tmp_path: Path) -> None:
    samples = ({"n": n, "deep": {"size": n % 5}} for n in range(40))
    place = write_dataset(tmp_path / "data", samples, chunk_size=6)
    dataset = StreamingDataset(place, transform=lambda sample: {"n": sample["n"] * 2})
    loader = StreamingDataLoader(dataset, batch_size=4, bucket_by={("deep", "size"): itself})
    batches = [batch["n"].tolist() for batch in loader]
    assert all(len({n // 2 % 5 for n in batch}) == 1 for batch in batches)
    assert sorted(n for batch in batches for n in batch) == list(range(0, 80, 2))


# ---- the cache


def test_answers_are_kept_in_a_file(place: Path, tmp_path: Path) -> None:
    asked: list[int] = []

    def ask(sample: int) -> int:
        asked.append(sample)
        return sample

    options = {"bucket_by": ask, "bucket_cache": tmp_path / "buckets"}
    first = lists(make(place, **options))
    assert asked == list(range(N)), "once about each, in the order of the data"
    assert lists(make(place, **options)) == first
    assert len(asked) == N
    make(place, **{**options, "bucket_boundaries": [50]}).explain()
    assert len(make(place, **{**options, "bucket_boundaries": [50]})) == 26
    assert len(asked) == 2 * N, "other boundaries are another question"
    data = bytearray((tmp_path / "buckets").read_bytes())
    data[-1] ^= 1
    (tmp_path / "buckets").write_bytes(data)
    with pytest.raises(CorruptDataError, match=r"bucket_cache=.*checksum"):
        lists(make(place, **{**options, "bucket_boundaries": [50]}))


# ---- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bucket_by": 3}, "bucket_by must be a callable"),
        ({"bucket_by": {}}, "bucket_by must be a callable"),
        ({"bucket_by": {"a": itself, "b": itself}}, "dict of one key"),
        ({"bucket_by": {"nothing": itself}}, "no leaf 'nothing'"),
        ({"bucket_by": None}, "need bucket_by"),
        ({"bucket_boundaries": []}, "bucket_boundaries"),
        ({"bucket_boundaries": [3, 3]}, "larger than the one before"),
        ({"bucket_boundaries": [3, math.nan]}, "must be numbers"),
        ({"bucket_boundaries": "abc"}, "must be numbers"),
        ({"bucket_boundaries": [10**400, 1]}, "larger than the one before"),
        ({"bucket_cache": 1}, "path of a file"),
        ({"bucket_boundaries": 7}, "must be numbers"),
        ({"bucket_cache": "/nowhere/at/all"}, "existing folder"),
        ({"batch_size": None}, "give a batch_size"),
    ],
    ids=str,
)
def test_arguments_that_cannot_work(place: Path, options: dict[str, Any], message: str) -> None:
    options = {"batch_size": 4, **options}
    with pytest.raises(InvalidArgumentError, match=message):
        make(place, **options)


@pytest.mark.parametrize("answer", [None, [1], math.nan, {}, (math.nan,), object()], ids=str)
@pytest.mark.parametrize("boundaries", [None, [1, 2]])
def test_keys_that_are_none(place: Path, answer: Any, boundaries: Any) -> None:
    loader = make(place, bucket_by=lambda _: answer, bucket_boundaries=boundaries)
    with pytest.raises(InvalidArgumentError, match="for sample 0"):
        next(iter(loader))


def test_a_failing_function_names_its_sample(place: Path) -> None:
    def fail(sample: int) -> int:
        return 1 // (sample - 30)

    with pytest.raises(ZeroDivisionError) as raised:
        len(make(place, bucket_by=fail))
    assert "(bucket_by, sample 30 of the dataset in" in raised.value.__notes__[0]


def test_other_datasets_have_no_buckets(place: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="bucket_by takes a StreamingDataset"):
        StreamingDataLoader(mix([place]), batch_size=4, bucket_by=itself)


def test_no_rank_misses_a_batch(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_rank(monkeypatch, 0, 4)
    with pytest.raises(InvalidArgumentError, match=r"of the 2 samples .* 4 ranks .*pad='mask'"):
        iter(make(place, 2))  # 10 = 8 + 2


def test_buckets_that_are_all_too_small(place: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="None of the buckets of the 101 samples"):
        next(iter(make(place, 62, drop_last=True)))


def test_states_of_others_are_refused(place: Path) -> None:
    loader = make(place)
    lists(loader, 5)
    state = loader.state_dict()
    plain = StreamingDataLoader(StreamingDataset(place, shuffle=True), batch_size=4)
    for thing in (plain, plain.dataset):
        with pytest.raises(StateMismatchError, match="counted in buckets"):
            thing.load_state_dict(state)
    lists(plain, 5)
    with pytest.raises(StateMismatchError, match="taken without bucket_by"):
        make(place).load_state_dict(plain.state_dict())
    with pytest.raises(StateMismatchError, match="counted in other buckets"):
        make(place, bucket_boundaries=[50]).load_state_dict(state)
    other = make(place)
    other.dataset.load_state_dict({k: v for k, v in state.items() if k != "buckets"})
    with pytest.raises(StateMismatchError, match="position is 20"):
        iter(other)


@pytest.mark.parametrize(
    "change",
    [
        {"position": 24},
        {"buckets": None},
        {"buckets": {"keys": "x", "history": [[4, 5]]}},
        {"history": [[4, 6]]},
        {"history": [[4, 4]]},
        {"history": [[5, 5]]},
        {"history": [[4, True]]},
        {"history": [[4, -5]]},
        {"history": [[4]]},
        {"history": "45"},
        {"history": [["4", 5]]},
    ],
    ids=str,
)
def test_altered_states_change_nothing(place: Path, change: dict[str, Any]) -> None:
    loader = make(place)
    whole = lists(loader)
    loader.set_epoch(1)
    lists(loader, 5)
    state = through_json(loader.state_dict())
    if "history" in change:
        change = {"buckets": {"keys": state["buckets"]["keys"], **change}}
    loader = make(place)
    with pytest.raises(StateMismatchError):
        loader.load_state_dict({**state, **change})
    assert lists(loader) == whole


def test_a_loader_travels_with_its_answers(place: Path) -> None:
    loader = make(place)
    first = lists(loader)
    loader.set_epoch(1)
    lists(loader, 4)
    other = pickle.loads(pickle.dumps(loader))
    other.load_state_dict(loader.state_dict())
    assert lists(other) == first[4:]
