# SPDX-License-Identifier: Apache-2.0
"""Damage of every kind: found, named, never read as a value."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from datasets import write_dataset
from stoker import StreamingDataLoader, StreamingDataset, TokensLoader
from stoker.exceptions import (
    CorruptDataError,
    DatasetFormatError,
    StokerError,
    UnsupportedDataError,
)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write_dataset(
        tmp_path / "d", [{"i": i, "v": np.arange(50) + i, "s": "x" * i} for i in range(20)]
    )


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x40
    path.write_bytes(data)


def test_missing_chunk(dataset: Path) -> None:
    (dataset / "chunk-0-1.bin").unlink()
    reader = StreamingDataset(dataset)
    assert reader[0]["i"] == 0
    with pytest.raises(FileNotFoundError, match=r"chunk-0-1\.bin") as error:
        reader[5]
    assert isinstance(error.value, StokerError)
    with pytest.raises(FileNotFoundError, match=r"chunk-0-1\.bin"):
        list(reader)


@pytest.mark.parametrize("size", [0, 1, 3, 30, -1])
def test_truncated_chunk(dataset: Path, size: int) -> None:
    path = dataset / "chunk-0-2.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[:size])
    with pytest.raises(CorruptDataError) as error:
        StreamingDataset(dataset, verify="never")[12]
    text = str(error.value)
    assert "chunk-0-2.bin" in text
    assert str(len(whole)) in text
    assert str(len(whole[:size])) in text


def test_appended_bytes(dataset: Path) -> None:
    with (dataset / "chunk-0-2.bin").open("ab") as file:
        file.write(b"x")
    with pytest.raises(CorruptDataError, match=r"chunk-0-2\.bin"):
        StreamingDataset(dataset)[12]


def test_a_flipped_byte_is_found_when_iterating(dataset: Path) -> None:
    flip(dataset / "chunk-0-3.bin", -1)
    reader = StreamingDataset(dataset)
    got = []
    with pytest.raises(CorruptDataError, match="checksum") as error:
        got.extend(sample["i"] for sample in reader)
    assert got == list(range(15)), "all earlier samples are delivered first"
    assert "chunk-0-3.bin" in str(error.value)


def test_verify_modes(dataset: Path) -> None:
    flip(dataset / "chunk-0-0.bin", -1)
    assert StreamingDataset(dataset, verify="first")[0]["i"] == 0, (
        "a lone item reads only what it needs"
    )
    with pytest.raises(CorruptDataError, match="checksum"):
        StreamingDataset(dataset, verify="always")[0]
    assert len(list(StreamingDataset(dataset, verify="never"))) == 20
    with pytest.raises(ValueError, match="verify"):
        StreamingDataset(dataset, verify="sometimes")  # type: ignore[arg-type]


def test_a_flipped_byte_reaches_the_user_from_a_worker(dataset: Path) -> None:
    flip(dataset / "chunk-0-3.bin", -1)
    loader = StreamingDataLoader(
        StreamingDataset(dataset, transform=lambda s: s["i"]), batch_size=5, num_workers=2
    )
    with pytest.raises(CorruptDataError, match=r"chunk-0-3\.bin"):
        list(loader)
    with pytest.raises(CorruptDataError, match=r"chunk-0-3\.bin"):
        list(
            DataLoader(
                StreamingDataset(dataset, transform=lambda s: s["i"]), batch_size=5, num_workers=1
            )
        )


def test_item_count_differs_from_the_index(dataset: Path) -> None:
    document = json.loads((dataset / "index.json").read_text())
    document["chunks"][1]["chunk_size"] = 4
    (dataset / "index.json").write_text(json.dumps(document))
    with pytest.raises(CorruptDataError, match=r"chunk-0-1\.bin") as error:
        StreamingDataset(dataset)[6]
    assert "4" in str(error.value)
    assert "5" in str(error.value)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_damage_gives_a_wrong_value_or_a_crash(dataset: Path, data: st.DataObject) -> None:
    """With checksums on, whatever is done to a chunk is an error; with them off it is an error or some value, no crash."""
    path = dataset / "chunk-0-0.bin"
    whole = path.read_bytes()
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged)
    try:
        if bytes(damaged) != whole:
            with pytest.raises(CorruptDataError):
                list(StreamingDataset(dataset))
        try:
            list(StreamingDataset(dataset, verify="never"))
        except (StokerError, pickle.UnpicklingError) as error:
            assert "chunk-0-0.bin" in str(error)  # noqa: PT017 - no error is fine too
    finally:
        path.write_bytes(whole)


def test_unknown_leaf_format_names_the_serializer_needed(dataset: Path) -> None:
    document = json.loads((dataset / "index.json").read_text())
    document["config"]["data_format"][2] = "zzz:1"
    (dataset / "index.json").write_text(json.dumps(document))
    with pytest.raises(UnsupportedDataError, match="zzz"):
        StreamingDataset(dataset)


@pytest.mark.parametrize(
    "data_format", ["no_header_numpy", "no_header_numpy:99", "no_header_tensor:x"]
)
def test_unknown_dtype(dataset: Path, data_format: str) -> None:
    document = json.loads((dataset / "index.json").read_text())
    document["config"]["data_format"][1] = data_format
    (dataset / "index.json").write_text(json.dumps(document))
    with pytest.raises(CorruptDataError, match=data_format):
        StreamingDataset(dataset)


def test_wrong_item_loader(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(DatasetFormatError, match="PyTreeLoader"):
        StreamingDataset(dataset, item_loader=TokensLoader(block_size=4))
    tokens = write_dataset(
        tmp_path / "t", [np.arange(9)] * 3, chunk_size=100, item_loader=TokensLoader()
    )
    with pytest.raises(DatasetFormatError, match="TokensLoader"):
        StreamingDataset(tokens)
    with pytest.raises(ValueError, match="block_size"):
        StreamingDataset(tokens, item_loader=TokensLoader())
    for bad in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="block_size"):
            TokensLoader(block_size=bad)  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="block_size=100"):
        assert len(StreamingDataset(tokens, item_loader=TokensLoader(block_size=100))) == 0


def test_a_serializer_that_raises_keeps_its_exception(dataset: Path) -> None:
    from stoker.streaming.serializers import StringSerializer

    class Picky(StringSerializer):
        def deserialize(self, data: bytes) -> str:
            if len(data) == 7:
                msg = "no sevens"
                raise LookupError(msg)
            return super().deserialize(data)

    reader = StreamingDataset(dataset, serializers={"str": Picky()})
    assert reader[6]["s"] == "x" * 6
    with pytest.raises(LookupError, match="no sevens") as error:
        reader[7]
    assert any("['s']" in note for note in error.value.__notes__)
    assert any("sample 7" in note for note in error.value.__notes__)


def test_reading_never_changes_the_folder(dataset: Path, tmp_path: Path) -> None:
    compressed = write_dataset(tmp_path / "z", [{"a": "text " * 100}] * 12, compression="zstd")
    for directory in (dataset, compressed):
        before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in directory.iterdir()}
        directory.chmod(0o555)
        reader: Any = StreamingDataset(directory, shuffle=True)
        assert len(list(reader)) == len(reader)
        reader[3]
        directory.chmod(0o755)
        assert {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in directory.iterdir()} == before


def test_damaged_compressed_chunk(tmp_path: Path) -> None:
    directory = write_dataset(
        tmp_path / "z", [{"a": "text " * 100, "i": i} for i in range(12)], compression="zstd:3"
    )
    assert (directory / "chunk-0-0.zstd:3.bin").exists()
    path = directory / "chunk-0-1.zstd:3.bin"
    whole = path.read_bytes()
    for damaged, verify in (
        (whole[:-3], "never"),
        (bytes(len(whole)), "first"),
        (bytes(len(whole)), "never"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(CorruptDataError, match=r"chunk-0-1\.zstd"):
            StreamingDataset(directory, verify=verify)[5]  # type: ignore[arg-type]
    path.write_bytes(whole)
    assert [s["i"] for s in StreamingDataset(directory)] == list(range(12))
