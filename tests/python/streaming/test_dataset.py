# SPDX-License-Identifier: Apache-2.0
"""StreamingDataset: samples by number, subsets, transforms, plain iteration."""

from __future__ import annotations

import operator
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from datasets import write_dataset
from stoker import StreamingDataset
from stoker.exceptions import InvalidArgumentError, StateMismatchError, UnsupportedDataError
from stoker.streaming import Dir, PyTreeLoader
from stoker.streaming.item_loader import BaseItemLoader, Interval

N = 23


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset") / "d", range(N))


def test_indexing_is_that_of_a_list(place: Path) -> None:
    dataset, numbers = StreamingDataset(place), list(range(N))
    assert len(dataset) == N
    for i in (*range(-N, N), np.int64(3), np.uint8(2), np.int32(-1)):
        assert dataset[i] == numbers[i]
    for part in (
        slice(None),
        slice(2, 5),
        slice(-3, None),
        slice(None, None, -4),
        slice(50, 60),
        slice(5, 2),
    ):
        assert dataset[part] == numbers[part]
    for i in (N, -N - 1, 10**30, -(10**30)):
        with pytest.raises(IndexError):
            dataset[i]
    for wrong in ("1", 1.0, [1, 2], None, True, (1,)):
        with pytest.raises(TypeError):
            dataset[wrong]


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.slices(N))
def test_slices(place: Path, part: slice) -> None:
    assert StreamingDataset(place)[part] == list(range(N))[part]


def test_transforms_apply_left_to_right_however_a_sample_is_read(place: Path) -> None:
    dataset = StreamingDataset(place, transform=[lambda x: x + 1, lambda x: x * 10])
    assert dataset[0] == 10
    assert dataset[1:3] == [20, 30]
    assert next(iter(dataset)) == 10
    assert list(DataLoader(dataset, batch_size=None, num_workers=1)) == [
        10 * (i + 1) for i in range(N)
    ]
    for wrong in (3, "len", [len, 3]):
        with pytest.raises(ValueError, match="transform"):
            StreamingDataset(place, transform=wrong)  # type: ignore[arg-type]


