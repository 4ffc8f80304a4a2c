# SPDX-License-Identifier: Apache-2.0
"""The native backend among threads and processes: batches that stay, early ends, forks, Ctrl-C, pinned memory."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from batches import fingerprint, loader_of, prints
from datasets import write_dataset
from pictures import jpeg, opened
from stoker import StreamingDataLoader, StreamingDataset, TokensLoader, vision
from stoker.streaming import _native_run

N = 60
PATIENCE = 60  # seconds until a child counts as hanging
CROP = {"image": vision.RandomResizedCrop((10, 12))}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    samples = (
        {"image": opened(jpeg(24, 32, i)), "id": i, "name": f"n{i}", "v": np.arange(9.0) * i}
        for i in range(N)
    )
    return write_dataset(tmp_path_factory.mktemp("photos") / "d", samples)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = (np.arange(i, i + 4096, dtype=np.uint16) for i in range(N))
    directory = tmp_path_factory.mktemp("tokens") / "t"
    return write_dataset(directory, rows, chunk_size=4096 * 7, item_loader=TokensLoader())


def native(place: Path, workers: int = 2, **options: Any) -> StreamingDataLoader:
    return loader_of(
        place, "native", {"shuffle": True, "transform": CROP}, num_workers=workers, **options
    )


def engine_threads() -> list[str]:
    """Return the names of this process's threads that belong to stoker's core."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        try:
            names.append((task / "comm").read_text().strip())
        except OSError:  # it just ended
            continue
    return [name for name in names if name.startswith("stoker/")]


# ---- batches that stay


@pytest.mark.parametrize("workers", [0, 3])
def test_batches_that_were_handed_out_never_change(photos: Path, workers: int) -> None:
    loader = native(photos, workers, batch_size=3)
    held = [(batch, fingerprint(batch)) for _ in range(3) for batch in loader]
    del loader
    gc.collect()
    assert [fingerprint(batch) for batch, _ in held] == [was for _, was in held]
    assert len({was for _, was in held}) == len(held)


def test_large_batches_that_were_handed_out_never_change(tokens: Path) -> None:
    data = {"item_loader": TokensLoader(1024, torch.int64), "shuffle": True}
    loader = loader_of(tokens, "native", data, batch_size=40)
    held = [(batch, fingerprint(batch)) for _ in range(4) for batch in loader]
    assert [fingerprint(batch) for batch, _ in held] == [was for _, was in held]
    memory = {batch.data_ptr() for batch, _ in held}
    assert len(memory) == len(held), "every batch that lives has memory of its own"


def test_batches_may_be_written_to_and_outlive_everything(photos: Path) -> None:
    loader = native(photos)
    wanted = prints(native(photos))
    got = []
    for batch in loader:
        got.append(fingerprint(batch))
        for value in batch.values():
            if isinstance(value, torch.Tensor):
                value.zero_()
    assert got == wanted
    part = next(iter(native(photos)))["v"][1]
    gc.collect()
    assert part.dtype is torch.float64
    assert fingerprint(part) == fingerprint(part.clone())


# ---- early ends


def test_threads_end_with_the_epoch(photos: Path) -> None:
    loader = native(photos, 3)
    list(loader)
    assert set(engine_threads()) <= {f"stoker/open/{k}" for k in range(4)}
    assert prints(loader) == prints(loader_at(photos, 2))
    del loader
    gc.collect()
    assert engine_threads() == []


def test_threads_that_open_chunks_end_with_the_epoch(photos: Path) -> None:
    loader = native(photos, 3)
    list(loader)
    assert engine_threads() == []


def loader_at(place: Path, epoch: int) -> StreamingDataLoader:
    loader = native(place, 0)
    loader.set_epoch(epoch)
    return loader


