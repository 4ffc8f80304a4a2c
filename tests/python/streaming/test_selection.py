# SPDX-License-Identifier: Apache-2.0
"""Parts of a dataset: subset, train_test_split, filter; read, shuffled, shared and resumed like any other."""

from __future__ import annotations

import itertools
import pickle
import traceback
import warnings
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from datasets import write_dataset
from golden_values import GOLDEN, PASSWORD
from pictures import jpeg, opened
from stoker import StreamingDataLoader, StreamingDataset, TokensLoader, train_test_split, vision
from stoker.encryption import FernetEncryption
from stoker.exceptions import CorruptDataError, InvalidArgumentError
from stoker.streaming.index import read_document, write_document
from stoker.streaming.serializers import Serializer

N = 103
FORMS: dict[str, Any] = {
    "slice": slice(13, 57),
    "negative slice": slice(-20, -3),
    "backwards": slice(None, None, -7),
    "range": range(5, 99, 3),
    "range back": range(50, 2, -1),
    "list": [0, 1, 2, 10, 11, 3, 102, 0],
    "tuple": (9, 10, 11),
    "repeats": [4, 4, 5, 5, 4],
    "numpy": np.array([7, 8, 90, 1], np.uint8),
    "tensor": torch.tensor([7, 8, 90, 1]),
    "empty list": [],
    "empty slice": slice(60, 40),
    "empty range": range(0),
}