def test_a_transform_that_raises_keeps_its_exception(place: Path) -> None:
    dataset = StreamingDataset(place, transform=lambda x: 1 // (x - 2))
    with pytest.raises(ZeroDivisionError):
        dataset[2]
    with pytest.raises(ZeroDivisionError):
        list(dataset)


@pytest.mark.parametrize(
    "arguments",
    [
        {"shuffle": 1},
        {"seed": -1},
        {"seed": 1.5},
        {"seed": 2**63},
        {"drop_last": 0},
        {"subsample": 0.0},
        {"subsample": -1.0},
        {"subsample": "half"},
        {"subsample": float("nan")},
    ],
)
def test_arguments_that_cannot_work(place: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
        StreamingDataset(place, **arguments)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ("ftp://x/y", InvalidArgumentError),
        ("s3://bucket/x", UnsupportedDataError),
        (3, InvalidArgumentError),
        (None, InvalidArgumentError),
        (Dir(url="s3://b"), UnsupportedDataError),
    ],
)
def test_places_that_cannot_work(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        StreamingDataset(wrong)


def test_places(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.parent)
    monkeypatch.setenv("HOME", str(place.parent))
    for same in (place, str(place), "d", "./d", "~/d", Dir(path=str(place))):
        assert StreamingDataset(same)[1] == 1


def test_shuffle_is_a_new_order_of_everything_each_epoch(place: Path) -> None:
    dataset = StreamingDataset(place, shuffle=True)
    epochs = [list(dataset) for _ in range(4)]
    assert all(sorted(e) == list(range(N)) for e in epochs)
    assert len({tuple(e) for e in [*epochs, list(range(N))]}) == 5
    again = StreamingDataset(place, shuffle=True)
    assert [list(again) for _ in range(4)] == epochs
    again.set_epoch(2)
    assert list(again) == epochs[1]
    assert again.current_epoch == 3
    assert list(StreamingDataset(place, shuffle=True, seed=43)) != epochs[0]
    assert list(StreamingDataset(place)) == list(range(N))


PINNED: list[tuple[dict[str, Any], list[str]]] = [
    ({}, [
        "3 13 28 23 8 26 16 36 2 33 29 7 9 31 24 39 0 12 14 22 30 27 25 21 11 32 5 15 35 18 17 38 10 1 4 6 34 19 20 37",
        "11 1 4 15 30 31 17 37 10 33 14 6 8 26 24 38 2 32 5 23 35 27 25 21 3 13 28 7 9 18 20 39 0 12 29 22 34 19 16 36",
    ]),
    ({"num_canonical_nodes": 2}, [
        "15 35 14 9 5 34 32 8 10 19 33 26 11 18 1 25 0 24 4 27 3 39 2 38 28 31 22 37 13 17 29 16 23 30 12 21 6 36 7 20",
        "33 8 32 31 0 30 28 9 22 26 1 24 4 18 23 19 5 36 29 27 11 37 6 25 2 39 7 16 13 34 12 17 10 21 3 35 14 38 15 20",
    ]),
    ({"shuffle": "full"}, [
        "6 21 39 24 18 10 27 28 25 34 14 15 37 26 22 29 35 33 30 2 16 1 0 31 36 20 5 4 23 38 12 8 13 7 17 11 32 9 19 3",
        "38 8 30 26 7 18 2 14 24 4 15 37 33 32 36 21 23 34 3 9 1 11 22 28 10 27 12 19 25 17 31 35 39 16 20 13 6 29 0 5",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("options", "orders"), PINNED)
def test_the_order_is_pinned(tmp_path: Path, options: dict[str, Any], orders: list[str]) -> None:
    """These numbers are a promise: checkpoints of running jobs depend on them. A change needs a new ORDER_VERSION."""
    place = write_dataset(tmp_path / "d", range(40), chunk_size=2)
    dataset = StreamingDataset(place, **{"shuffle": True, "seed": 7, **options})
    assert [" ".join(map(str, dataset)) for _ in orders] == orders


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.5, 1.0, 1, 1.5, 2.0, 3.2])
@pytest.mark.parametrize("shuffle", [False, True])
def test_subsample(place: Path, fraction: float, shuffle: bool) -> None:
    wanted = int(N * fraction)
    if wanted == 0:
        with pytest.warns(UserWarning, match="leaves none"):
            assert list(StreamingDataset(place, subsample=fraction, shuffle=shuffle)) == []
        return
    dataset = StreamingDataset(place, subsample=fraction, shuffle=shuffle)
    assert len(dataset) == wanted
    samples = list(dataset)
    assert sorted(samples) == sorted(dataset[:])
    counts = [samples.count(i) for i in range(N)]
    assert sum(counts) == wanted
    assert max(counts) - min(counts) <= 1
    if not shuffle:
        assert samples == (list(range(N)) * 4)[:wanted]
        assert dataset[-1] == samples[-1]
    with pytest.raises(IndexError):
        dataset[wanted]


@pytest.mark.filterwarnings("ignore:torch.s DataLoader starts every epoch")
def test_datasets_travel_to_other_processes(place: Path) -> None:
    dataset = StreamingDataset(place, shuffle=True, transform=operator.neg)
    list(dataset)
    copy = pickle.loads(pickle.dumps(dataset))
    assert copy[5] == -5
    assert list(copy) == list(dataset)
    for method in ("fork", "spawn", "forkserver"):
        loader = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context=method)
        assert sorted(loader) == [-i for i in reversed(range(N))]


def test_iterating_twice_at_once(place: Path) -> None:
    dataset = StreamingDataset(place)
    assert list(zip(dataset, dataset, strict=True)) == [(i, i) for i in range(N)]


