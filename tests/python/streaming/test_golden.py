# SPDX-License-Identifier: Apache-2.0
"""Datasets that real litdata wrote: every value of every sample; and layouts that are refused with a reason."""

from __future__ import annotations

import json
import pickle
from collections import OrderedDict, deque
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from golden_values import GOLDEN, PASSWORD, check, expectations
from stoker import StreamingDataset, TokensLoader, complete_dataset
from stoker.encryption import Encryption, FernetEncryption, RSAEncryption
from stoker.exceptions import DatasetFormatError, StokerError, UnsupportedDataError
from stoker.streaming.item_loader import PyTreeLoader
from stoker.streaming.serializers import AudioSerializer, VideoSerializer

NAMES = sorted(expectations())
BYTES = {"audio": AudioSerializer(decode="bytes"), "video": VideoSerializer(decode="bytes")}


@pytest.fixture(autouse=True)
def without_pyg(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read graphs as stoker's own class, also where torch-geometric is installed."""
    monkeypatch.setattr("stoker._optional.find", lambda module: None)


@cache
def key(path: Path) -> Encryption:
    kind = FernetEncryption if path.name == "fernet.pem" else RSAEncryption
    return kind.load(path, PASSWORD)


def open_golden(name: str, directory: Path | None = None, **options: Any) -> StreamingDataset:
    """Open a dataset with the options that its entry asks for."""
    read = expectations()[name].get("read", {})
    directory = GOLDEN / name if directory is None else directory
    if "block_size" in read:
        options["item_loader"] = TokensLoader(block_size=read["block_size"])
    if "key_file" in read:
        options["encryption"] = key(GOLDEN / name / read["key_file"])
    if "as_bytes" in read:
        options["serializers"] = {kind: BYTES[kind] for kind in read["as_bytes"]}
    return StreamingDataset(directory, **options)


def check_all(name: str, samples: list[Any]) -> None:
    """Compare samples in dataset order with the expected ones."""
    wanted = expectations()[name]["samples"]
    index = json.loads(next((GOLDEN / name).glob("*index.json")).read_bytes())
    jpeg = any(f.startswith(("jpeg", "image:jpg")) for f in index["config"]["data_format"])
    assert len(samples) == len(wanted) == expectations()[name]["len"]
    for i, (expected, sample) in enumerate(zip(wanted, samples, strict=True)):
        check(expected, sample, f"{name}[{i}]", jpeg)


def files_of(directory: Path) -> dict[str, bytes]:
    return {
        p.relative_to(directory).as_posix(): p.read_bytes()
        for p in directory.rglob("*")
        if p.is_file()
    }


def test_directories_and_expectations_agree() -> None:
    assert {p.name for p in GOLDEN.iterdir() if p.is_dir()} == {*NAMES, *REFUSED}


def pixel(value: int) -> torch.Tensor:
    return torch.full((3, 1, 1), value, dtype=torch.uint8)


PIXEL = {"t": "tensor", "dtype": "uint8", "shape": [3, 1, 1], "b64": "CAgI"}  # three times 8
ONE = {"t": "int", "v": 1}


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        (ONE, True),
        (ONE, 1.0),
        (ONE, np.int64(1)),
        (ONE, 2),
        ({"t": "float", "v": (0.0).hex()}, -0.0),
        ({"t": "bytes", "b64": "YQ=="}, memoryview(b"a")),
        ({"t": "list", "v": [ONE]}, (1,)),
        ({"t": "list", "v": [ONE]}, [1, 1]),
        ({"t": "dict", "v": [[{"t": "str", "v": "a"}, ONE]]}, OrderedDict(a=1)),
        ({"t": "deque", "maxlen": 3, "v": [ONE]}, deque([1])),
        ({"t": "ndarray", "dtype": "|u1", "shape": [1], "b64": "AQ=="}, np.ones(1, np.int8)),
        ({"t": "ndarray", "dtype": "|u1", "shape": [], "b64": "AQ=="}, np.ones(1, np.uint8)),
        (PIXEL, pixel(9)),
        (PIXEL, pixel(8).numpy()),
    ],
    ids=str,
)
def test_the_comparison_bites(expected: dict[str, Any], value: Any) -> None:
    with pytest.raises(AssertionError):
        check(expected, value)


def test_only_pixels_of_a_jpeg_may_differ() -> None:
    check(PIXEL, pixel(8))
    check(PIXEL, pixel(10), jpeg=True)
    with pytest.raises(AssertionError, match="pixels differ by up to 3"):
        check(PIXEL, pixel(11), jpeg=True)


@pytest.mark.parametrize("name", NAMES)
def test_by_number(name: str) -> None:
    dataset = open_golden(name)
    assert len(dataset) == expectations()[name]["len"]
    check_all(name, [dataset[i] for i in range(len(dataset))])
    check_all(name, [dataset[i - len(dataset)] for i in range(len(dataset))])


