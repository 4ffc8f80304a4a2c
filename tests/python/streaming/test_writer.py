# SPDX-License-Identifier: Apache-2.0
"""BinaryWriter: limits, order of samples, and samples that differ from the first."""

from __future__ import annotations

import json
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from datasets import write_dataset
from stoker import StreamingDataset, TokensLoader
from stoker.exceptions import (
    AlreadyExistsError,
    InvalidArgumentError,
    SampleStructureError,
    UnsupportedDataError,
)
from stoker.streaming import BinaryWriter
from stoker.streaming.serializers import Serializer


def chunk_entries(directory: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads((directory / "index.json").read_text())["chunks"]
    return entries


def test_limits_are_checked_at_once(tmp_path: Path) -> None:
    for limits in (
        {},
        {"chunk_size": 1, "chunk_bytes": 1},
        {"chunk_size": 0},
        {"chunk_size": True},
        {"chunk_bytes": "1XB"},
        {"chunk_size": "5"},
    ):
        with pytest.raises(InvalidArgumentError, match="chunk_"):
            BinaryWriter(tmp_path, **limits)  # type: ignore[arg-type]
    for compression in ("gzip", "zstd:0", "zstd:23", "zstd:x", ""):
        with pytest.raises(ValueError, match="zstd"):
            BinaryWriter(tmp_path, chunk_size=1, compression=compression)


def test_chunk_bytes_counts_items_not_headers(tmp_path: Path) -> None:
    """The rule and the sizes litdata has: see FORMAT.md, "When a chunk is closed"."""
    samples = [(i, "x" * (10 + i)) for i in range(30)]
    directory = write_dataset(tmp_path / "d", samples, chunk_bytes=300)
    sizes = [8 + 8 + 10 + i for i in range(30)]
    expected: list[list[int]] = [[]]
    for size in sizes:
        if sum(expected[-1]) + size > 300:
            expected.append([])
        expected[-1].append(size)
    assert [c["chunk_size"] for c in chunk_entries(directory)] == [len(e) for e in expected]
    assert [c["chunk_bytes"] for c in chunk_entries(directory)] == [
        sum(e) + 8 + 4 * len(e) for e in expected
    ]


def test_one_sample_above_the_limit_gets_its_own_chunk_and_a_warning(tmp_path: Path) -> None:
    samples = [b"a", b"b", b"c" * 1000, b"d", b"e"]
    with pytest.warns(UserWarning, match="Sample 2 alone"):
        directory = write_dataset(tmp_path / "d", samples, chunk_bytes=100)
    assert [c["chunk_size"] for c in chunk_entries(directory)] == [2, 1, 2]
    assert list(StreamingDataset(directory)) == samples


def test_token_chunks_are_limited_by_tokens(tmp_path: Path) -> None:
    samples = [torch.arange(n) for n in (5, 3, 4, 12, 1)]
    with pytest.warns(UserWarning, match="12 tokens"):
        directory = write_dataset(
            tmp_path / "t", samples, chunk_size=10, item_loader=TokensLoader()
        )
    assert [(c["chunk_size"], c["dim"]) for c in chunk_entries(directory)] == [
        (2, 8),
        (1, 4),
        (1, 12),
        (1, 1),
    ]
    for block_size in (1, 3, 4):
        blocks = list(StreamingDataset(directory, item_loader=TokensLoader(block_size=block_size)))
        runs = [torch.cat(samples[:2]), *samples[2:]]
        expected = [
            run[i : i + block_size]
            for run in runs
            for i in range(0, len(run) // block_size * block_size, block_size)
        ]
        assert [b.tolist() for b in blocks] == [e.tolist() for e in expected]


@pytest.mark.parametrize("sample", [5, (torch.ones(2), torch.ones(2)), torch.ones(2, 2), "text"])
def test_what_is_no_token_sample_is_refused(tmp_path: Path, sample: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="1-D"):
        write_dataset(tmp_path / "t", [sample], item_loader=TokensLoader())


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({"a": 1}, {"a": 1.5}, ["['a']", "float", "int"]),
        ({"a": 1}, {"a": True}, ["['a']", "bool", "int"]),
        ({"a": "x"}, {"a": None}, ["['a']", "NoneType", "str"]),
        ({"a": 1}, {"a": 2**70}, ["['a']", "int"]),
        (
            {"a": np.ones(3)},
            {"a": np.ones(3, np.float32)},
            ["['a']", "no_header_numpy:10", "no_header_numpy:9"],
        ),
        ({"a": np.ones(3)}, {"a": np.ones((3, 1))}, ["['a']", "(3, 1)"]),
        ({"a": torch.ones(3)}, {"a": np.ones(3)}, ["['a']", "ndarray", "Tensor"]),
        ({"a": b"x"}, {"a": [1, 2]}, ["['a']", "list", "bytes"]),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, ["['a']", "length 2", "length 3", "varying length"]),
        ({"a": 1, "b": 2}, {"a": 1}, ["['a', 'b']", "['a']"]),
        ((1, 2), [1, 2], ["list", "(*, *)"]),
        (1, {"a": 1}, ["the sample itself", "dict", "int"]),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_sample_that_differs_is_refused_with_everything_one_needs(
    tmp_path: Path, first: Any, second: Any, words: list[str]
) -> None:
    with pytest.raises(SampleStructureError) as error:
        write_dataset(tmp_path / "d", [first, first, second])
    assert "ample 2" in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_ints_continue_a_float_leaf_when_nothing_is_lost(tmp_path: Path) -> None:
    got = list(StreamingDataset(write_dataset(tmp_path / "d", [0.5, 0, -3, np.float64(2.25)])))
    assert got == [0.5, 0.0, -3.0, 2.25]
    assert all(type(x) is float for x in got)
    with pytest.raises(SampleStructureError):
        write_dataset(tmp_path / "e", [0.5, 2**60 + 1])


class Colour(IntEnum):
    RED = 1


@pytest.mark.parametrize(
    "leaf",
    [
        None,
        1 + 2j,
        {1, 2},
        bytearray(b"x"),
        np.int64(3),
        Colour.RED,
        2**80,
        np.str_("s"),
        float("nan"),
        -0.0,
        -(2**63),
        "",
        "é\x00",
        b"",
        "/etc/passwd",
    ],
    ids=repr,
)
def test_every_leaf_comes_back_as_its_own_type(tmp_path: Path, leaf: Any) -> None:
    (got,) = StreamingDataset(write_dataset(tmp_path / "d", [{"x": leaf}]))
    assert type(got["x"]) is type(leaf)
    assert repr(got["x"]) == repr(leaf)


@pytest.mark.parametrize("sample", [{}, (), [], {"a": {}, "b": []}, {"a": ((), [{}])}], ids=repr)
def test_samples_without_leaves(tmp_path: Path, sample: Any) -> None:
    assert list(StreamingDataset(write_dataset(tmp_path / "d", [sample] * 7))) == [sample] * 7


def test_numbers_may_come_out_of_order_but_once_and_without_gaps(tmp_path: Path) -> None:
    writer = BinaryWriter(tmp_path / "d", chunk_size=3, rank=0)
    paths = [writer.add_item(i, i) for i in (1, 0, 4, 3, 2, 5, 6)]
    assert [p for p in paths if p] == [
        str(tmp_path / "d" / "chunk-0-0.bin"),
        str(tmp_path / "d" / "chunk-0-1.bin"),
    ]
    with pytest.raises(ValueError, match="already written"):
        writer[3] = 3
    writer[8] = 8
    with pytest.raises(ValueError, match="Sample 7 is missing"):
        writer.done()
    writer[7] = 7
    assert writer.done() == writer.done()
    with pytest.raises(ValueError, match="2 writers"):
        writer.merge(2)
    writer.merge()
    assert list(StreamingDataset(tmp_path / "d")) == list(range(9))
    with pytest.raises(ValueError, match="done"):
        writer.append(9)


def test_an_existing_chunk_file_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "chunk-0-0.bin").write_bytes(b"precious")
    writer = BinaryWriter(tmp_path, chunk_size=1, rank=0)
    writer.append(1)
    with pytest.raises(AlreadyExistsError, match=r"chunk-0-0\.bin"):
        writer.append(2)
    assert (tmp_path / "chunk-0-0.bin").read_bytes() == b"precious"
    assert [p.name for p in tmp_path.iterdir()] == ["chunk-0-0.bin"], (
        "no temporary file stays behind"
    )