def test_state_of_a_plain_iteration(place: Path) -> None:
    whole = StreamingDataset(place, shuffle=True)
    epochs = [list(whole), list(whole)]
    for stop in (0, 1, 7, N - 1, N):
        dataset = StreamingDataset(place, shuffle=True)
        iterator = iter(dataset)
        before = [next(iterator) for _ in range(stop)]
        state = dataset.state_dict()
        resumed = StreamingDataset(place, shuffle=True)
        resumed.load_state_dict(state)
        after = list(resumed)
        assert before + after == epochs[0] if stop < N else after == epochs[1]
        assert list(resumed) == (epochs[1] if stop < N else list(whole))
        whole.set_epoch(3)


def test_a_state_that_does_not_fit_is_refused(
    place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = StreamingDataset(place, shuffle=True).state_dict()
    other = write_dataset(tmp_path / "other", range(N + 1))
    for dataset, word in (
        (StreamingDataset(place, shuffle=True, seed=1), "`seed` is 42 in the state and 1 here"),
        (StreamingDataset(place), "shuffle"),
        (StreamingDataset(place, shuffle=True, subsample=0.5), "subsample"),
        (StreamingDataset(other, shuffle=True), "dataset"),
    ):
        with pytest.raises(StateMismatchError, match=word):
            dataset.load_state_dict(state)
    forced = StreamingDataset(place, shuffle=True, seed=1, force_override_state_dict=True)
    forced.load_state_dict(state)
    assert "seed" in caplog.text
    for wrong in (
        {},
        None,
        {"state_version": 0},
        {**state, "position": -1},
        {**state, "position": N + 1},
        {**state, "epoch": "1"},
        {"state_version": 1},
    ):
        with pytest.raises(StateMismatchError):
            StreamingDataset(place, shuffle=True).load_state_dict(wrong)  # type: ignore[arg-type]


class EveryOther(BaseItemLoader):
    """A user's loader: keeps the number of the sample and doubles it on reading."""

    def generate_intervals(self) -> list[Interval]:
        loader = PyTreeLoader()
        loader.setup(self._config, self._chunks, self._serializers, self._region_of_interest)
        return loader.generate_intervals()

    def pre_load_chunk(self, chunk_index: int, chunk_filepath: str) -> None:
        assert Path(chunk_filepath).exists()

    def load_item_from_chunk(
        self, index: int, chunk_index: int, chunk_filepath: str, begin: int, filesize_bytes: int
    ) -> Any:
        data = Path(chunk_filepath).read_bytes()
        assert len(data) == filesize_bytes
        start, end = np.frombuffer(data, "<u4", 2, 4 + 4 * (index - begin))
        return 2 * int(data[start:end])

    def delete(self, chunk_index: int, chunk_filepath: str) -> None:
        """Nothing is open."""

    def encode_data(
        self, data: list[bytes], sizes: list[int], flattened: list[Any]
    ) -> tuple[bytes, int | None]:
        return str(flattened[0]).encode(), None


def test_a_user_item_loader(tmp_path: Path) -> None:
    directory = write_dataset(tmp_path / "d", range(12), item_loader=EveryOther())
    dataset = StreamingDataset(directory, item_loader=EveryOther(), shuffle=True)
    assert dataset[-1] == 22
    assert sorted(dataset) == list(range(0, 24, 2))
    with pytest.raises(IndexError):
        dataset[12]
    dataset.close()


def test_the_loaders_own_methods_agree_with_the_fast_path(tmp_path: Path) -> None:
    samples = [{"a": i, "b": np.arange(i)} for i in range(12)]
    directory = write_dataset(tmp_path / "d", samples)
    dataset = StreamingDataset(directory)
    loader = PyTreeLoader()
    chunks = [{"chunk_size": n, "chunk_bytes": 0} for n in dataset.index.columns.chunk_size]
    from stoker.streaming.serializers import default_serializers

    loader.setup(dataset.index.config, chunks, default_serializers())
    assert loader.generate_intervals() == [
        Interval(0, 0, 5, 5),
        Interval(5, 5, 10, 10),
        Interval(10, 10, 12, 12),
    ]
    got = loader.load_item_from_chunk(7, 1, str(directory / "chunk-0-1.bin"), 5, 0)
    assert got["a"] == 7
    assert got["b"].tolist() == list(range(7))
