# SPDX-License-Identifier: Apache-2.0
"""The native backend when something is wrong: samples it cannot build, damage, other shapes; and what it counts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from batches import loader_of, prints
from datasets import write_dataset
from golden_values import GOLDEN, PASSWORD
from pictures import jpeg, opened
from stoker import StreamingDataLoader, TokensLoader, vision
from stoker.encryption import FernetEncryption
from stoker.exceptions import (
    CorruptDataError,
    InvalidArgumentError,
    NotFoundError,
)
from stoker.streaming._loader_stats import LoaderStats
from stoker.streaming.item_loader import PyTreeLoader

N = 23
BACKENDS = ["native", "torch"]
SCAN = b"\xff\xda"  # pixels follow


def photos(directory: Path, bad: tuple[int, ...] = (), **options: Any) -> Path:
    """Write photos of one size; files with a number in ``bad`` are cut."""

    def file(i: int) -> bytes:
        data = jpeg(24, 32, i)
        return data[: data.index(SCAN) + 30] if i in bad else data

    samples = ({"image": opened(file(i)), "id": i} for i in range(N))
    return write_dataset(directory, samples, **options)


def numbers(loader: StreamingDataLoader) -> Iterator[int]:
    """Yield the samples' numbers."""
    for batch in loader:
        yield from batch["id"].tolist()


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x40
    path.write_bytes(data)


# ---- falling back


class MyLoader(PyTreeLoader):
    """Python code of a user."""


MyLoader.__name__ = "PyTreeLoader"


def named(sample: Any) -> Any:
    return sample


FALLBACKS: dict[str, tuple[Any, dict[str, Any], dict[str, Any], str]] = {
    "function": (1, {"transform": named}, {}, "its transform 'named' is a Python function"),
    "object": (1, {"transform": [torch.nn.Identity()]}, {}, "its transform 'a callable' is a Python"),
    "leaf": ({"a": 1}, {"transform": {"a": named}}, {}, "its transform 'named' is a Python function"),
    "loader": (1, {"item_loader": MyLoader()}, {}, "its item loader PyTreeLoader is Python code"),
    "single": (1, {}, {"batch_size": None}, "batch_size is None"),
    "collate": (1, {}, {"collate_fn": list}, "it has a collate_fn"),
    "init": (1, {}, {"worker_init_fn": named}, "it has a worker_init_fn"),
    "context": (1, {}, {"multiprocessing_context": "fork", "num_workers": 1}, "it has a multiprocessing_context"),
    "pickle": ({"x": 1 + 1j}, {}, {}, "leaf ['x'] is stored as 'pickle', which only Python can read"),
    "0-d": ([np.array(1)], {}, {}, "leaf [0] is stored as 'pickle'"),
    "pillow": (Image.new("RGB", (2, 2)), {}, {}, "leaf the sample itself is stored as 'pil'"),
    "compose": ({"i": 1}, {"transform": {"i": vision.Resize(4)}}, {},
                "leaf ['i'] has image transforms but is stored as 'int', not as a JPEG"),
    "leaves": ({}, {}, {}, "its samples have no leaves"),
}  # fmt: skip


@pytest.mark.parametrize("name", FALLBACKS)
def test_what_only_python_can_build(tmp_path: Path, name: str) -> None:
    sample, data, options, reason = FALLBACKS[name]
    place = write_dataset(tmp_path / "d", [sample] * 3)
    loader = loader_of(place, "auto", data, **{"num_workers": 0, **options})
    text = loader.explain()
    assert text.startswith("torch: ")
    assert reason in text
    with pytest.raises(InvalidArgumentError, match=re.escape(reason)) as error:
        loader_of(place, "native", data, **{"num_workers": 0, **options}).explain()
    assert "backend='auto'" in str(error.value)
    with pytest.raises(InvalidArgumentError, match=re.escape(reason)):
        iter(loader_of(place, "native", data, **{"num_workers": 0, **options}))


