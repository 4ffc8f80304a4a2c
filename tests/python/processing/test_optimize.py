# SPDX-License-Identifier: Apache-2.0
"""optimize: what it makes from what."""

from __future__ import annotations

import functools
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import stoker
from stoker import StreamingDataset, TokensLoader
from stoker.exceptions import InvalidArgumentError, OptimizeError


def optimize(fn: Any, inputs: Any, output_dir: Path, **options: Any) -> Path:
    """Call optimize quietly, by fork (fast) and with 4 samples per chunk unless said otherwise."""
    if "chunk_bytes" not in options:
        options.setdefault("chunk_size", 4)
    options.setdefault("start_method", "fork")
    options.setdefault("num_workers", 2)
    stoker.optimize(fn, inputs, output_dir, verbose=False, **options)
    return output_dir


def read(directory: Path, **options: Any) -> list[Any]:
    return list(StreamingDataset(directory, **options))


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("start_method", ["spawn", "fork"])
def test_the_order_is_that_of_the_inputs(tmp_path: Path, workers: int, start_method: str) -> None:
    directory = optimize(
        lambda i: {"i": i},
        range(11),
        tmp_path / "d",
        num_workers=workers,
        start_method=start_method,
    )
    assert read(directory) == [{"i": i} for i in range(11)]
    assert not [p for p in directory.iterdir() if p.name.startswith(".")], (
        "no staging directory stays"
    )


@pytest.mark.parametrize(
    "inputs",
    [
        [3, 1, 2],
        (3, 1, 2),
        np.array([3, 1, 2]),
        (i for i in [3, 1, 2]),
        {3: 0, 1: 0, 2: 0}.keys(),
        torch.tensor([3, 1, 2]),
    ],
    ids=lambda x: type(x).__name__,
)
def test_any_sequence_or_iterable(tmp_path: Path, inputs: Any) -> None:
    assert read(optimize(int, inputs, tmp_path / "d")) == [3, 1, 2]


class Adder:
    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, i: int) -> int:
        return i + self.n


def several(i: int) -> Iterator[Any]:
    for _ in range(i % 3):
        yield i
    yield None


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (Adder(5), [5, 6, 7, 8, 9]),
        (functools.partial(pow, 2), [1, 2, 4, 8, 16]),
        (lambda i: i if i % 2 else None, [1, 3]),
        (several, [1, 2, 2, 4]),
        (str, ["0", "1", "2", "3", "4"]),
    ],
)
@pytest.mark.parametrize("start_method", ["spawn", "fork"])
def test_every_kind_of_fn(tmp_path: Path, fn: Any, expected: list[Any], start_method: str) -> None:
    assert read(optimize(fn, range(5), tmp_path / "d", start_method=start_method)) == expected


def test_batches_of_inputs_and_fast_dev_run(tmp_path: Path) -> None:
    assert read(
        optimize(list, range(12), tmp_path / "1", batch_size=5, num_workers=1, fast_dev_run=5)
    ) == [[0, 1, 2, 3, 4]]
    sizes = optimize(len, range(12), tmp_path / "2", batch_size=5)
    assert read(sizes) == [5, 5, 2]
    assert read(optimize(int, range(12), tmp_path / "3", fast_dev_run=True)) == list(range(10))
    assert read(optimize(int, range(12), tmp_path / "4", fast_dev_run=3)) == list(range(3))


def test_more_workers_than_inputs_and_workers_without_samples(tmp_path: Path) -> None:
    assert read(
        optimize(lambda i: i if i == 3 else None, range(4), tmp_path / "d", num_workers=8)
    ) == [3]


def test_no_sample_at_all(tmp_path: Path) -> None:
    with pytest.raises(stoker.exceptions.OptimizeError, match="no sample for any of the 4 inputs"):
        optimize(lambda _: None, range(4), tmp_path / "d")
    assert not (tmp_path / "d").exists()


def test_compression(tmp_path: Path) -> None:
    plain = optimize(lambda i: "word " * 100 + str(i), range(20), tmp_path / "p")
    packed = optimize(
        lambda i: "word " * 100 + str(i), range(20), tmp_path / "z", compression="zstd"
    )
    assert read(packed) == read(plain)
    assert (
        sum(p.stat().st_size for p in packed.glob("*.zstd.bin"))
        < sum(p.stat().st_size for p in plain.glob("*.bin")) / 5
    )


@pytest.mark.parametrize(
    "sample", [(1, 2), [1, 2], np.ones((2, 2)), {"a": 1}, "text"], ids=lambda s: type(s).__name__
)
def test_compression_works_for_every_kind_of_root(tmp_path: Path, sample: Any) -> None:
    directory = optimize(lambda _: sample, range(5), tmp_path / "d", compression="zstd")
    for got in read(directory):
        np.testing.assert_equal(got, sample)


