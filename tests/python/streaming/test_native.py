# SPDX-License-Identifier: Apache-2.0
"""The native backend: the batches of the torch backend, to the bit, whatever the samples and options."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batches import loader_of, prints
from datasets import write_dataset
from pictures import jpeg, opened
from stoker import StreamingDataLoader, TokensLoader, vision

N = 23
AUGMENT = vision.Compose(
    [
        vision.RandomResizedCrop((12, 10)),
        vision.RandomHorizontalFlip(),
        vision.ColorJitter(0.3, 0.3, 0.3, 0.1),
        vision.ToDtype(torch.bfloat16, scale=True),
        vision.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.4]),
    ],
)


def photo(i: int) -> dict[str, Any]:
    return {"image": opened(jpeg(20 + i % 3, 30 + i % 5, i)), "label": i, "name": f"photo {i}"}


def bundle(i: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(i)
    return {
        "tuple": (i, f"ä{i}" * (i % 3), i % 2 == 0),
        "list": [b"\0" * i, i / 7, [np.arange(i, i + 3, dtype=np.uint16), ("x", f"{i}")]],
        "ordered": OrderedDict([("z", torch.randn(2, 3, generator=generator)), ("a", i)]),
        7: {"bf16": torch.full((3,), i / 3, dtype=torch.bfloat16), "half": np.full((1, 2), i, np.float16)},
        "0-d tensor": torch.tensor(i, dtype=torch.bfloat16),
        "empty": np.zeros((0, 3), np.float32),
        "empty tensor": torch.zeros(0, dtype=torch.int16),
        "nan": np.array([np.nan, -0.0, np.inf, i]),
        "complex": np.array([[i + 1j]], np.complex64),
        "flags": torch.tensor([i % 2 == 0, True]),
    }  # fmt: skip


CASES: dict[str, Callable[[int], Any]] = {
    "photo": photo,
    "bundle": bundle,
    "int": lambda i: i,
    "negative int": lambda i: -(1 << 40) * i,
    "float": lambda i: i / 3,
    "bool": lambda i: i % 3 == 0,
    "str": lambda i: "é" * i,
    "bytes": lambda i: bytes(range(i)),
    "array": lambda i: np.arange(6, dtype=np.uint8) + i,
    "matrix": lambda i: np.full((3, 5, 2), i, np.float32),
    "tensor": lambda i: torch.full((4, 300), i, dtype=torch.uint8),
    "list": lambda i: [i, f"{i}"],
    "tuple": lambda i: (f"{i}", i),
    "list of texts": lambda i: ["a", f"{i}"],
    "defaultdict": lambda i: defaultdict(list, {"a": i, "b": [i]}),
    "deque": lambda i: deque([i, i + 1.5]),
    "fixed records": lambda i: {"id": i, "v": np.arange(33.0) * i, "m": torch.full((2, 2), i), "ok": i > 3},
}  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "photo": {"transform": {"image": vision.Resize((12, 14))}},
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("native")
    return {
        name: write_dataset(root / str(k), map(make, range(N)))
        for k, (name, make) in enumerate(CASES.items())
    }


def both(place: Path, data: dict[str, Any] | None = None, **options: Any) -> None:
    """Compare two epochs of the backends; loaders and batches of native must not be empty."""
    native = loader_of(place, "native", data, **options)
    torchs = loader_of(place, "torch", data, **{**options, "num_workers": 0})
    assert native.explain().startswith("native")
    for _ in range(2):
        got = prints(native)
        assert got == prints(torchs)
        assert len(got) == len(native)
        assert native.state_dict() == torchs.state_dict()


# ---- samples


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_kind_of_sample(places: dict[str, Path], name: str, shuffle: bool) -> None:
    both(places[name], {"shuffle": shuffle, **OPTIONS.get(name, {})})


@pytest.mark.parametrize("name", ["photo", "bundle", "str", "matrix", "fixed records"])
@pytest.mark.parametrize("workers", [0, 1, 3, None])
def test_any_number_of_threads(places: dict[str, Path], name: str, workers: int | None) -> None:
    data = {"shuffle": True, "seed": 3, **OPTIONS.get(name, {})}
    both(places[name], data, num_workers=workers, batch_size=5)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("workers", [0, 3])
def test_transforms_of_images(places: dict[str, Path], last: bool, workers: int) -> None:
    augment = vision.Compose(AUGMENT.transforms, channels_last=last)
    for transform in (
        {"image": augment},
        {("image",): vision.Compose([vision.Resize(16), vision.CenterCrop(16)], channels_last=last)},
        {"image": vision.Compose([vision.Grayscale(), vision.Resize((5, 6))], channels_last=last)},
        {"image": vision.RandomCrop(15)},
    ):  # fmt: skip
        both(places["photo"], {"shuffle": True, "transform": transform}, num_workers=workers)
    batch = next(iter(loader_of(places["photo"], "native", {"transform": {"image": augment}})))
    assert batch["image"].dtype is torch.bfloat16
    form = torch.channels_last if last else torch.contiguous_format
    assert batch["image"].is_contiguous(memory_format=form)


def test_images_alone_with_and_without_transforms(tmp_path: Path) -> None:
    place = write_dataset(tmp_path / "d", (opened(jpeg(16, 18, i)) for i in range(N)))
    for transform in (None, AUGMENT, vision.Resize((8, 9)), {(): AUGMENT}):
        both(place, {"shuffle": True, "transform": transform})
    two = write_dataset(
        tmp_path / "two", ((i, opened(jpeg(9, 9, i)), opened(jpeg(9, 9, i))) for i in range(N))
    )
    both(two, {"transform": {1: AUGMENT, 2: AUGMENT}})
    _, first, second = next(iter(loader_of(two, "native", {"transform": {1: AUGMENT, 2: AUGMENT}})))
    assert not torch.equal(first, second), "leaves have dice of their own"


@pytest.mark.parametrize("dtype", [None, torch.int64], ids=str)
@pytest.mark.parametrize("stored", ["uint16", "int32", "int8", "int64", "tensor"])
def test_tokens(tmp_path: Path, stored: str, dtype: torch.dtype | None) -> None:
    rows = (np.arange(i, i + 40) - 20 for i in range(0, 37 * N, 37))
    samples = [torch.from_numpy(r) if stored == "tensor" else r.astype(stored) for r in rows]
    place = write_dataset(tmp_path / "t", samples, chunk_size=150, item_loader=TokensLoader())
    for block in (7, 64):
        for shuffle in (False, True):
            data = {"item_loader": TokensLoader(block, dtype), "shuffle": shuffle}
            both(place, data, num_workers=int(shuffle))
    got = next(iter(loader_of(place, "native", {"item_loader": TokensLoader(7, dtype)})))
    assert got.shape == (4, 7)
    if dtype is not None:
        assert got.dtype is dtype


# ---- options


@pytest.mark.parametrize("name", ["photo", "bundle", "int"])
@pytest.mark.parametrize("compression", ["zstd", "zstd:9"])
def test_compressed(tmp_path: Path, name: str, compression: str) -> None:
    place = write_dataset(tmp_path / "d", map(CASES[name], range(N)), compression=compression)
    both(place, {"shuffle": True, **OPTIONS.get(name, {})})


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(["fixed records", "str", "bundle"]), st.integers(1, 30), st.booleans(), st.booleans(),
    st.sampled_from([0.2, 0.5, 1.0, 2.5]), st.integers(0, 3), st.sampled_from(["first", "always", "never"]),
)  # fmt: skip
def test_any_options(
    places: dict[str, Path],
    name: str,
    batch_size: int,
    shuffle: bool,
    drop_last: bool,
    subsample: float,
    workers: int,
    verify: str,
) -> None:
    data = {"shuffle": shuffle, "drop_last": drop_last, "subsample": subsample, "verify": verify}
    if drop_last and batch_size > int(N * subsample) - 1:
        return
    both(places[name], data, batch_size=batch_size, num_workers=workers)


@pytest.mark.parametrize("drop_last", [False, None])
@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks(
    places: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    world_size: int,
    drop_last: bool | None,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", str(world_size))
    for rank in range(world_size):
        monkeypatch.setenv("RANK", str(rank))
        data = {"shuffle": True, "drop_last": drop_last}
        both(places["photo"], {**data, "transform": {"image": AUGMENT}}, batch_size=3)
        both(places["bundle"], data, batch_size=2)


def test_windows_of_few_chunks(places: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    for window in ("1", "2"):
        monkeypatch.setenv("STOKER_SHUFFLE_WINDOW", window)
        both(places["bundle"], {"shuffle": True}, batch_size=9)


@pytest.mark.parametrize("backends", [("native", "torch"), ("torch", "native"), ("native", "native")])  # fmt: skip
@pytest.mark.parametrize("stop", [0, 1, 3, 6])
def test_a_state_goes_on_in_the_other_backend(
    places: dict[str, Path], backends: tuple[str, str], stop: int
) -> None:
    data = {"shuffle": True, "transform": {"image": AUGMENT}}
    whole = loader_of(places["photo"], backends[1], data)
    epochs = [prints(whole), prints(whole), prints(whole)]
    first = loader_of(places["photo"], backends[0], data)
    prints(first)
    before = prints(first, stop)
    state = json.loads(json.dumps(first.state_dict()))
    second = loader_of(places["photo"], backends[1], data, num_workers=0)
    second.load_state_dict(state)
    got = before + prints(second)
    assert got == (epochs[1] if stop < 6 else epochs[1] + epochs[2])


def test_another_batch_size_after_a_resume(places: dict[str, Path]) -> None:
    def samples(loader: StreamingDataLoader, count: int = 99) -> list[int]:
        taken: list[int] = []
        for number, batch in enumerate(loader, 1):
            taken += batch.tolist()
            if number == count:
                break
        return taken

    reference = samples(loader_of(places["int"], "native", {"shuffle": True}, batch_size=1))
    state, got = None, []
    for size, count in ((4, 2), (3, 1), (1, 5), (7, 99)):
        loader = loader_of(places["int"], "native", {"shuffle": True}, batch_size=size)
        if state is not None:
            loader.load_state_dict(state)
        got += samples(loader, count)
        state = loader.state_dict()
    assert got == reference