def test_a_leaf_above_4_gib_is_refused_with_that_reason(tmp_path: Path) -> None:
    """The zeros are never touched, so this takes no memory."""
    writer = BinaryWriter(tmp_path / "d", chunk_bytes="1GB", rank=0)
    with pytest.raises(InvalidArgumentError, match="4 GiB"):
        writer.append(np.zeros(2**32 + 1, np.uint8))


class Celsius:
    def __init__(self, degrees: float) -> None:
        self.degrees = degrees

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Celsius) and other.degrees == self.degrees

    __hash__ = None  # type: ignore[assignment]


class CelsiusSerializer(Serializer):
    def serialize(self, item: Celsius) -> tuple[bytes, str | None]:
        return repr(item.degrees).encode(), "celsius:v1"

    def deserialize(self, data: bytes) -> Celsius:
        return Celsius(float(data))

    def can_serialize(self, item: Any) -> bool:
        return isinstance(item, Celsius)


def test_user_serializers(tmp_path: Path) -> None:
    samples = [{"t": Celsius(i / 3), "n": i} for i in range(6)]
    directory = write_dataset(tmp_path / "d", samples, serializers={"celsius": CelsiusSerializer()})
    assert (
        StreamingDataset(directory, serializers={"celsius": CelsiusSerializer()})[4] == samples[4]
    )
    with pytest.raises(UnsupportedDataError, match="celsius"):
        StreamingDataset(directory)
    with pytest.raises(InvalidArgumentError, match="serializers"):
        write_dataset(tmp_path / "e", samples, serializers={"celsius": CelsiusSerializer})


def test_a_user_serializer_may_take_whole_lists(tmp_path: Path) -> None:
    class Words(Serializer):
        def serialize(self, item: list[str]) -> tuple[bytes, str | None]:
            return "\n".join(item).encode(), None

        def deserialize(self, data: bytes) -> list[str]:
            return data.decode().split("\n")

        def can_serialize(self, item: Any) -> bool:
            return isinstance(item, list) and all(isinstance(x, str) for x in item)

    samples = [{"w": ["a"] * n} for n in (1, 3, 2)]
    directory = write_dataset(tmp_path / "d", samples, serializers={"words": Words()})
    assert list(StreamingDataset(directory, serializers={"words": Words()})) == samples