def test_mixed_key_types_are_written_and_read(tmp_path: Path) -> None:
    sample = {"a": 1, 3: "x", None: 2.5}
    assert read(optimize(lambda _: sample, range(3), tmp_path / "d")) == [sample] * 3


def test_folders_of_others_in_the_temporary_directory_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    files = [tmp_path / "chunks" / "mine.bin", tmp_path / "data" / "mine.txt"]
    for file in files:
        file.parent.mkdir()
        file.write_text("precious")
    optimize(int, range(3), tmp_path / "d", start_method="spawn")
    assert all(file.read_text() == "precious" for file in files)


def test_tokens(tmp_path: Path) -> None:
    directory = optimize(
        lambda i: torch.arange(i, i + 7),
        range(10),
        tmp_path / "d",
        chunk_size=20,
        item_loader=TokensLoader(),
        num_workers=1,
    )
    blocks = read(directory, item_loader=TokensLoader(block_size=7))
    assert [b.tolist() for b in blocks] == [list(range(i, i + 7)) for i in range(10)]


def test_output_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    optimize(int, [1], Path("a/b/c"))
    assert read(tmp_path / "a/b/c") == [1]
    stoker.optimize(int, [1], chunk_size=1, num_workers=1, verbose=False)
    assert read(tmp_path / "optimized_data") == [1]
    stoker.optimize(int, [1], "run_{%Y}", chunk_size=1, num_workers=1, verbose=False)
    assert len(list(tmp_path.glob("run_20??"))) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"inputs": []}, "non empty"),
        ({"inputs": "abc"}, "inputs"),
        ({"inputs": {"a": 1}}, "inputs"),
        ({"inputs": 5}, "inputs"),
        ({"chunk_size": None}, "exactly one"),
        ({"chunk_bytes": "1MB"}, "exactly one"),
        ({"chunk_size": None, "chunk_bytes": "1XB"}, "1XB"),
        ({"compression": "gzip"}, "gzip"),
        ({"num_workers": -1}, "num_workers"),
        ({"num_workers": 1.5}, "num_workers"),
        ({"fast_dev_run": -1}, "fast_dev_run"),
        ({"batch_size": 0}, "batch_size"),
        ({"item_loader": TokensLoader}, "item_loader"),
        ({"start_method": "thread"}, "start_method"),
        ({"output_dir": "azure://x"}, "azure"),
        ({"output_dir": 3}, "place"),
        ({"fn": 3}, "callable"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_arguments_that_cannot_work_are_refused_before_anything_runs(
    tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    full: dict[str, Any] = {
        "fn": int,
        "inputs": [1],
        "output_dir": tmp_path / "d",
        "chunk_size": 4,
        "verbose": False,
        **arguments,
    }
    with pytest.raises((ValueError, RuntimeError), match=message):
        stoker.optimize(**full)
    assert not (tmp_path / "d").exists()


def test_a_dataset_is_immutable_and_foreign_files_are_not_touched(tmp_path: Path) -> None:
    directory = tmp_path / "d"
    directory.mkdir()
    foreign = {"my.bin": b"1", "keep.txt": b"2", "data.bin": b"3"}
    for name, data in foreign.items():
        (directory / name).write_bytes(data)
    optimize(int, range(9), directory)
    before = {p.name: p.read_bytes() for p in directory.iterdir()}
    with pytest.raises(OptimizeError, match="already contains"):
        optimize(int, range(3), directory)
    assert {p.name: p.read_bytes() for p in directory.iterdir()} == before
    assert foreign.items() <= before.items()


@pytest.mark.parametrize("name", ["chunk-0-0.bin", "chunk-7-3.zstd.bin", "0.index.json"])
def test_unlisted_dataset_files_are_not_overwritten(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "d"
    directory.mkdir()
    (directory / name).write_bytes(b"precious")
    with pytest.raises(FileExistsError, match=name):
        optimize(int, range(9), directory)
    assert [(p.name, p.read_bytes()) for p in directory.iterdir()] == [(name, b"precious")]


def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import stoker
            OFFSET = 100
            class Point(dict): pass
            def sample(i):
                return {"i": i + OFFSET}
            stoker.optimize(sample, range(6), "out", chunk_size=2, num_workers=2)
            print([s["i"] for s in stoker.StreamingDataset("out")])
            """
        )
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert done.stdout.strip() == "[100, 101, 102, 103, 104, 105]"
    assert "100%" in done.stderr, "a progress bar"


def test_what_cannot_be_sent_to_workers_is_refused(tmp_path: Path) -> None:
    import threading

    lock = threading.Lock()
    with pytest.raises(InvalidArgumentError, match="cannot be sent") as error:
        optimize(lambda i: (i, lock), range(4), tmp_path / "d", start_method="spawn")
    assert "lock" in str(error.value)
    assert not (tmp_path / "d").exists()
