# SPDX-License-Identifier: Apache-2.0
"""StreamingDataLoader(pad=, replicate=) and its order()."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from datasets import write_dataset
from mixtures import SIZES, all_of, mix, through_json, write
from stoker import ParallelStreamingDataset, StreamingDataLoader, StreamingDataset
from stoker.exceptions import InvalidArgumentError
from worlds import as_rank

N = 30
BACKENDS = pytest.mark.parametrize("backend", ["torch", "auto"])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("numbers") / "data", range(N), chunk_size=4)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write(tmp_path_factory.mktemp("several"), SIZES, 5)


def padded(dataset: Any, **options: Any) -> StreamingDataLoader:
    return StreamingDataLoader(dataset, **{"batch_size": 4, "pad": "mask", **options})


def odd(sample: int) -> bool:
    return sample % 2 == 1


# ---- pad


@pytest.mark.parametrize("shuffle", [False, True, "full"])
@pytest.mark.parametrize("world", [1, 3, 4, 7])
@pytest.mark.parametrize("workers", [0, 2])
@BACKENDS
def test_all_ranks_get_as_many_full_batches_and_each_sample_once(
    place: Path, monkeypatch: pytest.MonkeyPatch, backend: Any, workers: int, world: int, shuffle: Any
) -> None:  # fmt: skip
    parts, states = [], []
    for rank in range(world):
        as_rank(monkeypatch, rank, world)
        dataset = StreamingDataset(place, shuffle=shuffle)
        loader = padded(dataset, backend=backend, num_workers=workers)
        parts.append(list(loader))
        assert len(loader) == len(parts[-1]) == -(-N // (4 * world))
        states.append(loader.state_dict())
    assert states == [states[0]] * world
    valid = []
    for step in zip(*parts, strict=True):
        own = [n for numbers, mask in step for n in numbers[mask].tolist()]
        assert {n for numbers, _ in step for n in numbers.tolist()} == set(own), "of the same batch"
        valid += own
        for numbers, mask in step:
            assert (len(numbers), mask.dtype, mask.shape) == (4, torch.bool, (4,))
            assert mask.tolist() == sorted(mask.tolist(), reverse=True)
    assert sorted(valid) == list(range(N))


@BACKENDS
def test_ranks_without_samples_of_their_own_get_padding(
    place: Path, monkeypatch: pytest.MonkeyPatch, backend: Any
) -> None:
    valid = []
    for rank in range(4):
        as_rank(monkeypatch, rank, 4)
        loader = padded(StreamingDataset(place).subset([3, 8]), backend=backend)
        ((numbers, mask),) = loader
        assert set(numbers.tolist()) <= {3, 8}
        valid += numbers[mask].tolist()
    assert sorted(valid) == [3, 8]


@pytest.mark.parametrize("world", [1, 2, 3])
@BACKENDS
def test_a_padded_epoch_resumes_in_another_world(
    place: Path, monkeypatch: pytest.MonkeyPatch, backend: Any, world: int
) -> None:
    valid, state = [], {}
    for rank in range(2):
        as_rank(monkeypatch, rank, 2)
        loader = padded(StreamingDataset(place, shuffle=True), backend=backend)
        valid += [n for numbers, mask in islice(loader, 2) for n in numbers[mask].tolist()]
        state = through_json(loader.state_dict())
    for rank in range(world):
        as_rank(monkeypatch, rank, world)
        loader = padded(StreamingDataset(place, shuffle=True), backend=backend, batch_size=3)
        loader.load_state_dict(state)
        valid += [n for numbers, mask in loader for n in numbers[mask].tolist()]
    assert sorted(valid) == list(range(N))


@pytest.mark.parametrize("method", ["stratified", "per_stream"])
@BACKENDS
def test_mixtures_are_padded_too(
    places: list[Path], monkeypatch: pytest.MonkeyPatch, backend: Any, method: str
) -> None:
    valid = []
    steps = set()
    for rank in range(3):
        as_rank(monkeypatch, rank, 3)
        batches = list(padded(mix(places, batching_method=method), backend=backend))
        steps.add(len(batches))
        for numbers, mask in batches:
            assert len(numbers) == 4
            valid += numbers[mask].tolist()
    assert sorted(valid) == all_of()
    assert len(steps) == 1


def test_drop_last_leaves_nothing_to_pad(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_rank(monkeypatch, 0, 3)
    batches = list(padded(StreamingDataset(place, drop_last=True)))
    assert [mask.all().item() for _, mask in batches] == [True, True]


@BACKENDS
def test_any_samples_can_be_padded(tmp_path: Path, backend: Any) -> None:
    samples = [{"text": f"t{n}", "pair": (n, float(n))} for n in range(5)]
    place = write_dataset(tmp_path / "data", samples, chunk_size=2)
    seen = []

    def look(batch: Any) -> Any:
        seen.append(len(batch["text"]))
        return batch

    batches = list(padded(StreamingDataset(place), backend=backend, batch_transform=look))
    texts = [text for batch, mask in batches for text, own in zip(batch["text"], mask, strict=True) if own]  # fmt: skip
    assert texts == [f"t{n}" for n in range(5)]
    assert batches[1][0]["text"] == ["t4"] * 4
    assert batches[1][0]["pair"][1].tolist() == [4.0] * 4
    assert seen == [4, 4], "the transform sees full batches"


# ---- replicate


@pytest.mark.parametrize("options", [{}, {"pad": "mask"}, {"drop_last": False}], ids=str)
@BACKENDS
def test_ranks_of_a_group_get_the_same_batches(
    place: Path, monkeypatch: pytest.MonkeyPatch, backend: Any, options: dict[str, Any]
) -> None:
    ranks, states = [], []
    for rank in range(4):
        as_rank(monkeypatch, rank, 4)
        loader = StreamingDataLoader(
            StreamingDataset(place, shuffle=True), batch_size=4, replicate=2, backend=backend, **options
        )  # fmt: skip
        batches = list(loader)
        pairs = batches if "pad" in options else [(b, torch.ones(len(b), dtype=torch.bool)) for b in batches]  # fmt: skip
        ranks.append([(numbers.tolist(), mask.tolist()) for numbers, mask in pairs])
        states.append(loader.state_dict())
    assert ranks[0] == ranks[1]
    assert ranks[2] == ranks[3]
    assert states == [states[0]] * 4
    valid = [n for rank in (0, 2) for numbers, mask in ranks[rank] for n, own in zip(numbers, mask, strict=True) if own]  # fmt: skip
    assert len(set(valid)) == len(valid) == (N if options else N // 8 * 8)


def test_replicas_resume_with_another_number_of_them(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivered, state = [], {}
    for rank in (0, 2):
        as_rank(monkeypatch, rank, 4)
        loader = StreamingDataLoader(
            StreamingDataset(place, shuffle=True), batch_size=4, replicate=2
        )
        delivered += [n for batch in islice(loader, 2) for n in batch.tolist()]
        state = loader.state_dict()
    as_rank(monkeypatch, 3, 4)
    loader = StreamingDataLoader(
        StreamingDataset(place, shuffle=True, drop_last=False), batch_size=4, replicate=4
    )
    loader.load_state_dict(state)
    delivered += [n for batch in loader for n in batch.tolist()]
    assert sorted(delivered) == list(range(N))


# ---- order


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("kind", ["plain", "subset", "filtered", "mixed", "per_stream", "zipped"])
def test_order_is_what_is_delivered(
    place: Path, places: list[Path], monkeypatch: pytest.MonkeyPatch, kind: str, world: int, drop_last: bool
) -> None:  # fmt: skip
    def dataset() -> Any:
        plain = StreamingDataset(place, shuffle=True)
        if kind == "zipped":
            members = [StreamingDataset(one, shuffle=True) for one in places[:2]]
            return ParallelStreamingDataset(members, length=60)
        return {
            "plain": lambda: plain,
            "subset": lambda: plain.subset(range(3, 25)),
            "filtered": lambda: StreamingDataset(place, shuffle=True, filter=odd),
            "mixed": lambda: mix(places),
            "per_stream": lambda: mix(places, batching_method="per_stream"),
        }[kind]()

    def sample(number: Any) -> Any:
        if kind == "zipped":
            return (number[0], 10_000 + number[1])
        return 10_000 * number[0] + number[1] if isinstance(number, tuple) else number

    parts, order = [], []
    for rank in range(world):
        as_rank(monkeypatch, rank, world)
        pad = "mask" if kind == "per_stream" else None  # else ranks would miss short batches
        loader = StreamingDataLoader(
            dataset(), batch_size=3, drop_last=drop_last, backend="torch", pad=pad
        )
        loader.set_epoch(2)
        for _ in islice(loader, 2):
            pass
        before = loader.state_dict()
        order = [sample(number) for number in loader.order(2)]
        assert [sample(n) for n in loader.order(2, 5, 9)] == order[5:9]
        assert loader.order(2, 10_000) == []
        assert loader.state_dict() == before
        loader.set_epoch(2)
        batches = [numbers[mask] for numbers, mask in loader] if pad else list(loader)
        rows = batches if kind == "zipped" else [[batch] for batch in batches]
        parts.append([list(zip(*(c.tolist() for c in columns), strict=True)) for columns in rows])
    delivered = [s if kind == "zipped" else s[0] for part in parts for batch in part for s in batch]
    assert Counter(delivered) == Counter(order)
    if drop_last:
        for number, step in enumerate(zip(*parts, strict=True)):
            own = [s if kind == "zipped" else s[0] for batch in step for s in batch]
            assert sorted(own) == sorted(order[number * 3 * world : (number + 1) * 3 * world])


@pytest.mark.parametrize("start", [-1, True, 2.0, None])
def test_places_that_are_none(place: Path, start: Any) -> None:
    loader = StreamingDataLoader(StreamingDataset(place))
    with pytest.raises(InvalidArgumentError, match="start="):
        loader.order(1, start)
    if start is not None:
        with pytest.raises(InvalidArgumentError, match="stop="):
            loader.order(1, 0, start)
    with pytest.raises(InvalidArgumentError, match="epoch="):
        loader.order(start)


def test_an_order_without_end_needs_a_stop(place: Path) -> None:
    loader = StreamingDataLoader(ParallelStreamingDataset([StreamingDataset(place)], length=float("inf")))  # fmt: skip
    with pytest.raises(InvalidArgumentError, match="needs a stop"):
        loader.order(1)
    assert loader.order(1, 28, 32) == [(28,), (29,), (0,), (1,)]
    with pytest.raises(TypeError, match="no len"):
        len(loader)


# ---- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pad": "zeros"}, "pad='zeros' is unknown"),
        ({"batch_size": None}, "give a batch_size"),
        ({"on_error": "skip"}, "on_error='raise'"),
        ({"num_workers": -1}, "num_workers=-1 must be"),
        ({"num_workers": 1.5}, r"num_workers=1\.5 must be"),
        ({"num_workers": 2**40}, "num_workers=1099511627776 must be"),
        ({"batch_transform": 1}, "callable of the batch, found 1"),
        ({"replicate": 0}, "replicate=0 must be"),
        ({"replicate": True}, "replicate=True must be"),
        ({"replicate": 2.0}, r"replicate=2\.0 must be"),
    ],
    ids=str,
)
def test_arguments_that_cannot_work(place: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        padded(StreamingDataset(place), **options)


def test_groups_of_another_size_than_fits_the_ranks(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_rank(monkeypatch, 0, 4)
    loader = StreamingDataLoader(StreamingDataset(place), replicate=3)
    with pytest.raises(InvalidArgumentError, match="replicate=3 must divide the 4 ranks"):
        iter(loader)
