# SPDX-License-Identifier: Apache-2.0
"""``index.json``: read, check, merge, write. The commit record of a dataset: what it does not list is not there.

Keys and their meaning: cpp/format/FORMAT.md, section "index.json".
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker import pytree
from stoker.exceptions import DatasetFormatError, NotFoundError

INDEX_NAME = "index.json"
_SHARD = re.compile(r"(\d+)[.-]index\.json")
_IGNORED_WHEN_COMPARED = ("types",)


@dataclass(frozen=True, slots=True)
class ChunkInfo:
    """One entry of ``chunks``.

    Attributes:
        filename: relative to the dataset directory.
        chunk_size: items in the file.
        chunk_bytes: size of the chunk before whole-file compression.
        dim: TokensLoader: elements in the chunk; else None.
        file_bytes: exact size of the stored file, or None when the writer did not say.
        xxh3_64: XXH3-64 of the stored file, or None.
    """

    filename: str
    chunk_size: int
    chunk_bytes: int
    dim: int | None = None
    file_bytes: int | None = None
    xxh3_64: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        entry: dict[str, Any] = {
            "chunk_bytes": self.chunk_bytes,
            "chunk_size": self.chunk_size,
            "dim": self.dim,
            "filename": self.filename,
        }
        if self.file_bytes is not None:
            entry["file_bytes"] = self.file_bytes
        if self.xxh3_64 is not None:
            entry["xxh3_64"] = f"{self.xxh3_64:016x}"
        return entry


@dataclass(frozen=True, slots=True)
class Columns:
    """The chunks as columns (one list entry per chunk), which is how everything else wants them.

    Attributes are named as in `ChunkInfo`; missing file_bytes are 0, missing checksums 0 with has_checksum 0.
    """

    filename: list[str]
    chunk_size: list[int]
    chunk_bytes: list[int]
    dim: list[int | None]
    file_bytes: list[int]
    xxh3_64: list[int]
    has_checksum: list[int]

    def __len__(self) -> int:
        """Return the number of chunks."""
        return len(self.filename)


@dataclass(frozen=True, slots=True)
class DatasetIndex:
    """A dataset as its index describes it. Immutable.

    Attributes:
        directory: absolute path of the chunks.
        config: the ``config`` object as read (unknown keys kept).
        columns: the chunks.
        spec: structure of a sample, or None for loaders without one.
        updated_at: stamp of the writer, or None.
    """

    directory: str
    config: dict[str, Any]
    columns: Columns
    spec: pytree.TreeSpec | None
    updated_at: str | None = None
    _fingerprint: list[str] = field(default_factory=list, repr=False, compare=False)

    @property
    def data_format(self) -> list[str]:
        """Format string of every leaf, in flatten order."""
        return list(self.config["data_format"])

    @property
    def loader_name(self) -> str:
        """Class name of the item loader; old indexes that do not say are PyTreeLoader."""
        return str(self.config.get("item_loader") or "PyTreeLoader")

    @property
    def fingerprint(self) -> str:
        """16 hex digits that change with the chunks, their contents (as far as the index knows) and the format."""
        if not self._fingerprint:
            c = self.columns
            text = json.dumps(
                [
                    c.filename,
                    c.chunk_size,
                    c.chunk_bytes,
                    c.dim,
                    c.xxh3_64,
                    self.data_format,
                    self.config["data_spec"],
                ]
            )
            self._fingerprint.append(hashlib.blake2b(text.encode(), digest_size=8).hexdigest())
        return self._fingerprint[0]


def open_index(directory: str, index_path: str | None = None) -> DatasetIndex:
    """Read the index of a local dataset; per-writer indexes are merged in memory when ``index.json`` is missing.

    Args:
        directory: absolute path of the dataset.
        index_path: an ``index.json`` elsewhere, or the directory that holds it.

    Raises:
        NotFoundError: the directory does not exist.
        DatasetFormatError: no index, or one that cannot be read; the message names the file.
    """
    if not Path(directory).is_dir():
        msg = f"The dataset directory {directory!r} does not exist."
        raise NotFoundError(msg)
    path = Path(index_path) if index_path is not None else Path(directory)
    path = path / INDEX_NAME if path.is_dir() else path
    if not path.exists():
        shards = find_shards(directory)
        if index_path is None and shards:
            return _parse(
                merge_documents([read_document(s) for s in shards]),
                directory,
                f"the shards in {directory}",
            )
        msg = (
            f"{directory!r} holds no {INDEX_NAME}. If an `optimize` run writes here, wait for its end; if one failed, run it "
            "again; if these are raw files, `optimize` them first."
        )
        raise DatasetFormatError(msg)
    return _parse(read_document(path), directory, str(path))


def find_shards(directory: str) -> list[Path]:
    """Return the per-writer index files (``0.index.json``, ``0-index.json``) in numeric order."""
    found = [(int(m[1]), p) for p in Path(directory).iterdir() if (m := _SHARD.fullmatch(p.name))]
    return [path for _, path in sorted(found)]


def read_document(path: Path) -> dict[str, Any]:
    """Return the JSON object in ``path``.

    Raises:
        DatasetFormatError: not JSON, or not an object with ``chunks`` and ``config``.
    """
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        msg = f"{path} is not valid JSON ({error}). It was cut or altered; restore it or run `optimize` again."
        raise DatasetFormatError(msg) from error
    if isinstance(document, dict) and "shards" in document:
        msg = (
            f"{path} describes a MosaicML (MDS) dataset, which this version does not read. Read it with "
            "mosaicml-streaming and write it again with `optimize`."
        )
        raise DatasetFormatError(msg)
    if (
        not isinstance(document, dict)
        or not isinstance(document.get("chunks"), list)
        or "config" not in document
    ):
        msg = f"{path} is no dataset index: expected an object with 'chunks' and 'config'."
        raise DatasetFormatError(msg)
    return document


def merge_documents(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Concatenate the chunks of per-writer indexes. Writers without samples (config null) are passed over.

    Raises:
        DatasetFormatError: the writers' configs differ; the message names the keys and both values.
    """
    filled = [d for d in documents if d["config"] is not None]
    if not filled:
        return {"chunks": [], "config": None}
    first = filled[0]["config"]
    for number, document in enumerate(filled):
        other = document["config"]
        keys = {k for k in {*first, *other} if first.get(k) != other.get(k)} - {
            *_IGNORED_WHEN_COMPARED
        }
        if keys:
            differences = "; ".join(
                f"{k}: {first.get(k)!r} and {other.get(k)!r}" for k in sorted(keys)
            )
            msg = f"The parts of the dataset disagree (first part and part {number}): {differences}"
            raise DatasetFormatError(msg)
    return {"chunks": [chunk for d in filled for chunk in d["chunks"]], "config": first}