@pytest.mark.parametrize("count", [0, 1, 5])
def test_an_early_end_leaves_no_threads(photos: Path, count: int) -> None:
    loader = native(photos, 3)
    iterator = iter(loader)
    for _ in range(count):
        next(iterator)
    deadline = time.monotonic() + 30
    while len(engine_threads()) < 4:  # three that decode, one that plans; they name themselves
        assert time.monotonic() < deadline
    del iterator, loader
    gc.collect()
    assert engine_threads() == []


def test_every_iteration_after_a_break_is_whole(photos: Path) -> None:
    loader = native(photos, 3)
    for epoch in range(1, 8):
        assert prints(loader, 2) == prints(loader_at(photos, epoch), 2)
    assert prints(loader) == prints(loader_at(photos, 8))
    del loader
    gc.collect()
    assert engine_threads() == []


def test_two_loaders_at_once(photos: Path) -> None:
    dataset = StreamingDataset(photos, shuffle=True, transform=CROP)
    one, two = (
        StreamingDataLoader(dataset, batch_size=4, num_workers=2, backend="native")
        for _ in range(2)
    )
    wanted = prints(native(photos))
    pairs = [(fingerprint(a), fingerprint(b)) for a, b in zip(one, two, strict=True)]
    assert pairs == [(w, w) for w in wanted]
    first = iter(one)
    outer = [fingerprint(next(first)) for _ in range(3)]
    inner = prints(two)
    outer += [fingerprint(batch) for batch in first]
    assert outer == inner == prints(loader_at(photos, 2))


def test_loaders_in_threads(photos: Path) -> None:
    wanted = prints(native(photos))
    results: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: results.append(prints(native(photos)))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [wanted] * 4


@pytest.mark.parametrize(
    "options",
    [
        {"persistent_workers": True},
        {"prefetch_factor": 7},
        {"timeout": 5},
        {"pin_memory": True},
        {"generator": torch.Generator()},
        {"collate_fn": torch.utils.data.default_collate},
    ],
    ids=lambda o: next(iter(o)),
)
def test_other_arguments_of_a_dataloader_change_nothing(photos: Path, options: Any) -> None:
    loader = native(photos, 2, **options)
    assert prints(loader) == prints(native(photos))
    assert prints(loader) == prints(loader_at(photos, 2))


# ---- pinned memory


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[torch.Tensor]]:
    """Let memory count as pinned without a GPU; gives the tensors that were allocated."""
    made: list[torch.Tensor] = []

    class Torch:
        def __getattr__(self, name: str) -> Any:
            return getattr(torch, name)

        def empty(self, *args: Any, pin_memory: bool, **options: Any) -> torch.Tensor:
            assert pin_memory
            made.append(torch.empty(*args, **options))
            return made[-1]

    monkeypatch.setattr(_native_run, "torch", Torch())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    yield made
    gc.collect()


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_in_memory_offered_by_torch(
    photos: Path, tokens: Path, pinned: list[torch.Tensor], workers: int
) -> None:
    for place, data in (
        (photos, {"shuffle": True, "transform": CROP}),
        (tokens, {"item_loader": TokensLoader(100), "shuffle": True}),
    ):
        wanted = prints(loader_of(place, "native", data, num_workers=0, batch_size=7))
        loader = loader_of(
            place, "native", data, num_workers=workers, batch_size=7, pin_memory=True
        )
        held = list(loader)
        assert [fingerprint(batch) for batch in held] == wanted
        leaf = held[3]["image"] if isinstance(held[3], dict) else held[3]
        slabs = {slab.untyped_storage().data_ptr() for slab in pinned}
        assert leaf.untyped_storage().data_ptr() in slabs


# ---- forks
# Children here never drop a batch that their parent's threads made: SlabPool (slab.cc) would lock a mutex that one of
# those threads may have held at the moment of the fork. When it no longer does, `held` and `keep` can go.


