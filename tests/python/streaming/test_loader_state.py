# SPDX-License-Identifier: Apache-2.0
"""Options and states of several iterations and loaders never mix."""

from __future__ import annotations

import multiprocessing
import pickle
import resource
import signal
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

from datasets import write_dataset
from stoker import CombinedStreamingDataset, StreamingDataLoader, StreamingDataset
from stoker.exceptions import ClosedError, InvalidArgumentError, StateMismatchError

N = 103
BACKENDS = pytest.mark.parametrize("backend", ["native", "torch"])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("numbers") / "d", range(N), chunk_size=10)


def numbers(batches: Any) -> list[int]:
    return [int(number) for batch in batches for number in batch]


def test_a_second_loader_is_not_touched_by_the_workers_of_the_first(place: Path) -> None:
    dataset = StreamingDataset(place, shuffle=True)
    options: dict[str, Any] = {"batch_size": 4, "backend": "torch"}
    first = StreamingDataLoader(dataset, num_workers=1, persistent_workers=True, **options)
    epochs = [numbers(first) for _ in range(3)]
    second = StreamingDataLoader(dataset, **options)
    assert [numbers(second) for _ in range(2)] == epochs[:2]
    second.load_state_dict(dataset.progress(2, 20).to_state())
    assert numbers(second) == epochs[1][20:]
    assert numbers(first) != epochs[2]  # the fourth epoch


def test_options_reach_workers_that_live_on(place: Path) -> None:
    loader = StreamingDataLoader(
        StreamingDataset(place),
        batch_size=4,
        num_workers=2,
        persistent_workers=True,
        backend="torch",
    )
    assert numbers(loader) == list(range(N))
    loader.dataset.set_shuffle(True)
    shuffled = numbers(loader)
    assert shuffled != list(range(N))
    assert sorted(shuffled) == list(range(N))
    assert loader.state_dict()["shuffle"] is True
    loader.dataset.set_drop_last(True)
    assert len(numbers(loader)) == len(loader) * 4 == 100


@BACKENDS
def test_options_set_while_an_epoch_runs_belong_to_the_next(place: Path, backend: Any) -> None:
    loader = StreamingDataLoader(StreamingDataset(place), batch_size=4, backend=backend)
    running = iter(loader)
    loader.dataset.set_shuffle(True)
    assert numbers([next(running)]) == [0, 1, 2, 3]
    state = loader.state_dict()
    assert (state["shuffle"], state["position"]) == (False, 4)
    assert numbers(running) == list(range(4, N))
    fresh = StreamingDataLoader(StreamingDataset(place), batch_size=4, backend=backend)
    fresh.load_state_dict(state)
    assert numbers(fresh) == list(range(4, N))
    assert numbers(loader) != list(range(N))


@BACKENDS
def test_an_abandoned_iteration_does_not_move_the_state(place: Path, backend: Any) -> None:
    loader = StreamingDataLoader(StreamingDataset(place), batch_size=7, backend=backend)
    old = iter(loader)
    next(old)
    new = iter(loader)
    next(new)
    for _ in range(3):
        next(old)
    assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (2, 7)
    assert numbers(new) == list(range(7, N))


@BACKENDS
def test_all_ranks_resume_in_the_same_epoch(
    place: Path, monkeypatch: pytest.MonkeyPatch, backend: Any
) -> None:
    delivered = []
    for rank in range(4):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "4")
        dataset = StreamingDataset(place, drop_last=False)
        loader = StreamingDataLoader(dataset, batch_size=1, backend=backend)
        loader.load_state_dict(dataset.progress(1, 100).to_state())
        delivered += numbers(loader)
        assert (loader.current_epoch, loader.state_dict()["position"]) == (1, N)
    assert sorted(delivered) == [100, 101, 102]