def write_document(
    path: Path, chunks: Iterable[ChunkInfo | dict[str, Any]], config: dict[str, Any] | None
) -> None:
    """Write an index so that readers see the old file, or the new one whole; flushed to the disk."""
    document = {
        "chunks": [c.to_json() if isinstance(c, ChunkInfo) else c for c in chunks],
        "config": config,
        "updated_at": str(time.time()),
    }
    tmp = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    try:
        with tmp.open("w") as file:
            json.dump(document, file, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        tmp.replace(path)
    finally:
        tmp.unlink(missing_ok=True)


def _parse(document: dict[str, Any], directory: str, where: str) -> DatasetIndex:
    config, chunks = document["config"], document["chunks"]
    if not chunks:
        msg = f"{where} lists no chunks: the job that wrote it produced no samples."
        raise DatasetFormatError(msg)
    _check_config(config, where)
    spec_text = config.get("data_spec")
    try:
        spec = pytree.from_json(spec_text) if spec_text else None
    except DatasetFormatError as error:
        msg = f"{where}: {error}"
        raise DatasetFormatError(msg) from error
    if spec is not None and spec.num_leaves != len(config["data_format"]):
        msg = f"{where}: data_spec has {spec.num_leaves} leaves and data_format {len(config['data_format'])}."
        raise DatasetFormatError(msg)
    config.setdefault("data_spec", None)
    return DatasetIndex(
        directory, config, _columns(chunks, where), spec, document.get("updated_at")
    )


def _check_config(config: Any, where: str) -> None:
    formats = config.get("data_format") if isinstance(config, dict) else None
    if not isinstance(formats, list) or not all(isinstance(f, str) for f in formats):
        msg = f"{where}: 'config' must be an object with a list of texts 'data_format', found {config!r}."
        raise DatasetFormatError(msg)
    for key, kind in (
        ("data_spec", str),
        ("compression", str),
        ("item_loader", str),
        ("encryption", dict),
    ):
        value = config.get(key)
        if value is not None and not isinstance(value, kind):
            msg = (
                f"{where}: '{key}' of 'config' must be a {kind.__name__} or null, found {value!r}."
            )
            raise DatasetFormatError(msg)


def _columns(chunks: list[dict[str, Any]], where: str) -> Columns:
    try:
        sums = [c.get("xxh3_64") for c in chunks]
        columns = Columns(
            filename=[c["filename"] for c in chunks],
            chunk_size=[c["chunk_size"] for c in chunks],
            chunk_bytes=[c["chunk_bytes"] for c in chunks],
            dim=[c.get("dim") for c in chunks],
            file_bytes=[c.get("file_bytes") or 0 for c in chunks],
            xxh3_64=[int(s, 16) if s else 0 for s in sums],
            has_checksum=[1 if s else 0 for s in sums],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        msg = f"{where}: an entry of 'chunks' cannot be read ({type(error).__name__}: {error})."
        raise DatasetFormatError(msg) from error
    for number, (name, size, raw) in enumerate(
        zip(columns.filename, columns.chunk_size, columns.chunk_bytes, strict=True)
    ):
        if (
            type(name) is not str
            or type(size) is not int
            or type(raw) is not int
            or size < 1
            or raw < 0
        ):
            msg = f"{where}: entry {number} of 'chunks' is malformed: {chunks[number]!r}."
            raise DatasetFormatError(msg)
        if "/" in name and (name.startswith("/") or ".." in name.split("/")):
            msg = f"{where}: chunk {number} is named {name!r}, which lies outside the dataset."
            raise DatasetFormatError(msg)
    return columns