def child_ends(function: Callable[[], bool]) -> bool:
    """Return whether ``function`` was true in a forked child; False when it hangs."""
    child = multiprocessing.get_context("fork").Process(
        target=lambda: sys.exit(0 if function() else 3)
    )
    child.start()
    child.join(PATIENCE)
    if child.exitcode is None:
        child.kill()
        child.join()
    return child.exitcode == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_child_and_its_parent_both_go_on(photos: Path, workers: int) -> None:
    wanted = prints(native(photos))
    loader = native(photos, workers)
    iterator = iter(loader)
    held = [next(iterator) for _ in range(5)]
    got = [fingerprint(batch) for batch in held]

    def rest_is_right() -> bool:
        rest = [fingerprint(batch) for batch in iterator]
        state = loader.state_dict()["position"]
        return (
            got + rest == wanted and state == N and prints(loader) == prints(loader_at(photos, 2))
        )

    for _ in range(3):
        assert child_ends(rest_is_right)
        held.append(next(iterator))
        got.append(fingerprint(held[-1]))
    got += [fingerprint(batch) for batch in iterator]
    assert got == wanted


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_may_drop_what_its_parent_iterates(photos: Path) -> None:
    held: dict[str, Any] = {"loader": native(photos, 3)}
    held["iterator"] = iter(held["loader"])
    batch = next(held["iterator"])
    first = fingerprint(batch)

    def drop() -> bool:
        held.clear()
        gc.collect()
        return prints(native(photos), 1) == [first]

    assert child_ends(drop)
    assert fingerprint(batch) == first
    assert [first, *(fingerprint(b) for b in held["iterator"])] == prints(native(photos))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_an_iteration_with_a_batch_transform_stays_in_its_process(photos: Path) -> None:
    iterator = iter(native(photos, batch_transform=len))
    next(iterator)

    def is_refused() -> bool:
        with pytest.raises(RuntimeError, match="start a new one there"):
            next(iterator)
        return list(native(photos, batch_transform=len)) == [4] * (N // 4)

    assert child_ends(is_refused)
    assert list(iterator) == [4] * (N // 4 - 1)


def run_script(text: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a Python program."""
    command = [sys.executable, "-c", textwrap.dedent(text), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    return process.returncode, out, err


FORKS = """
    import ctypes, os, sys, warnings
    import stoker
    keep = ctypes.pythonapi.Py_IncRef
    warnings.simplefilter("ignore", DeprecationWarning)
    dataset = stoker.StreamingDataset(sys.argv[1])
    loader = stoker.StreamingDataLoader(dataset, batch_size=4, num_workers=2, backend="native")
    iterator = iter(loader)
    for leaf in next(iterator).values():
        keep(ctypes.py_object(leaf))
    child = os.fork()
    rest = sum(len(batch["id"]) for batch in iterator) if child == 0 else len(next(iterator)["id"])
    if child:
        _, status = os.waitpid(child, 0)
        print("parent", rest, "child ended with", os.waitstatus_to_exitcode(status))
    else:
        print("child", rest)
    sys.exit(0)
"""


def test_a_child_and_its_parent_leave_the_interpreter(photos: Path) -> None:
    """With all that runs at exit: in the child after its end, in the parent in the middle of an epoch."""
    code, out, err = finished(run_script(FORKS, photos))
    assert (code, out.split("\n")[:2], err) == (0, ["child 56", "parent 4 child ended with 0"], "")


WAITS = """
    import signal, sys
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the shell of the tests ignores
    import stoker, torch
    from stoker.streaming import _native_run
    torch.cuda.is_available = lambda: True
    _native_run.NativeBatches._offer = lambda self, engine: None  # no batch can ever be built
    dataset = stoker.StreamingDataset(sys.argv[1])
    loader = stoker.StreamingDataLoader(
        dataset, batch_size=4, num_workers=2, backend="native", pin_memory=True
    )
    try:
        iterator = iter(loader)
        print("waiting", flush=True)
        next(iterator)
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_ctrl_c_ends_the_wait_for_a_batch(photos: Path) -> None:
    process = run_script(WAITS, photos)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    code, out, err = finished(process)
    assert (code, out, err) == (0, "interrupted\n", "")