def test_an_encrypted_dataset() -> None:
    place = GOLDEN / "fernet_sample"
    key = FernetEncryption.load(place / "fernet.pem", PASSWORD)
    loader = loader_of(place, "auto", {"encryption": key}, num_workers=0, batch_size=1)
    assert "because the dataset is encrypted" in loader.explain()
    with pytest.raises(InvalidArgumentError, match="the dataset is encrypted"):
        loader_of(place, "native", {"encryption": key}).explain()


def test_explain(tmp_path: Path) -> None:
    place = photos(tmp_path / "d")
    one = {
        "transform": {"image": vision.Compose([vision.Resize((8, 8)), vision.ToDtype("float16")])}
    }
    assert "backend='torch' was asked for" in loader_of(place, "torch").explain()
    text = loader_of(place, "auto", one, num_workers=3).explain()
    assert text.startswith("native: 3 threads in C++ decode")
    assert "['image'] (JPEG fused with Resize+ToDtype to float16)" in text
    assert "['id'] (int)" in text
    assert "1 thread " in loader_of(place, "auto", num_workers=1).explain()
    assert "this thread " in loader_of(place, "auto", num_workers=0).explain()
    rows = [np.arange(40, dtype=np.uint16)] * 4
    tokens = write_dataset(tmp_path / "t", rows, chunk_size=80, item_loader=TokensLoader())
    loader = loader_of(tokens, "auto", {"item_loader": TokensLoader(8, torch.int64)})
    assert "blocks of 8 tokens of int64" in loader.explain()
    mixed = write_dataset(
        tmp_path / "m", [(np.zeros((2, 3)), torch.ones(4, dtype=torch.bfloat16), "s")] * 2
    )
    text = loader_of(mixed, "auto").explain()
    for part in ("[0] (float64[2, 3])", "[1] (torch.bfloat16[4])", "[2] (str)"):
        assert part in text


def test_unknown_choices(tmp_path: Path) -> None:
    place = photos(tmp_path / "d")
    with pytest.raises(
        InvalidArgumentError, match="backend='cuda' is unknown; use 'auto', 'native', 'torch'"
    ):
        loader_of(place, "cuda")
    with pytest.raises(
        InvalidArgumentError, match="on_error='ignore' is unknown; use 'raise', 'skip'"
    ):
        loader_of(place, "auto", on_error="ignore")


def test_threads_are_shared_by_the_ranks_of_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = photos(tmp_path / "d")
    monkeypatch.setattr("stoker.streaming.dataloader.usable_cpus", lambda: 12)
    assert "12 threads" in loader_of(place, "native", num_workers=None).explain()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert "3 threads" in loader_of(place, "native", num_workers=None).explain()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "48")
    assert "1 thread " in loader_of(place, "native", num_workers=None).explain()


# ---- damage


@pytest.mark.parametrize("workers", [0, 2])
def test_a_damaged_image_is_named(tmp_path: Path, workers: int) -> None:
    place = photos(tmp_path / "d", bad=(13,))
    loader, good = loader_of(place, "native", num_workers=workers), []
    with pytest.raises(CorruptDataError) as error:
        good.extend(batch["id"].tolist() for batch in loader)
    assert good == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]], "all earlier batches come first"
    text = str(error.value)
    assert "sample at position 13 of epoch 1 (item 3, bytes " in text
    assert "leaf ['image'] (stored as 'jpeg')" in text
    assert "chunk-0-2.bin" in text
    assert error.value.path == str(place / "chunk-0-2.bin")
    first, last = map(int, re.findall(r"bytes (\d+) to (\d+)", text)[0])
    assert 0 < first < last <= (place / "chunk-0-2.bin").stat().st_size
    assert loader.state_dict()["position"] == 12
    with pytest.raises(CorruptDataError):
        list(loader), "the next epoch tells it again"