def sample(i: int) -> dict[str, Any]:
    return {"id": i, "label": i % 10, "name": f"s{i}"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("selection")
    return write_dataset(root / "d", map(sample, range(N)), chunk_size=10)


def ids(samples: Any) -> list[int]:
    return [int(one["id"]) for one in samples]


def third(one: dict[str, Any]) -> bool:
    return one["label"] < 3


def below_3(label: int) -> bool:
    return label < 3


KEPT = [i for i in range(N) if i % 10 < 3]


class Calls:
    """A predicate that remembers what it was asked."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __call__(self, one: dict[str, Any]) -> bool:
        self.seen.append(one["id"])
        return third(one)


def never(_: Any) -> bool:
    raise AssertionError


# ---- subset


@pytest.mark.parametrize("form", FORMS)
def test_a_subset_is_what_a_list_would_give(place: Path, form: str) -> None:
    indices = FORMS[form]
    numbers = list(range(N))
    picked = indices.tolist() if hasattr(indices, "tolist") else indices
    expected = numbers[picked] if isinstance(picked, slice) else [numbers[i] for i in picked]
    dataset = StreamingDataset(place)
    part = dataset.subset(indices)
    assert ids(part) == ids(part[:]) == [part[k]["id"] for k in range(-len(part), 0)] == expected
    assert len(part) == part.num_samples == len(expected)
    assert part.index is dataset.index
    shuffled = StreamingDataset(place, shuffle=True).subset(indices)
    assert Counter(ids(shuffled)) == Counter(expected)
    with pytest.raises(IndexError):
        part[len(expected)]


def test_subsets_of_anything(place: Path) -> None:
    dataset = StreamingDataset(place)
    twice = dataset.subset(range(100, 0, -2)).subset([3, 1, 1]).subset(slice(None, None, -1))
    assert ids(twice) == [98, 98, 94]
    copies = StreamingDataset(place, subsample=2.5, shuffle=True)
    assert ids(copies.subset(slice(90, 220))[:]) == ids(copies[90:220])
    assert ids(copies.subset([5, 150]).subset([1])) == ids(copies[150:151])
    assert len(dataset.subset([]).subset(slice(None))) == 0


def test_a_subset_starts_afresh_and_keeps_its_samples(place: Path) -> None:
    dataset = StreamingDataset(place, subsample=0.3, shuffle=True, seed=4, transform=[third])
    list(dataset)
    part = dataset.subset(range(10))
    assert (dataset.current_epoch, part.current_epoch) == (2, 1)
    assert part[0] == dataset[0]
    plain = StreamingDataset(place, subsample=0.3, shuffle=True)
    part, before = plain.subset(range(10)), ids(plain[:10])
    part.set_shuffle(False)
    plain.set_shuffle(False)
    assert ids(part) == before != ids(plain[:10])
    first = [ids(part), ids(part)]
    part.set_shuffle(True)
    part.set_epoch(1)
    assert [ids(part), ids(part)] != first


def test_shuffled_subsets_differ_by_epoch(place: Path) -> None:
    part = StreamingDataset(place, shuffle=True).subset(range(40, 80))
    epochs = [ids(part) for _ in range(3)]
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert {tuple(sorted(epoch)) for epoch in epochs} == {tuple(range(40, 80))}


@pytest.mark.parametrize("wrong", [[-1], [N], [0, 10**30], [2**63], range(-1, 3), range(N + 1)])
def test_indices_that_are_not_there(place: Path, wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"out of range for a dataset of {N}"):
        StreamingDataset(place).subset(wrong)


@pytest.mark.parametrize(
    "wrong",
    [3, "12", None, [1.0], ["1"], [True, 2], np.ones(N, bool), [[1], [2, 3]], [[1]], {1, 2}, slice("a")],
)  # fmt: skip
def test_indices_that_are_no_ints(place: Path, wrong: Any) -> None:
    with pytest.raises(TypeError):
        StreamingDataset(place).subset(wrong)


def test_token_blocks_are_picked_too(tmp_path: Path) -> None:
    rows = [np.arange(k * 8, k * 8 + 8, dtype=np.int32) for k in range(12)]
    place = write_dataset(tmp_path / "t", rows, chunk_size=24, item_loader=TokensLoader())
    dataset = StreamingDataset(place, item_loader=TokensLoader(block_size=4))
    part = dataset.subset([5, 0, 6])
    assert [int(block[0]) for block in part] == [20, 0, 24]
    loader = StreamingDataLoader(part, batch_size=3, backend="native")
    assert next(iter(loader))[:, 0].tolist() == [20, 0, 24]
    with pytest.raises(InvalidArgumentError, match="need a dataset of PyTreeLoader"):
        StreamingDataset(place, item_loader=TokensLoader(block_size=4), filter={0: never})
    even = StreamingDataset(
        place, item_loader=TokensLoader(block_size=4), filter=lambda b: b[0] % 8 == 0
    )
    assert [int(block[0]) for block in even] == [int(b[0]) for b in dataset if b[0] % 8 == 0]


def of_many_chunks(place: Path, directory: Path, chunks: int) -> Path:
    """Return a dataset that exists in its index only."""
    document = read_document(place / "index.json")
    directory.mkdir()
    entry = document["chunks"][0]
    many = [{**entry, "filename": f"{k}.bin"} for k in range(chunks)]
    write_document(directory / "index.json", many, document["config"])
    return directory


def test_a_slice_of_many_chunks_is_a_range_per_chunk(place: Path, tmp_path: Path) -> None:
    dataset = StreamingDataset(of_many_chunks(place, tmp_path / "d", 100_000))
    part = dataset.subset(slice(15, -15)).subset(slice(10, -10))
    assert len(part) == 999_950
    assert part._own is not None
    assert len(part._own.begins) == 99_996  # 2.5 chunks are missing at each end
    assert len(pickle.dumps(part.state_dict())) < 500
    whole = dataset.subset(np.arange(1_000_000))
    assert whole._own is not None
    assert len(whole._own.begins) == 100_000
    parts = train_test_split(whole, [0.25, 0.75])
    assert [len(one) for one in parts] == [250_000, 750_000]


# ---- train_test_split


@pytest.mark.parametrize("splits", list(itertools.permutations([0.1, 0.2, 0.7])))
@pytest.mark.parametrize("shuffle", [False, True])
def test_splits_are_disjoint_and_complete(place: Path, splits: list[float], shuffle: bool) -> None:
    for n in (N, 100, 7):
        dataset = StreamingDataset(place).subset(range(n))
        with warnings.catch_warnings(action="ignore"):
            parts = [ids(one) for one in train_test_split(dataset, splits, shuffle=shuffle)]
        assert [len(one) for one in parts] == [round(part * 10) * n // 10 for part in splits]
        joined = list(itertools.chain(*parts))
        assert len(set(joined)) == len(joined) >= n - 2
        assert shuffle or joined == list(range(len(joined)))


def test_splits_follow_the_seed(place: Path) -> None:
    dataset = StreamingDataset(place, shuffle=True)

    def parts(**options: Any) -> list[list[int]]:
        return [sorted(ids(one)) for one in train_test_split(dataset, [0.5, 0.25], **options)]

    assert parts() == parts(seed=42) != parts(seed=43)
    assert parts(seed=1 << 40) != parts(seed=(1 << 40) + 1)
    # A promise, evaluations depend on it: chunks come in the order RandomState([42]).permutation(11) of numpy, which is
    # 5 2 4 8 3 9 10 6 0 7 1.
    left, right = train_test_split(dataset, [0.23, 0.17])
    assert ids(left[:]) == [*range(50, 60), *range(20, 30), 40, 41, 42]
    assert ids(right[:]) == [*range(43, 50), *range(80, 90)]


def test_chunks_of_a_filtered_dataset_stay_together(place: Path) -> None:
    dataset = StreamingDataset(place, filter={"label": below_3})
    left, right = train_test_split(dataset, [0.5, 0.5])
    found = [set(ids(part)) for part in (left, right)]
    assert [len(part) for part in found] == [len(KEPT) // 2] * 2
    assert found[0] | found[1] <= set(KEPT)
    chunks = [{i // 10 for i in part} for part in found]
    assert len(chunks[0] & chunks[1]) <= 1
    assert sorted(ids(train_test_split(left, [1.0])[0])) == sorted(ids(left))


@pytest.mark.parametrize(
    "wrong", [[], 0.5, "0.5", [1], [0, 1.0], [True], [0.5, 0.6], [-0.1], [1.5], [float("nan")], None]
)  # fmt: skip
def test_splits_that_cannot_work(place: Path, wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="splits"):
        train_test_split(StreamingDataset(place), wrong)
    with pytest.raises(ValueError, match="StreamingDataset"):
        train_test_split([1, 2], [0.5])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seed"):
        train_test_split(StreamingDataset(place), [0.5], seed=-1)


def test_an_empty_split_warns_and_is_a_dataset(place: Path) -> None:
    with pytest.warns(UserWarning, match=r"Split 1 \(0\.0\) of 103 samples holds none"):
        parts = train_test_split(StreamingDataset(place), [0.5, 0.0, 0.5])
    assert [len(one) for one in parts] == [51, 0, 51]
    assert list(StreamingDataLoader(parts[1], batch_size=4)) == []
    whole = StreamingDataset(place)
    assert sum(len(one) for one in train_test_split(whole, [0.1] * 10)) == 100


# ---- filter


@pytest.mark.parametrize("given", [third, {"label": below_3}, {("label",): below_3}])
@pytest.mark.parametrize("options", [{}, {"subsample": 0.5}, {"subsample": 2.5}], ids=str)
def test_a_filtered_dataset_is_a_smaller_one(place: Path, given: Any, options: Any) -> None:
    for shuffle in (False, True):
        base = StreamingDataset(place, shuffle=shuffle, **options)
        dataset = StreamingDataset(place, shuffle=shuffle, filter=given, **options)
        expected = [i for i in ids(base[:]) if i % 10 < 3]
        assert "not filtered yet" in repr(dataset)
        assert ids(dataset[:]) == expected
        assert f"{len(expected)} samples" in repr(dataset)
        assert Counter(ids(dataset)) == Counter(expected)
        assert dataset[-1]["id"] == dataset.subset([len(dataset) - 1])[0]["id"]


def test_each_sample_is_asked_about_once_and_before_the_transform(place: Path) -> None:
    calls = Calls()
    dataset = StreamingDataset(
        place, filter=calls, transform={"id": lambda i: -i}, subsample=2.0, shuffle=True
    )
    assert calls.seen == []
    assert len(dataset) == 2 * len(KEPT)
    assert Counter(ids(dataset)) == Counter([-i for i in KEPT] * 2)
    dataset.set_shuffle(False)
    dataset.state_dict()
    assert len(deepcopy(dataset)[:]) == 2 * len(KEPT)
    assert calls.seen == list(range(N))


def test_a_part_that_depends_on_shuffle_is_asked_about_again(place: Path) -> None:
    dataset = StreamingDataset(place, filter=third, subsample=0.4, shuffle=True)
    expected = [i for i in ids(StreamingDataset(place, subsample=0.4)[:]) if i in KEPT]
    assert ids(dataset[:]) != expected
    dataset.set_shuffle(False)
    assert ids(pickle.loads(pickle.dumps(dataset))) == expected


class Fragile(Serializer):
    """A leaf that cannot be read."""

    def can_serialize(self, item: Any) -> bool:
        return isinstance(item, bytes)

    def serialize(self, item: bytes) -> tuple[bytes, str | None]:
        return item, None

    def deserialize(self, data: bytes) -> Any:
        raise ZeroDivisionError(len(data))


def test_only_the_leaves_in_question_are_decoded(tmp_path: Path) -> None:
    serializers: Any = {"fragile": Fragile()}
    samples = [{"x": b"\0" * i, "n": [i, {"deep": f"{i}"}], "v": np.arange(i)} for i in range(20)]
    place = write_dataset(tmp_path / "d", samples, serializers=serializers)
    conditions = {
        ("n", 0): lambda i: i % 2 == 0,
        "v": lambda v: torch.tensor(len(v) > 7),
        ("n", 1, "deep"): lambda text: np.bool_(int(text) < 15),  # not asked about the others
    }
    dataset = StreamingDataset(place, serializers=serializers, filter=conditions)
    assert len(dataset) == 4
    with pytest.raises(ZeroDivisionError):
        dataset[0]
    with pytest.raises(ZeroDivisionError):
        len(StreamingDataset(place, serializers=serializers, filter=lambda _: True))


def test_pictures_come_decoded_though_the_transform_takes_files(tmp_path: Path) -> None:
    samples = [{"image": opened(jpeg(16, 16 + 8 * (i % 3), i)), "id": i} for i in range(12)]
    place = write_dataset(tmp_path / "d", samples)
    wide: Any = lambda image: image.shape == (3, 16, 32)  # noqa: E731 - used in two forms
    for given in ({"image": wide}, lambda one: wide(one["image"])):
        crop = {"image": vision.CenterCrop((8, 8))}
        dataset = StreamingDataset(place, filter=given, transform=crop)
        assert ids(dataset) == [2, 5, 8, 11]
    # The shapes of a batch are those of what was kept.
    loader = StreamingDataLoader(StreamingDataset(place, filter={"image": wide}), batch_size=4)
    assert loader.explain().startswith("native")
    assert next(iter(loader))["image"].shape == (4, 3, 16, 32)


@pytest.mark.parametrize("name", ["fernet_sample", "fernet_chunk"])
def test_encrypted_leaves(name: str) -> None:
    key = FernetEncryption.load(GOLDEN / name / "fernet.pem", PASSWORD)
    dataset = StreamingDataset(GOLDEN / name, encryption=key, filter={0: lambda i: i % 3 == 1})
    assert list(dataset) == [(1, "secret 1"), (4, "secret 4")]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "callable"),
        ({}, "callable"),
        ({"label": 3}, "callable"),
        ([third], "callable"),
        ({"lable": third}, r"no leaf 'lable' .* Leaves: 'id', 'label', 'name'"),
    ],
)
def test_filters_that_cannot_work(place: Path, given: Any, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        StreamingDataset(place, filter=given)


@pytest.mark.parametrize("answer", [None, 1, "yes", np.int64(1), np.ones(1, bool), torch.ones(2)])
def test_answers_must_be_bools(place: Path, answer: Any) -> None:
    for given in (lambda _: answer, {"id": lambda _: answer}):
        dataset = StreamingDataset(place, filter=given)
        with pytest.raises(InvalidArgumentError, match=r"must return a bool.* for sample 0"):
            len(dataset)


def test_a_filter_that_raises_keeps_its_exception(place: Path) -> None:
    for given in (lambda one: 1 // (one["id"] - 34) < 9, {"id": lambda i: 1 // (i - 34) < 9}):
        dataset = StreamingDataset(place, filter=given)
        with pytest.raises(ZeroDivisionError) as caught:
            dataset[0]
        assert "sample 34 of the dataset in" in caught.value.__notes__[0]
        assert traceback.extract_tb(caught.value.__traceback__)[-1].filename == __file__


def test_a_filter_that_leaves_nothing_warns(place: Path) -> None:
    dataset = StreamingDataset(place, filter=lambda _: False)
    with pytest.warns(UserWarning, match="leaves none of 103"):
        assert list(dataset) == []


# ---- filter_cache


def test_the_cache_spares_the_filter(place: Path, tmp_path: Path) -> None:
    cache = tmp_path / "kept"
    calls = Calls()
    assert len(StreamingDataset(place, filter=calls, filter_cache=cache)) == len(KEPT)
    assert len(calls.seen) == N
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    for options in ({}, {"shuffle": True, "seed": 3}, {"subsample": 2.0}):
        for given in (never, {"name": never}):
            dataset = StreamingDataset(place, filter=given, filter_cache=str(cache), **options)
            assert set(ids(dataset)) == set(KEPT)
    half = StreamingDataset(place, filter=calls, filter_cache=cache, subsample=0.5)
    assert ids(half) == [i for i in KEPT if i < N // 2]
    assert len(calls.seen) == N + N // 2
    again = StreamingDataset(place, filter=never, filter_cache=cache, subsample=0.5)
    assert ids(again) == ids(half)


def test_a_cache_of_another_dataset_is_refused(place: Path, tmp_path: Path) -> None:
    cache = tmp_path / "kept"
    other = write_dataset(tmp_path / "other", map(sample, range(20)))
    first = StreamingDataset(place, filter=third, filter_cache=cache)
    second = StreamingDataset(other, filter=third, filter_cache=cache)
    len(first)
    with pytest.raises(InvalidArgumentError) as caught:
        len(second)
    for dataset, where in ((first, place), (second, other)):
        assert dataset.index.fingerprint in str(caught.value)
        assert str(where) in str(caught.value)
    for wrong in (tmp_path, tmp_path / "no" / "kept"):
        with pytest.raises(InvalidArgumentError, match="filter_cache"):
            StreamingDataset(place, filter=third, filter_cache=wrong)
    with pytest.raises(InvalidArgumentError, match="needs a filter"):
        StreamingDataset(place, filter_cache=cache)


def test_a_damaged_cache_is_refused(place: Path, tmp_path: Path) -> None:
    cache = tmp_path / "kept"
    len(StreamingDataset(place, filter=third, filter_cache=cache))
    good = cache.read_bytes()
    flipped = bytearray(good)
    flipped[-3] ^= 1
    for bad in (b"", good[:10], good[:-8], good + b"\0", bytes(flipped), b"\xff" * 99, b"{}"):
        cache.write_bytes(bad)
        with pytest.raises(CorruptDataError, match="Delete it") as caught:
            len(StreamingDataset(place, filter=third, filter_cache=cache))
        assert caught.value.path == str(cache)
    cache.write_bytes(good.replace(b" 1 ", b" 2 ", 1))  # of another version: made anew
    assert len(StreamingDataset(place, filter=third, filter_cache=cache)) == len(KEPT)
    assert cache.read_bytes() == good


def test_a_cache_that_cannot_be_written_loses_nothing(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = StreamingDataset(place, filter=Calls(), filter_cache=tmp_path / "kept")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.warns(UserWarning, match="could not be written: full"):
        assert len(dataset) == len(KEPT)
    assert list(tmp_path.iterdir()) == []
