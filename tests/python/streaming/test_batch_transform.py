# SPDX-License-Identifier: Apache-2.0
"""A function of whole batches on a thread beside the training loop."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from batches import loader_of
from datasets import write_dataset
from pictures import jpeg, opened
from stoker.exceptions import CorruptDataError
from stoker.streaming._transformed import transformed

N = 41
NAME = "stoker/transform"
BACKENDS = [("native", 0), ("native", 2), ("torch", 0), ("torch", 2)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("batches") / "d", range(N))


def helpers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == NAME]


def double(batch: torch.Tensor) -> torch.Tensor:
    return batch * 2


@pytest.mark.parametrize(("backend", "workers"), BACKENDS)
def test_batches_come_in_order_with_exact_positions(
    place: Path, backend: str, workers: int
) -> None:
    seen: list[tuple[int, int]] = []

    def noted(batch: torch.Tensor) -> torch.Tensor:
        seen.append((threading.get_ident(), int(batch[0])))
        return batch * 2

    options = {"num_workers": workers, "batch_transform": noted}
    loader = loader_of(place, backend, **options)
    for epoch in (1, 2):
        got = []
        for number, batch in enumerate(loader, 1):
            got += batch.tolist()
            assert loader.state_dict()["position"] == min(4 * number, N)
        assert got == [2 * i for i in range(N)]
        assert loader.current_epoch == epoch
    assert [first for _, first in seen] == [*range(0, N, 4)] * 2
    threads = {ident for ident, _ in seen}
    assert threading.get_ident() not in threads
    assert helpers() == []
    assert loader.stats()["batches"] == 11


@pytest.mark.parametrize(("backend", "workers"), BACKENDS)
def test_what_is_prefetched_is_not_counted(place: Path, backend: str, workers: int) -> None:
    data = {"shuffle": True}
    whole = [b.tolist() for b in loader_of(place, backend, data, num_workers=workers)]
    first = loader_of(place, backend, data, num_workers=workers, batch_transform=double)
    iterator = iter(first)
    head = [next(iterator).tolist() for _ in range(3)]
    assert first.state_dict()["position"] == 12
    rest = loader_of(place, backend, data, num_workers=workers, batch_transform=double)
    rest.load_state_dict(first.state_dict())
    tail = [b.tolist() for b in rest]
    assert head + tail == [[2 * i for i in batch] for batch in whole]


def test_an_error_of_the_function_comes_in_its_place(place: Path) -> None:
    def failing(batch: torch.Tensor) -> torch.Tensor:
        if 17 in batch:
            raise KeyError("seventeen")
        return batch

    loader = loader_of(place, "native", batch_transform=failing)
    got: list[int] = []
    with pytest.raises(KeyError, match="seventeen"):
        got.extend(i for batch in loader for i in batch.tolist())
    assert got == list(range(16))
    assert loader.state_dict()["position"] == 16
    assert helpers() == []


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_an_error_of_the_source_comes_in_its_place(tmp_path: Path, backend: str) -> None:
    files = [jpeg(12, 12, i) for i in range(10)]
    files[6] = files[6][: files[6].index(b"\xff\xda") + 20]
    place = write_dataset(tmp_path / "d", map(opened, files))
    loader = loader_of(place, backend, batch_transform=len)
    got: list[int] = []
    with pytest.raises(CorruptDataError):
        got.extend(loader)
    assert got == [4]
    assert loader.state_dict()["position"] == 4
    skipping = loader_of(place, backend, batch_transform=len, on_error="skip")
    assert list(skipping) == [4, 3, 2]
    assert skipping.stats()["skipped"] == 1


def test_stop_iteration_of_the_function_is_no_end(place: Path) -> None:
    def stopping(batch: torch.Tensor) -> torch.Tensor:
        raise StopIteration

    with pytest.raises(RuntimeError):
        list(loader_of(place, "native", batch_transform=stopping))


@pytest.mark.parametrize(("backend", "workers"), BACKENDS)
def test_an_early_stop_ends_the_thread(place: Path, backend: str, workers: int) -> None:
    loader = loader_of(place, backend, num_workers=workers, batch_transform=double)
    for number, _ in enumerate(loader):
        if number == 2:
            break
    gc.collect()
    assert helpers() == []
    assert torch.cat(list(loader)).sum() == N * (N - 1), "the next epoch is whole"


def test_the_thread_is_at_most_three_batches_ahead() -> None:
    taken: list[int] = []

    def source() -> Iterator[int]:
        for i in range(100):
            taken.append(i)
            yield i

    iterator = transformed(source(), lambda x: x)
    for count in range(1, 40):
        assert next(iterator) == count - 1
        assert len(taken) <= count + 3
    assert list(iterator) == list(range(39, 100))


def test_values_are_let_go() -> None:
    arrays = (np.zeros(3) for _ in range(9))
    alive: list[weakref.ref[Any]] = []
    for array in transformed(arrays, lambda x: x):
        alive.append(weakref.ref(array))
        del array
    gc.collect()
    assert all(ref() is None for ref in alive)


def test_an_empty_source() -> None:
    assert list(transformed(iter(()), double)) == []


def test_a_thread_waits_for_nobody_when_the_consumer_is_gone() -> None:
    started = threading.Event()

    def source() -> Iterator[int]:
        while True:
            started.set()
            yield 1

    iterator = transformed(source(), lambda x: x)
    next(iterator)
    assert started.is_set()
    iterator.close()  # type: ignore[attr-defined]
    assert helpers() == []