def test_images_of_two_sizes(tmp_path: Path) -> None:
    sizes = [(20, 30)] * 6 + [(21, 30)]
    place = write_dataset(tmp_path / "d", [{"image": opened(jpeg(*size))} for size in sizes])
    for on_error in ("raise", "skip"):
        with pytest.raises(InvalidArgumentError) as error:
            list(loader_of(place, "native", on_error=on_error))
        text = str(error.value)
        for part in (
            "chunk-0-1.bin", "position 6 of epoch 1 (item 1, bytes ", "leaf ['image'] (stored as 'jpeg')",
            "the image has 21 x 30 pixels (height x width), expected 20 x 30",
            "add vision.Resize or vision.RandomResizedCrop as a transform",
        ):  # fmt: skip
            assert part in text
    data = {"transform": {"image": vision.Resize((8, 8))}}
    assert len(list(loader_of(place, "native", data))) == 2


SHAPES: dict[str, tuple[Any, Any, list[str]]] = {
    "numpy": (np.zeros((2, 3), np.float32), np.zeros((2, 4), np.float32), ["shape (2, 3)", "shape (2, 4)"]),
    "tensor": (torch.zeros(2, 3), torch.zeros(3, 3), ["shape (2, 3)", "shape (3, 3)"]),
    "rank": (np.zeros((2, 3)), np.zeros((2, 3, 1)), ["shape (2, 3)", "shape (2, 3, 1)"]),
    "flat": (np.zeros(4, np.int32), np.zeros(5, np.int32), ["expected 16 bytes", "found 20"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("beside", [0, "text"])
def test_arrays_of_two_shapes(tmp_path: Path, name: str, beside: Any) -> None:
    first, other, parts = SHAPES[name]
    samples = [{"x": first, "b": beside}] * 6 + [{"x": other, "b": beside}]
    place = write_dataset(tmp_path / "d", samples)
    with pytest.raises((CorruptDataError, InvalidArgumentError)) as error:
        list(loader_of(place, "native"))
    text = str(error.value)
    for part in (*parts, "chunk-0-1.bin", "item 1, bytes ", "leaf ['x']", "as in the first sample", "collate_fn"):  # fmt: skip
        assert part in text


def test_another_shape_is_no_damage(tmp_path: Path) -> None:
    place = write_dataset(tmp_path / "d", [np.zeros((2, 3))] * 6 + [np.zeros((2, 4))])
    with pytest.raises(RuntimeError):
        list(loader_of(place, "torch", on_error="skip"))
    with pytest.raises(InvalidArgumentError):
        list(loader_of(place, "native", on_error="skip"))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_damaged_chunk(tmp_path: Path, workers: int) -> None:
    place = photos(tmp_path / "d")
    flip(place / "chunk-0-3.bin", -1)
    ids: list[int] = []
    with pytest.raises(
        CorruptDataError, match=r"chunk-0-3\.bin.*checksum|checksum.*chunk-0-3\.bin"
    ):
        ids.extend(numbers(loader_of(place, "native", batch_size=5, num_workers=workers)))
    assert ids == list(range(15))


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_missing_chunk_is_an_error_in_any_case(
    tmp_path: Path, backend: str, on_error: str
) -> None:
    place = photos(tmp_path / "d")
    (place / "chunk-0-2.bin").unlink()
    ids: list[int] = []
    with pytest.raises(NotFoundError, match=r"chunk-0-2\.bin"):
        ids.extend(numbers(loader_of(place, backend, batch_size=5, on_error=on_error)))
    assert ids == list(range(10))


@pytest.mark.parametrize("workers", [0, 2])
def test_text_that_is_none(tmp_path: Path, workers: int) -> None:
    place = write_dataset(tmp_path / "d", [{"s": f"text {i}"} for i in range(6)])
    path = place / "chunk-0-0.bin"
    path.write_bytes(path.read_bytes().replace(b"text 2", b"te\xff\xfe 2"))
    with pytest.raises(CorruptDataError, match=r"leaf .*'s'.*UTF-8"):
        list(loader_of(place, "native", {"verify": "never"}, num_workers=workers))
    skipping = loader_of(place, "native", {"verify": "never"}, on_error="skip", num_workers=workers)
    assert [b["s"] for b in skipping] == [["text 0", "text 1", "text 3"], ["text 4", "text 5"]]


# ---- leaving damage out


@pytest.mark.parametrize("damage", ["images", "chunk"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_both_backends_leave_out_the_same(tmp_path: Path, damage: str, shuffle: bool) -> None:
    bad = (1, 2, 13, 22) if damage == "images" else ()
    place = photos(tmp_path / "d", bad=bad)
    if damage == "chunk":
        flip(place / "chunk-0-2.bin", -1)
    lost = 4 if damage == "images" else 5
    data = {"shuffle": shuffle, "seed": 1, "transform": {"image": vision.RandomResizedCrop(9)}}
    size = 12 if damage == "chunk" else 6
    results = []
    for backend, workers in (("native", 0), ("native", 3), ("torch", 0), ("torch", 2)):
        options = {"batch_size": size, "on_error": "skip", "num_workers": workers}
        loader = loader_of(place, backend, data, **options)
        whole = prints(loader)
        assert loader.stats()["skipped"] == lost
        resumed = loader_of(place, backend, data, **options)
        head = prints(resumed, 1)
        state = resumed.state_dict()
        assert state["position"] == size, "those left out count"
        resumed.load_state_dict(json.loads(json.dumps(state)))
        assert head + prints(resumed) == whole
        results.append(whole)
    assert all(result == results[0] for result in results)
    assert len(results[0]) == -(-N // size)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_without_a_good_sample_is_an_error(tmp_path: Path, backend: str) -> None:
    place = photos(tmp_path / "d", bad=(4, 5, 6, 7))
    loader = loader_of(place, backend, on_error="skip")
    batches = iter(loader)
    assert next(batches)["id"].tolist() == [0, 1, 2, 3]
    with pytest.raises(CorruptDataError):
        next(batches)
    assert loader.state_dict()["position"] == 4


def test_samples_one_by_one_without_the_damaged(tmp_path: Path) -> None:
    place = photos(tmp_path / "d", bad=(1, 4, 5, 22))
    for workers in (0, 2):
        options = {"batch_size": None, "on_error": "skip", "num_workers": workers}
        loader, ids = loader_of(place, "auto", **options), []
        for sample in loader:
            ids.append(sample["id"])
            if len(ids) == 6:
                break
        assert loader.stats()["skipped"] == 3
        assert ids == [0, 2, 3, 6, 7, 8]
        assert loader.state_dict()["position"] == 9
        rest = loader_of(place, "auto", **options)
        rest.load_state_dict(loader.state_dict())
        assert [s["id"] for s in rest] == list(range(9, 22))


def test_failing_functions_raise_all_the_same(tmp_path: Path) -> None:
    place = photos(tmp_path / "d")

    def failing(sample: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        list(loader_of(place, "auto", {"transform": failing}, num_workers=0, on_error="skip"))


def test_the_first_sample_may_be_damaged(tmp_path: Path) -> None:
    place = photos(tmp_path / "d", bad=(0,))
    ids = [b["id"].tolist() for b in loader_of(place, "native", on_error="skip")]
    assert ids[:2] == [[1, 2, 3], [4, 5, 6, 7]]
    with pytest.raises(CorruptDataError):
        list(loader_of(place, "native"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_first_file_may_be_no_image_at_all(tmp_path: Path, backend: str) -> None:
    place = photos(tmp_path / "d")
    path = place / "chunk-0-0.bin"
    flip(path, path.read_bytes().index(b"\xff\xd8\xff"))
    loader = loader_of(place, backend, {"verify": "never"}, on_error="skip")
    assert list(numbers(loader)) == list(range(1, N))
    with pytest.raises(CorruptDataError, match=r"\['image'\]"):
        list(loader_of(place, backend, {"verify": "never"}))


@pytest.mark.parametrize("shuffle", [False, True])
def test_both_backends_leave_out_the_same_tokens(tmp_path: Path, shuffle: bool) -> None:
    rows = (np.arange(i, i + 100, dtype=np.uint16) for i in range(9))
    place = write_dataset(tmp_path / "t", rows, chunk_size=300, item_loader=TokensLoader())
    flip(place / "chunk-0-1.bin", -1)
    data = {"item_loader": TokensLoader(25, torch.int64), "shuffle": shuffle}
    options = {"batch_size": 20, "on_error": "skip"}
    native, torchs = (loader_of(place, backend, data, **options) for backend in BACKENDS)
    assert prints(native) == prints(torchs)
    assert native.stats()["skipped"] == torchs.stats()["skipped"] == 12
    with pytest.raises(CorruptDataError, match=r"chunk-0-1\.bin"):
        list(loader_of(place, "native", data))


# ---- stats

TIMES = {"wait_data_s", "read_s", "decode_s", "resample_s", "store_s", "wait_consumer_s"}  # fmt: skip
COMMON = {"backend", "batches", "skipped", "elapsed_s", "consumer_wait_s", "verdict"}


@pytest.mark.parametrize("workers", [0, 2])
def test_stats_of_the_native_backend(tmp_path: Path, workers: int) -> None:
    place = photos(tmp_path / "d")
    loader = loader_of(place, "native", num_workers=workers)
    assert loader.stats()["batches"] == 0
    list(loader)
    stats = loader.stats()
    assert set(stats) == COMMON | TIMES | {"bytes_read", "samples", "queued"}
    assert (stats["backend"], stats["batches"], stats["samples"]) == ("native", 6, N)
    assert (stats["skipped"], stats["queued"]) == (0, 0)
    items = sum(int(f.stat().st_size) - 4 * (1 + 6) for f in place.glob("*.bin")) + 4 * 2
    assert stats["bytes_read"] == items, "what the chunks hold besides their headers"
    assert all(stats[name] >= 0 for name in TIMES)
    assert min(stats["decode_s"], stats["read_s"], stats["store_s"]) > 0
    assert stats["consumer_wait_s"] <= stats["elapsed_s"]
    assert stats["verdict"].startswith("bound by ")
    iterator = iter(loader)
    next(iterator)
    assert loader.stats()["batches"] == 1, "each epoch counts anew"


def test_stats_of_the_torch_backend(tmp_path: Path) -> None:
    loader = loader_of(photos(tmp_path / "d"), "torch")
    list(loader)
    stats = loader.stats()
    assert set(stats) == COMMON
    assert (stats["backend"], stats["batches"], stats["skipped"]) == ("torch", 6, 0)


@pytest.mark.parametrize(
    ("waited", "engine", "verdict"),
    [
        (0.1, {}, "bound by the consumer"),
        (50.0, None, "bound by the workers"),
        (50.0, {"wait_data_ns": 180}, "bound by reading"),
        (50.0, {"decode_ns": 90, "resample_ns": 20}, "bound by decoding: most time goes into JPEG decoding"),
        (50.0, {"decode_ns": 10, "resample_ns": 20}, "bound by decoding: most time goes into resampling"),
        (50.0, {"store_ns": 20}, "bound by decoding: most time goes into copying leaves"),
        (50.0, {"read_ns": 20}, "bound by decoding: most time goes into reading"),
    ],
)  # fmt: skip
def test_verdicts(waited: float, engine: dict[str, int] | None, verdict: str) -> None:
    """Of an iteration of a hundred seconds on two threads."""
    stats = LoaderStats("native" if engine is not None else "torch", threads=2)
    stats._start -= 100.0
    stats.took(waited)
    names = ["wait_data_ns", "read_ns", "decode_ns", "resample_ns", "store_ns"]
    counted = None
    if engine is not None:
        counted = {name: engine.get(name, 0) * 10**9 for name in names} | {
            "batches": 3,
            "skipped": 1,
        }
    summary = stats.summary(counted)
    assert summary["verdict"].startswith(verdict)
    assert summary["batches"] == 1
    assert summary["skipped"] == (0 if engine is None else 1)