def test_a_plain_dataset_at_the_end_of_an_epoch_goes_on_with_the_next(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    dataset = StreamingDataset(place)
    first = list(dataset)
    state = dataset.state_dict()
    again = StreamingDataset(place)
    again.load_state_dict(state)
    assert again.current_epoch == 2
    assert list(again) == first


def test_batches_out_of_order_are_refused(place: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="in_order"):
        StreamingDataLoader(StreamingDataset(place), in_order=False)


def test_a_plain_dataloader_over_a_resumed_dataset_warns(place: Path) -> None:
    dataset = StreamingDataset(place)
    dataset.load_state_dict(dataset.progress(1, 40).to_state())
    loader: DataLoader[Any] = DataLoader(dataset, num_workers=1, worker_init_fn=_warnings_as_errors)
    with pytest.raises(UserWarning, match="Use StreamingDataLoader"):
        list(loader)


def _warnings_as_errors(_worker: int) -> None:
    import warnings

    warnings.simplefilter("error")


def test_seeds_above_32_bits_and_round_parts(place: Path) -> None:
    big = StreamingDataset(place, shuffle=True, seed=1 << 40, subsample=0.5)
    assert len(big) == N // 2
    other = StreamingDataset(place, shuffle=True, seed=(1 << 40) + 1, subsample=0.5)
    assert set(big) != set(other)
    assert len(StreamingDataset(place, subsample=0.29 * 100 / N)) == 29
    with pytest.raises(InvalidArgumentError, match="subsample"):
        StreamingDataset(place, subsample=1e12)


@BACKENDS
def test_a_state_loaded_into_the_dataset_reaches_the_loader(place: Path, backend: Any) -> None:
    plain = StreamingDataset(place)
    samples = iter(plain)
    for _ in range(30):
        next(samples)
    dataset = StreamingDataset(place)
    dataset.load_state_dict(plain.state_dict())
    loader = StreamingDataLoader(dataset, batch_size=4, backend=backend)
    assert loader.state_dict()["position"] == 30
    assert numbers(loader) == list(range(30, N))
    assert numbers(loader) == list(range(N))


def test_a_resumed_dataset_knows_its_position_before_the_first_sample(place: Path) -> None:
    dataset = StreamingDataset(place)
    dataset.load_state_dict(dataset.progress(1, 30).to_state())
    samples = iter(dataset)
    assert dataset.state_dict()["position"] == 30
    assert list(samples) == list(range(30, N))
    assert dataset.state_dict()["position"] == N


def test_repr_says_what_it_is(place: Path) -> None:
    assert (
        repr(StreamingDataset(place)) == f"StreamingDataset('{place}', {N} samples, shuffle=False)"
    )


@BACKENDS
def test_close_ends_an_iteration_and_keeps_its_batches(place: Path, backend: Any) -> None:
    loader = StreamingDataLoader(StreamingDataset(place), batch_size=4, backend=backend)
    loader.close()
    running = iter(loader)
    batch = next(running)
    loader.close()
    assert batch.tolist() == [0, 1, 2, 3]
    with pytest.raises(ClosedError, match="closed during this iteration"):
        next(running)
    assert loader.state_dict()["position"] == 4
    assert numbers(loader) == list(range(N))


@BACKENDS
@pytest.mark.parametrize(
    "copy",
    [lambda loader: pickle.loads(pickle.dumps(loader)), deepcopy],
    ids=["pickle", "deepcopy"],
)
def test_a_copy_of_a_loader_in_use_goes_on_where_it_is(
    place: Path, backend: Any, copy: Callable[[Any], Any]
) -> None:
    loader = StreamingDataLoader(
        StreamingDataset(place, shuffle=True), batch_size=4, backend=backend
    )
    whole = numbers(loader)
    explained = loader.explain()
    loader.set_epoch(1)
    running = iter(loader)
    first = next(running).tolist()
    other = copy(loader)
    assert other.explain() == explained
    assert other.state_dict() == loader.state_dict()
    other.load_state_dict(other.state_dict())
    assert first + numbers(other) == whole
    assert first + numbers(running) == whole


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_far_larger_than_the_dataset_take_the_memory_of_the_dataset(
    place: Path, workers: int
) -> None:
    loader = StreamingDataLoader(
        StreamingDataset(place), batch_size=8_000_000, num_workers=workers, backend="native"
    )
    grown = peak_bytes()
    assert numbers(loader) == list(range(N))
    assert peak_bytes() - grown < 32 << 20  # 64 MB per batch of 8,000,000


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("size", [1 << 24, 1 << 40])
def test_batch_sizes_beyond_the_engine_are_left_to_torch(place: Path, size: int) -> None:
    loader = StreamingDataLoader(StreamingDataset(place), batch_size=size)
    assert f"batch_size={size} is above" in loader.explain()
    assert numbers(loader) == list(range(N))
    native = StreamingDataLoader(StreamingDataset(place), batch_size=size, backend="native")
    with pytest.raises(InvalidArgumentError, match="is above"):
        iter(native)


@pytest.fixture
def armed() -> Iterator[list[bool]]:
    """SIGALRM does what Ctrl-C does, while the only element is True."""
    is_armed = [False]

    def interrupt(*_: object) -> None:
        if is_armed[0]:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield is_armed
    signal.signal(signal.SIGALRM, before)


@BACKENDS
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # struck in a weakref callback
def test_ctrl_c_leaves_a_state_of_what_was_handed_out(
    place: Path, backend: Any, armed: list[bool]
) -> None:
    loader = StreamingDataLoader(
        StreamingDataset(place), batch_size=1, num_workers=0, backend=backend
    )
    numbers(loader)
    hits = 0
    for attempt in range(300):
        loader.set_epoch(1)
        taken = 0
        signal.setitimer(signal.ITIMER_REAL, 1e-4 + attempt * 3e-6)
        try:
            armed[0] = True
            for _ in loader:
                taken += 1  # no call in this loop, so none at which the signal could strike before it counts
            armed[0] = False
        except KeyboardInterrupt:
            armed[0] = False
            hits += 1
            assert loader.state_dict()["position"] == taken
        signal.setitimer(signal.ITIMER_REAL, 0)
    assert hits > 20


# ---- several iterations, loaders and states at once


def _parts(tmp_path: Path) -> list[Path]:
    return [
        write_dataset(tmp_path / str(k), range(1000 * k, 1000 * k + 60), chunk_size=10)
        for k in range(2)
    ]


def _mixture(parts: list[Path], **options: Any) -> CombinedStreamingDataset:
    members = [StreamingDataset(part, shuffle=True) for part in parts]
    return CombinedStreamingDataset(members, weights=[1, 1], iterate_over_all=False, **options)


def test_two_loaders_of_one_dataset_go_on_each_at_its_own_place(tmp_path: Path) -> None:
    parts = _parts(tmp_path)
    first = StreamingDataLoader(_mixture(parts), batch_size=4)
    running = iter(first)
    delivered = [next(running).tolist() for _ in range(3)]
    first.set_weights([1, 3])
    delivered += [next(running).tolist() for _ in range(2)]
    state = first.state_dict()
    rest = [batch.tolist() for batch in running]
    shared = _mixture(parts)
    one, other = (StreamingDataLoader(shared, batch_size=4) for _ in range(2))
    one.load_state_dict(state)
    assert len(list(other)) > 0
    assert [batch.tolist() for batch in one] == rest


def test_an_older_iteration_does_not_move_the_next_epoch(tmp_path: Path) -> None:
    dataset = StreamingDataset(_parts(tmp_path)[0], shuffle=True)
    older = iter(dataset)
    next(older)
    dataset.set_epoch(5)
    assert len(list(older)) == 59
    assert dataset.current_epoch == 5
    older = iter(dataset)
    next(older)
    state = {**dataset.state_dict(), "epoch": 3, "position": 10}
    dataset.load_state_dict(state)
    assert len(list(older)) == 59
    assert dataset.state_dict() == state
    assert len(list(dataset)) == 50


def test_the_state_that_was_loaded_last_counts(tmp_path: Path) -> None:
    dataset = StreamingDataset(_parts(tmp_path)[0], shuffle=True)
    loader = StreamingDataLoader(dataset, batch_size=10)
    states = [loader.state_dict() for _ in loader]
    loader.load_state_dict(states[0])
    dataset.load_state_dict(states[2])
    assert loader.state_dict() == states[2]
    assert dataset.state_dict() == states[2], "to look at it does not use it up"
    assert len(list(loader)) == 3
    dataset.load_state_dict(states[2])
    loader.load_state_dict(states[0])
    assert len(list(loader)) == 5


def test_options_that_change_under_a_loaded_state_are_refused(tmp_path: Path) -> None:
    parts = _parts(tmp_path)
    for make in (lambda: StreamingDataset(parts[0], shuffle=True), lambda: _mixture(parts)):
        loader = StreamingDataLoader(make(), batch_size=4)
        next(iter(loader))
        state = loader.state_dict()
        loader.load_state_dict(state)
        loader.dataset.set_shuffle(False)
        with pytest.raises(StateMismatchError, match="of the epoch that goes on does not fit"):
            iter(loader)
    loader = StreamingDataLoader(_mixture(parts), batch_size=4)
    running = iter(loader)
    next(running)
    loader.dataset.set_shuffle(False)
    loader.set_weights([1, 9])
    with pytest.raises(StateMismatchError, match="of the epoch that goes on does not fit"):
        next(running)


def test_persistent_workers_serve_one_iteration_at_a_time(tmp_path: Path) -> None:
    loader = StreamingDataLoader(
        StreamingDataset(_parts(tmp_path)[0]), batch_size=4, num_workers=1,
        persistent_workers=True, backend="torch",
    )  # fmt: skip
    older = iter(loader)
    next(older)
    newer = iter(loader)
    with pytest.raises(ClosedError, match="Another iteration has begun"):
        next(older)
    assert [n for batch in newer for n in batch.tolist()] == list(range(60))


@pytest.mark.parametrize("kind", ["mixed", "bucketed", "padded"])
def test_a_process_forked_before_the_first_batch_gets_all(tmp_path: Path, kind: str) -> None:
    parts = _parts(tmp_path)
    options: dict[str, Any] = {
        "mixed": {},
        "bucketed": {"bucket_by": len_of},
        "padded": {"pad": "mask"},
    }[kind]
    dataset = _mixture(parts) if kind == "mixed" else StreamingDataset(parts[0], shuffle=True)

    def told(batches: Any) -> list[list[int]]:
        return [(batch[0] if kind == "padded" else batch).tolist() for batch in batches]

    loader = StreamingDataLoader(dataset, batch_size=4, backend="native", num_workers=1, **options)
    whole = told(loader)
    loader.set_epoch(1)
    running = iter(loader)
    ends = multiprocessing.get_context("fork").Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=lambda: ends[1].send(told(running)))
    child.start()
    assert ends[0].poll(60)
    assert ends[0].recv() == whole
    child.join()
    assert told(running) == whole