@pytest.mark.parametrize("name", NAMES)
def test_by_iteration(name: str) -> None:
    before = files_of(GOLDEN / name)
    check_all(name, list(open_golden(name, verify="always")))
    assert files_of(GOLDEN / name) == before


@pytest.mark.parametrize("name", NAMES)
def test_after_travelling_in_any_order(name: str) -> None:
    dataset = pickle.loads(pickle.dumps(open_golden(name)))
    backwards = [dataset[i] for i in reversed(range(len(dataset)))]
    check_all(name, backwards[::-1])


class Twin(PyTreeLoader):
    """A loader of a user: not the built-in class, so every sample goes through its methods."""


Twin.__name__ = "PyTreeLoader"


def plain(name: str) -> bool:
    """Say whether chunks are read as they lie: no tokens, no encryption, no compression."""
    index = json.loads(next((GOLDEN / name).glob("*index.json")).read_bytes())
    read = expectations()[name].get("read", {})
    return index["config"]["compression"] is None and not {"block_size", "key_file"} & set(read)


@pytest.mark.parametrize("name", [n for n in NAMES if plain(n)])
def test_through_the_methods_of_the_loader(name: str) -> None:
    check_all(name, list(open_golden(name, item_loader=Twin())))


def test_merged_by_complete_dataset(tmp_path: Path) -> None:
    for path, content in files_of(GOLDEN / "rank_shards").items():
        (tmp_path / path).write_bytes(content)
    complete_dataset(tmp_path)
    assert (tmp_path / "index.json").exists()
    check_all("rank_shards", list(open_golden("rank_shards", tmp_path)))


# name -> error, when it comes ("open" or "read"), and what the message must say: what was found, what to do.
REFUSED: dict[str, tuple[type[StokerError], str, tuple[str, ...]]] = {
    "mds_plain": (DatasetFormatError, "open", ("index.json", "MosaicML", "`optimize`")),
    "parquet": (UnsupportedDataError, "open", ("ParquetLoader", "Write it again")),
    "scalars_dict_arrow": (
        UnsupportedDataError,
        "read",
        ("chunk-0-0.bin", "Arrow-footer", "write the dataset again"),
    ),
    "temporal": (UnsupportedDataError, "open", ("TemporalArrayLoader", "Write it again")),
    "zstd_arrow_ipc": (
        UnsupportedDataError,
        "open",
        ("ipc_compression='zstd'", "Write it again in the classic layout"),
    ),
    "zstd_batch16": (
        UnsupportedDataError,
        "open",
        ("compression_level='batch'", "Write it again in the classic layout"),
    ),
    "zstd_sample": (
        UnsupportedDataError,
        "open",
        ("compression_level='sample'", "Write it again in the classic layout"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    error, when, words = REFUSED[name]
    if when == "open":
        with pytest.raises(error) as caught:
            StreamingDataset(GOLDEN / name)
        messages = [str(caught.value)]
    else:
        dataset = StreamingDataset(GOLDEN / name)
        messages = []
        for read in (lambda: dataset[0], lambda: dataset[-1], lambda: list(dataset)):
            with pytest.raises(error) as caught:
                read()
            messages.append(str(caught.value))
    for message in messages:
        assert name in message
        for word in words:
            assert word in message


@pytest.mark.parametrize("name", ["zstd_batch16", "scalars_dict_arrow"])
def test_refused_by_the_chunk_when_the_index_says_nothing(name: str, tmp_path: Path) -> None:
    """Framed and Arrow-footer chunks are recognised by their own bytes."""
    for path, content in files_of(GOLDEN / name).items():
        (tmp_path / path).write_bytes(content)
    index = json.loads((tmp_path / "index.json").read_bytes())
    index["config"].update(compression=None, compression_level=None)
    (tmp_path / "index.json").write_text(json.dumps(index))
    dataset = StreamingDataset(tmp_path)
    with pytest.raises(UnsupportedDataError, match=r"(framed zstd|Arrow-footer) layout"):
        dataset[0]


@pytest.mark.parametrize("name", ["tokens_int64", "tokens_int32_zstd"])
def test_tokens_need_their_loader(name: str) -> None:
    with pytest.raises(DatasetFormatError, match=r"item_loader=TokensLoader\("):
        StreamingDataset(GOLDEN / name)


@pytest.mark.parametrize(
    "name", [n for n in NAMES if "key_file" in expectations()[n].get("read", {})]
)
def test_encrypted_datasets_need_their_key(name: str) -> None:
    with pytest.raises(ValueError, match=r"is encrypted \((fernet|rsa)\)\. Pass encryption="):
        StreamingDataset(GOLDEN / name)
