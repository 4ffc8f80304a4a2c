# SPDX-License-Identifier: Apache-2.0
"""index.json: what is read, written, merged, and what is refused."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from datasets import write_dataset
from stoker import StreamingDataset, complete_dataset, is_complete_dataset
from stoker.exceptions import DatasetFormatError, NotFoundError
from stoker.streaming.index import ChunkInfo, open_index, write_document


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "d", [{"i": i} for i in range(12)])


def edit(directory: Path, **changes: Any) -> None:
    """Replace keys of index.json; a dotted key goes one level down."""
    path = directory / "index.json"
    document = json.loads(path.read_text())
    for key, value in changes.items():
        document[key] = value
    path.write_text(json.dumps(document))


def test_what_is_written(dataset: Path) -> None:
    document = json.loads((dataset / "index.json").read_text())
    assert document["config"] == {
        "chunk_bytes": None,
        "chunk_size": 5,
        "compression": None,
        "data_format": ["int"],
        "data_spec": '[1, {"type": "builtins.dict", "context": "[\\"i\\"]", "children_spec": [{"type": null, "context": null, "children_spec": []}]}]',
        "encryption": None,
        "item_loader": "PyTreeLoader",
    }
    assert [c["chunk_size"] for c in document["chunks"]] == [5, 5, 2]
    assert float(document["updated_at"]) > 0
    for chunk in document["chunks"]:
        assert (
            chunk["chunk_bytes"]
            == chunk["file_bytes"]
            == (dataset / chunk["filename"]).stat().st_size
        )
        assert len(chunk["xxh3_64"]) == 16
    assert sorted(p.name for p in dataset.iterdir()) == [
        "chunk-0-0.bin",
        "chunk-0-1.bin",
        "chunk-0-2.bin",
        "index.json",
    ]


def test_a_missing_directory_and_a_missing_index(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="does not exist"):
        StreamingDataset(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        StreamingDataset(tmp_path / "nowhere")
    with pytest.raises(DatasetFormatError, match=r"index\.json"):
        StreamingDataset(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{", '{"chunks": [', "[1, 2]", '"x"', '{"chunks": {}, "config": null}', "null"]
)
def test_what_is_no_index_is_named(dataset: Path, text: str) -> None:
    (dataset / "index.json").write_text(text)
    with pytest.raises(DatasetFormatError, match=r"index\.json"):
        StreamingDataset(dataset)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chunks": []}, "no samples"),
        ({"config": None}, "data_format"),
        ({"config": {"data_format": "int"}}, "data_format"),
        (
            {
                "config": {
                    "data_format": ["int", "int"],
                    "data_spec": '[1, {"type": null, "context": null, "children_spec": []}]',
                }
            },
            "leaves",
        ),
        ({"config": {"data_format": ["int"], "data_spec": "[1, 7]"}}, "data_spec"),
        ({"chunks": [{"filename": "a"}]}, "chunk_size"),
        (
            {"chunks": [{"filename": "a", "chunk_size": "5", "chunk_bytes": 4, "dim": None}]},
            "entry 0",
        ),
        (
            {"chunks": [{"filename": "a", "chunk_size": -5, "chunk_bytes": 4, "dim": None}]},
            "entry 0",
        ),
        (
            {"chunks": [{"filename": "../a", "chunk_size": 5, "chunk_bytes": 4, "dim": None}]},
            "outside",
        ),
        (
            {
                "chunks": [
                    {"filename": "/etc/passwd", "chunk_size": 5, "chunk_bytes": 4, "dim": None}
                ]
            },
            "outside",
        ),
        (
            {
                "chunks": [
                    {
                        "filename": "a",
                        "chunk_size": 5,
                        "chunk_bytes": 4,
                        "dim": None,
                        "xxh3_64": "zz",
                    }
                ]
            },
            "chunks",
        ),
        (
            {"chunks": [{"filename": "a", "chunk_size": 2**40, "chunk_bytes": 4, "dim": None}]},
            "out of range",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_malformed_entries_are_named(dataset: Path, changes: dict[str, Any], message: str) -> None:
    edit(dataset, **changes)
    with pytest.raises(DatasetFormatError, match=message):
        StreamingDataset(dataset)


def test_missing_new_keys_and_unknown_keys_are_tolerated(dataset: Path) -> None:
    document = json.loads((dataset / "index.json").read_text())
    for chunk in document["chunks"]:
        del chunk["xxh3_64"], chunk["file_bytes"]
        chunk["colour"] = "blue"
    document["config"]["types"] = {"i": "int"}
    document["novelty"] = 1
    del document["updated_at"], document["config"]["item_loader"]
    (dataset / "index.json").write_text(json.dumps(document))
    assert [s["i"] for s in StreamingDataset(dataset)] == list(range(12))


def test_a_mosaic_dataset_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text('{"version": 2, "shards": []}')
    with pytest.raises(DatasetFormatError, match="MosaicML"):
        StreamingDataset(tmp_path)


def test_index_path(dataset: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (dataset / "index.json").rename(elsewhere / "index.json")
    for place in (elsewhere, elsewhere / "index.json"):
        assert len(StreamingDataset(dataset, index_path=place)) == 12


def shards(directory: Path, ranks: list[int], **differing: Any) -> Path:
    """Write one dataset shard per rank, with the config of the last one changed."""
    from stoker.streaming import BinaryWriter

    for rank in ranks:
        writer = BinaryWriter(directory, chunk_size=2, rank=rank)
        for i in range(3):
            writer.append((rank, i))
        writer.done()
    last = directory / f"{ranks[-1]}.index.json"
    document = json.loads(last.read_text())
    document["config"].update(differing)
    last.write_text(json.dumps(document))
    return directory


def test_shards_are_read_in_numeric_order_without_touching_the_folder(tmp_path: Path) -> None:
    directory = shards(tmp_path / "s", [0, 10, 2])
    before = sorted(p.name for p in directory.iterdir())
    samples = list(StreamingDataset(directory))
    assert samples == [(r, i) for r in (0, 2, 10) for i in range(3)]
    assert sorted(p.name for p in directory.iterdir()) == before


def test_complete_dataset(tmp_path: Path) -> None:
    directory = shards(tmp_path / "s", [0, 10, 2])
    assert not is_complete_dataset(directory)
    assert complete_dataset(directory) == str(directory)
    assert is_complete_dataset(directory)
    assert not list(directory.glob("*.index.json"))
    stamp = (directory / "index.json").stat().st_mtime_ns
    complete_dataset(directory)
    assert (directory / "index.json").stat().st_mtime_ns == stamp
    assert list(StreamingDataset(directory)) == [(r, i) for r in (0, 2, 10) for i in range(3)]
    with pytest.raises(FileNotFoundError, match="nothing to complete"):
        complete_dataset(tmp_path)


def test_shards_that_disagree_are_refused_and_stay(tmp_path: Path) -> None:
    directory = shards(tmp_path / "s", [0, 1], data_format=["int", "str"])
    with pytest.raises(DatasetFormatError, match="data_format"):
        complete_dataset(directory)
    assert len(list(directory.glob("*.index.json"))) == 2
    assert not (directory / "index.json").exists()
    document = json.loads((directory / "1.index.json").read_text())
    document["config"].update(data_format=["int", "int"], types={"only": "informational"})
    (directory / "1.index.json").write_text(json.dumps(document))
    assert len(StreamingDataset(complete_dataset(directory))) == 6


def test_readers_see_the_old_index_or_the_new_one(dataset: Path) -> None:
    stop = threading.Event()
    index = open_index(str(dataset))
    chunks = [
        ChunkInfo(f, n, b)
        for f, n, b in zip(
            index.columns.filename, index.columns.chunk_size, index.columns.chunk_bytes, strict=True
        )
    ]

    def rewrite() -> None:
        while not stop.is_set():
            write_document(dataset / "index.json", chunks, index.config)

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        assert {len(StreamingDataset(dataset)) for _ in range(100)} == {12}
    finally:
        stop.set()
        writer.join()


def test_the_fingerprint_follows_content_not_time(tmp_path: Path) -> None:
    one = StreamingDataset(write_dataset(tmp_path / "1", range(7))).index.fingerprint
    same = StreamingDataset(write_dataset(tmp_path / "2", range(7))).index.fingerprint
    other = StreamingDataset(write_dataset(tmp_path / "3", [*range(6), 7])).index.fingerprint
    assert one == same != other
