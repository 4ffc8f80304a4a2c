# SPDX-License-Identifier: Apache-2.0
"""StreamingDataLoader: batches, epochs, exact resume."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasets import write_dataset
from stoker import StreamingDataLoader, StreamingDataset
from stoker.exceptions import InvalidArgumentError, StateMismatchError

N = 61


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset") / "d", range(N), chunk_size=7)


def make(
    place: Path, batch_size: int | None = 4, workers: int = 0, **options: Any
) -> StreamingDataLoader:
    return StreamingDataLoader(
        StreamingDataset(place, shuffle=True), batch_size=batch_size, num_workers=workers, **options
    )


def batches(loader: StreamingDataLoader, count: int | None = None) -> list[list[int]]:
    """Return the batches of an epoch, or its first ones (then the loop breaks)."""
    taken: list[list[int]] = []
    if count == 0:
        return taken
    for batch in loader:
        taken.append(batch.tolist())
        if len(taken) == count:
            break
    return taken


def flat(parts: list[list[int]]) -> list[int]:
    return [x for part in parts for x in part]


def test_workers_change_nothing(place: Path) -> None:
    reference = make(place)
    epochs = [batches(reference) for _ in range(3)]
    assert [len(e) for e in epochs] == [len(reference)] * 3 == [16] * 3
    assert all(sorted(flat(e)) == list(range(N)) for e in epochs)
    assert len({str(e) for e in epochs}) == 3
    for options in (
        {"workers": 1},
        {"workers": 2},
        {"workers": 3, "persistent_workers": True},
        {"workers": 2, "prefetch_factor": 5},
        {"workers": 2, "multiprocessing_context": "spawn"},
    ):
        loader = make(place, **options)
        assert [batches(loader) for _ in range(3)] == epochs


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(1, 70), st.integers(0, 20), st.integers(1, 70), st.booleans())
def test_resume_with_another_batch_size_is_exact(
    place: Path, size: int, stop: int, new_size: int, drop_last: bool
) -> None:
    if drop_last and (size > N or new_size > N):
        return
    reference = flat(batches(make(place, 1)))
    loader = make(place, size, drop_last=drop_last)
    before = batches(loader, stop)
    state = json.loads(json.dumps(loader.state_dict()))
    frozen = json.dumps(state)
    resumed = make(place, new_size, drop_last=drop_last)
    resumed.load_state_dict(state)
    after = batches(resumed)
    assert json.dumps(state) == frozen, "the caller's state is not modified"
    delivered = flat(before)
    assert delivered == reference[: len(delivered)]
    left = reference[len(delivered) :]
    owed = left[: len(left) // new_size * new_size] if drop_last else left
    if owed and not (drop_last and len(before) < stop):
        assert flat(after) == owed
    else:
        assert flat(after) == flat(batches_of_epoch(place, new_size, 2, drop_last))


def batches_of_epoch(place: Path, size: int, epoch: int, drop_last: bool) -> list[list[int]]:
    loader = make(place, size, drop_last=drop_last)
    loader.set_epoch(epoch)
    return batches(loader)


@pytest.mark.parametrize("workers", [(0, 2), (2, 0), (2, 3), (3, 1)])
def test_resume_with_other_workers_is_exact(place: Path, workers: tuple[int, int]) -> None:
    whole = make(place)
    epochs = [batches(whole), batches(whole), batches(whole)]
    loader = make(place, workers=workers[0])
    batches(loader)
    before = batches(loader, 5)
    resumed = make(place, workers=workers[1])
    resumed.load_state_dict(pickle.loads(pickle.dumps(loader.state_dict())))
    assert before + batches(resumed) == epochs[1]
    assert batches(resumed) == epochs[2], "only the resumed epoch is short"


def test_resume_of_a_resume(place: Path) -> None:
    whole = batches(make(place))
    got: list[list[int]] = []
    state = make(place).state_dict()
    for step in (3, 0, 4, 1, 100):
        loader = make(place, workers=step % 3)
        loader.load_state_dict(state)
        assert loader.state_dict() == state, "a state just loaded is the state"
        got += batches(loader, step)
        state = loader.state_dict()
    assert got == whole


def test_state_at_the_end_of_an_epoch(place: Path) -> None:
    whole = make(place)
    epochs = [batches(whole), batches(whole)]
    for workers in (0, 2):
        loader = make(place, workers=workers)
        batches(loader)
        resumed = make(place, workers=workers)
        resumed.load_state_dict(loader.state_dict())
        assert batches(resumed) == epochs[1]
        exact = make(place, workers=workers)
        batches(exact, len(exact))
        resumed.load_state_dict(exact.state_dict())
        assert batches(resumed) == epochs[1]


def test_every_iter_is_a_new_epoch_also_after_a_break(place: Path) -> None:
    whole = make(place)
    epochs = [batches(whole) for _ in range(3)]
    loader = make(place, workers=2, persistent_workers=True)
    assert batches(loader, 2) == epochs[0][:2]
    assert loader.current_epoch == 1
    assert batches(loader, 3) == epochs[1][:3]
    assert batches(loader) == epochs[2]
    loader.set_epoch(1)
    assert batches(loader) == epochs[0]


def test_prefetched_batches_are_not_counted(place: Path) -> None:
    loader = make(place, workers=2, prefetch_factor=8)
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    assert loader.state_dict()["position"] == 12


def test_an_error_in_the_middle_leaves_a_state_one_can_go_on_from(place: Path) -> None:
    bad = {"armed": True}

    def sometimes(x: int) -> int:
        if bad["armed"] and x == 17:
            msg = "seventeen"
            raise KeyError(msg)
        return x

    def loader() -> StreamingDataLoader:
        return StreamingDataLoader(StreamingDataset(place, transform=sometimes), batch_size=4)

    first = loader()
    before: list[list[int]] = []
    with pytest.raises(KeyError, match="seventeen"):
        before.extend(batch.tolist() for batch in first)
    bad["armed"] = False
    second = loader()
    second.load_state_dict(first.state_dict())
    assert flat(before) + flat(batches(second)) == list(range(N))


def test_drop_last_and_length(place: Path) -> None:
    for size in (1, 4, 7, 60, 61):
        loader = make(place, size, drop_last=True)
        got = batches(loader)
        assert len(got) == len(loader) == N // size
        assert all(len(b) == size for b in got)
    with pytest.raises(InvalidArgumentError, match="fewer than one global batch"):
        batches(make(place, 62, drop_last=True))
    assert len(batches(make(place, 62))) == 1


def test_samples_one_by_one(place: Path) -> None:
    got = [int(x) for x in make(place, None, workers=2)]
    assert got == flat(batches(make(place, 1)))


def test_ranks_share_an_epoch(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = flat(batches(make(place, 1)))
    parts: list[list[list[int]]] = []
    for rank in range(3):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "3")
        loader = make(place, 4, workers=rank)
        parts.append(batches(loader))
        assert len(loader) == len(parts[-1]) == 5
        assert loader.state_dict() == make_state(place, monkeypatch)
    for step, batches_of_step in enumerate(zip(*parts, strict=True)):
        together = [x for batch in batches_of_step for x in batch]
        assert sorted(together) == sorted(reference[step * 12 : (step + 1) * 12])


def make_state(place: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """State of rank 0 after its epoch: the same on every rank."""
    with monkeypatch.context() as patch:
        patch.setenv("RANK", "0")
        loader = make(place, 4)
        batches(loader)
        return loader.state_dict()


def test_a_state_of_another_dataset_is_refused(place: Path, tmp_path: Path) -> None:
    other = write_dataset(tmp_path / "d", range(N), chunk_size=8)
    with pytest.raises(StateMismatchError, match="dataset"):
        make(other).load_state_dict(make(place).state_dict())


def test_only_streaming_datasets(place: Path) -> None:
    with pytest.raises(RuntimeError, match="StreamingDataset"):
        StreamingDataLoader([1, 2])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shuffle"):
        make(place, shuffle=1)


def test_collate_and_pin_memory_arguments_reach_torch(place: Path) -> None:
    loader = make(place, 5, workers=2, collate_fn=sum, persistent_workers=False)
    assert sum(loader) == N * (N - 1) // 2
    stacked = next(iter(make(place, 5)))
    assert isinstance(stacked, torch.Tensor)


def test_two_loaders_over_one_dataset_do_not_disturb_each_other(place: Path) -> None:
    dataset = StreamingDataset(place, shuffle=True)
    one, two = (StreamingDataLoader(dataset, batch_size=size) for size in (3, 5))
    pairs = list(zip(one, two, strict=False))
    assert flat([a.tolist() for a, _ in pairs]) == flat(batches(make(place, 3)))[: 3 * len(pairs)]
    assert flat([b.tolist() for _, b in pairs]) == flat(batches(make(place, 5)))[: 5 * len(pairs)]