def len_of(sample: int) -> int:
    return len(str(sample))


def test_a_world_found_later_counts_for_persistent_workers_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = StreamingDataLoader(
        StreamingDataset(_parts(tmp_path)[0]), batch_size=6, num_workers=1,
        persistent_workers=True, backend="torch",
    )  # fmt: skip
    assert len(list(loader)) == 10
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    batches = [batch.tolist() for batch in loader]
    fresh = StreamingDataLoader(StreamingDataset(_parts(tmp_path / "b")[0]), batch_size=6)
    assert batches == [batch.tolist() for batch in fresh]
    assert len(batches) == 5


@pytest.mark.parametrize("world", [4, 7])
def test_a_state_loaded_into_the_dataset_is_judged_by_the_loader_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: int
) -> None:
    place = write_dataset(tmp_path / "d", range(30), chunk_size=4)
    loader = StreamingDataLoader(StreamingDataset(place, shuffle=True), batch_size=9)
    running = iter(loader)
    delivered = [n for _ in range(3) for n in next(running).tolist()]
    state = loader.state_dict()
    for rank in range(world):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(world))
        dataset = StreamingDataset(place, shuffle=True)
        dataset.load_state_dict(state)
        padded = StreamingDataLoader(dataset, batch_size=4, pad="mask")
        delivered += [n for batch, mask in padded for n in batch[mask].tolist()]
    assert sorted(delivered) == list(range(30))
    monkeypatch.setenv("RANK", "0")
    dataset = StreamingDataset(place, shuffle=True)
    dataset.load_state_dict(state)
    dropping = StreamingDataLoader(dataset, batch_size=4)
    assert len(list(dropping)) == len(dropping) > 0
    assert dropping.state_dict()["epoch"] == 2
    plain = StreamingDataset(place, shuffle=True)
    plain.load_state_dict(state)
    assert len(list(plain)) == 30 // world
    assert plain.state_dict()["epoch"] == 2
