# SPDX-License-Identifier: Apache-2.0
"""BinaryWriter: samples -> leaves -> items -> chunk files, and the writer's own index."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker import _core, environment, pytree
from stoker.exceptions import InvalidArgumentError, SampleStructureError
from stoker.streaming.compression import zstd_level
from stoker.streaming.index import (
    INDEX_NAME,
    ChunkInfo,
    find_shards,
    merge_documents,
    read_document,
    write_document,
)
from stoker.streaming.item_loader import BaseItemLoader, PyTreeLoader
from stoker.streaming.serializers import (
    PickleSerializer,
    Serializer,
    choose_serializer,
    merged_serializers,
)
from stoker.units import format_bytes, parse_bytes

_TOO_MANY = 1 << 32  # samples in a chunk
_INT_BITS = 63  # without the sign


@dataclass(slots=True)
class _LeafWriter:
    """What the first sample decided about one leaf."""

    path: str
    name: str
    serializer: Serializer
    data_format: str
    first_type: str

    def accepts(self, leaf: Any) -> bool:
        """Say whether a later sample's leaf can be stored in the same form."""
        check = getattr(self.serializer, "can_continue", self.serializer.can_serialize)
        return bool(check(leaf))


class BinaryWriter:
    """Writes samples in order as chunks ``chunk-<rank>-<n>.bin`` below a directory.

    The first sample fixes structure and leaf formats; a sample that differs is refused with its number, the leaf and
    both structures. A chunk file appears whole or not at all and never replaces an existing file; `done` writes the
    writer's index ``<rank>.index.json``, and `merge` joins all of them to ``index.json``.

    Args:
        cache_dir: directory to write to; made when missing.
        chunk_size: samples per chunk (tokens, with TokensLoader).
        chunk_bytes: item bytes per chunk, int or text like "64MB". Exactly one of the two limits is given. An item
            above the limit gets a chunk of its own, with a warning.
        compression: None, "zstd" or "zstd:<1..22>": whole chunk files.
        serializers: asked before the built-in ones, by name.
        item_loader: PyTreeLoader (default), TokensLoader or an own one.
        chunk_index: number of the first chunk.
        rank: number of this writer; default: place among ranks and DataLoader workers.
        sync: flush every chunk to the disk before it gets its name.

    Raises:
        InvalidArgumentError: limits, compression or serializers that can never work.
    """

    def __init__(
        self,
        cache_dir: str | Path,
        chunk_size: int | None = None,
        chunk_bytes: int | str | None = None,
        compression: str | None = None,
        serializers: dict[str, Serializer] | None = None,
        item_loader: BaseItemLoader | None = None,
        chunk_index: int = 0,
        *,
        rank: int | None = None,
        sync: bool = True,
    ) -> None:
        """Check the arguments and make the directory."""
        self._limits = check_limits(chunk_size, chunk_bytes)
        self._compression, self._level = compression, zstd_level(compression)
        self._directory = Path(cache_dir)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._registry = merged_serializers(serializers)
        self._list_takers = [
            self._registry[name] for name in {**(serializers or {}), "jpeg_array": None}
        ]
        self._loader = item_loader if item_loader is not None else PyTreeLoader()
        self._loader_name = type(self._loader).__name__
        self._chunk_index = chunk_index
        if rank is None:
            world = environment.detect()
            rank = world.rank * world.num_workers + world.worker
        self._rank, self._sync = rank, sync
        self._builder = _core.ChunkBuilder(self._limits[1], self._limits[0])
        self._spec: pytree.TreeSpec | None = None
        self._leaves: list[_LeafWriter] = []
        self._chunks: list[ChunkInfo] = []
        self._has_dim = False
        self._count = 0
        self._pending: dict[int, Any] = {}
        self._done = False

    @property
    def samples(self) -> int:
        """Samples taken so far."""
        return self._count

    def __setitem__(self, index: int, sample: Any) -> None:
        """Add sample number ``index``; see `add_item`."""
        self.add_item(index, sample)

    def add_item(self, index: int, sample: Any) -> str | None:
        """Add sample number ``index``; numbers may come out of order, each once, without gaps in the end.

        Returns:
            The path of the chunk file this call completed, or None.

        Raises:
            InvalidArgumentError: the number was used before.
        """
        if index < self._count or index in self._pending:
            msg = f"Sample {index} was already written."
            raise InvalidArgumentError(msg)
        if index != self._count:
            self._pending[index] = sample
            return None
        path = self.append(sample)
        while self._count in self._pending:
            path = self.append(self._pending.pop(self._count)) or path
        return path

    def append(self, sample: Any) -> str | None:
        """Add the next sample.

        Returns:
            The path of the chunk file this call completed, or None.

        Raises:
            SampleStructureError: the sample differs from the first one.
            InvalidArgumentError: the sample alone passes 4 GiB, or the loader cannot store it.
        """
        if self._done:
            msg = "The writer is done; make a new one."
            raise InvalidArgumentError(msg)
        leaves = self._flatten(sample)
        data = [self._serialize(leaf, how) for leaf, how in zip(leaves, self._leaves, strict=True)]
        if type(self._loader) is PyTreeLoader:
            path = self._append_item(data, 1, with_sizes=True)
        else:
            item, dim = self._loader.encode_data(data, [len(d) for d in data], leaves)
            self._has_dim = dim is not None
            path = self._append_item([item], 1 if dim is None else dim, with_sizes=False)
        self._count += 1
        return path

    def _flatten(self, sample: Any) -> list[Any]:
        if self._spec is None:
            leaves, self._spec = pytree.flatten(sample, is_leaf=self._is_leaf)
            self._leaves = [
                self._choose(leaf, path)
                for leaf, path in zip(leaves, self._spec.paths(), strict=True)
            ]
            return leaves
        leaves = []
        try:
            pytree.flatten_as(self._spec, sample, leaves)
        except SampleStructureError as error:
            found = pytree.flatten(sample, is_leaf=self._is_leaf)[1].describe()
            msg = (
                f"Sample {self._count} differs from the first sample {error}.\n  first sample: {self._spec.describe()}\n"
                f"  sample {self._count}: {found}\nEvery sample of a dataset must have the same structure. For lists of "
                "varying length store an array (numpy or torch) instead."
            )
            raise SampleStructureError(msg) from None
        return leaves

    def _is_leaf(self, node: Any) -> bool:
        """Keep a list or tuple whole when a serializer wants it so (lists of JPEG files, user serializers)."""
        return any(serializer.can_serialize(node) for serializer in self._list_takers)

    def _choose(self, leaf: Any, path: str) -> _LeafWriter:
        name, serializer = choose_serializer(leaf, self._registry)
        if isinstance(serializer, PickleSerializer):
            _check_unpickles(leaf, path)
        return _LeafWriter(path, name, serializer, "", type(leaf).__name__)

    def _serialize(self, leaf: Any, how: _LeafWriter) -> bytes:
        if how.data_format and not how.accepts(leaf):
            self._refuse(leaf, how, f"a {how.first_type} (stored as {how.data_format!r})")
        try:
            data, data_format = how.serializer.serialize(leaf)
        except UnicodeEncodeError as error:
            msg = f"Sample {self._count}, leaf {how.path}: the text cannot be stored as UTF-8 ({error})."
            raise InvalidArgumentError(msg) from error
        data_format = data_format or how.name
        if data_format != how.data_format:
            if how.data_format:
                self._refuse(
                    leaf, how, f"the format {how.data_format!r}, found the format {data_format!r}"
                )
            how.data_format = data_format
        return data

    def _refuse(self, leaf: Any, how: _LeafWriter, expected: str) -> None:
        shape = getattr(leaf, "shape", None)
        dtype = getattr(leaf, "dtype", None)
        detail = "" if shape is None else f" of dtype {dtype} and shape {tuple(shape)}"
        msg = (
            f"Sample {self._count}, leaf {how.path}: the first sample had {expected}, this one has a "
            f"{type(leaf).__name__}{detail}{_why_not(leaf)}. Every sample must have the same leaf types."
        )
        raise SampleStructureError(msg)

    def _append_item(self, data: list[bytes], weight: int, *, with_sizes: bool) -> str | None:
        path = None
        if not self._builder.append(data, weight, with_sizes):
            path = self._write_chunk()
            self._builder.append(data, weight, with_sizes)
        self._warn_if_oversize()
        return path

    def _warn_if_oversize(self) -> None:
        size, limit = (
            (self._builder.weight, self._limits[0])
            if self._limits[0]
            else (self._builder.body_bytes, self._limits[1])
        )
        if self._builder.items == 1 and limit is not None and size > limit:
            text = f"{size} tokens" if self._limits[0] else format_bytes(size)
            warnings.warn(
                f"Sample {self._count} alone ({text}) is above the chunk limit ({limit}); it gets a chunk of its own.",
                stacklevel=4,
            )

    def _write_chunk(self) -> str:
        infix = f".{self._compression}" if self._compression else ""
        name = f"chunk-{self._rank}-{self._chunk_index + len(self._chunks)}{infix}.bin"
        path = str(self._directory / name)
        items, weight = self._builder.items, self._builder.weight
        raw_bytes, file_bytes, checksum = self._builder.write(path, self._level, self._sync)
        self._chunks.append(
            ChunkInfo(
                name, items, raw_bytes, weight if self._has_dim else None, file_bytes, checksum
            )
        )
        return path

    def done(self) -> list[str]:
        """Write what is left and the writer's index ``<rank>.index.json``. Calling it again changes nothing.

        Returns:
            The paths of all chunk files of this writer.

        Raises:
            InvalidArgumentError: sample numbers are missing.
        """
        if not self._done:
            if self._pending:
                msg = f"Sample {self._count} is missing although {len(self._pending)} later ones were added (up to {max(self._pending)})."
                raise InvalidArgumentError(msg)
            if self._builder.items:
                self._write_chunk()
            write_document(
                self._directory / f"{self._rank}.index.json", self._chunks, self._config()
            )
            self._done = True
        return [str(self._directory / chunk.filename) for chunk in self._chunks]

    def _config(self) -> dict[str, Any] | None:
        if self._spec is None:
            return None
        return {
            "chunk_bytes": self._limits[1],
            "chunk_size": self._limits[0],
            "compression": self._compression,
            "data_format": [leaf.data_format for leaf in self._leaves],
            "data_spec": pytree.to_json(self._spec),
            "encryption": None,
            "item_loader": self._loader_name,
        }

    def merge(self, num_workers: int = 1) -> None:
        """Join the indexes of ``num_workers`` writers in this directory to ``index.json``, then remove them.

        Raises:
            InvalidArgumentError: not all writers are done.
        """
        shards = find_shards(str(self._directory))
        if len(shards) != num_workers:
            msg = f"Expected the indexes of {num_workers} writers in {self._directory}, found {[s.name for s in shards]}."
            raise InvalidArgumentError(msg)
        merge_shards(self._directory)


def _check_unpickles(leaf: Any, path: str) -> None:
    """Refuse what pickle writes but cannot read (some classes, some torch dtypes): it would be lost."""
    try:
        pickle.loads(pickle.dumps(leaf))
    except Exception as error:
        detail = f" of dtype {leaf.dtype}" if hasattr(leaf, "dtype") else ""
        msg = (
            f"Sample 0, leaf {path}: a {type(leaf).__name__}{detail} has no serializer and cannot be pickled and read back "
            f"({type(error).__name__}: {error}). Convert it, or pass a serializer for it."
        )
        raise InvalidArgumentError(msg) from error


def merge_shards(directory: Path) -> None:
    """Join the per-writer indexes of ``directory`` to ``index.json`` and remove them once it is on the disk."""
    shards = find_shards(str(directory))
    document = merge_documents([read_document(shard) for shard in shards])
    write_document(directory / INDEX_NAME, document["chunks"], document["config"])
    for shard in shards:
        shard.unlink()


def _why_not(leaf: Any) -> str:
    return " of more than 64 bits" if type(leaf) is int and leaf.bit_length() > _INT_BITS else ""


def check_limits(
    chunk_size: int | None, chunk_bytes: int | str | None
) -> tuple[int | None, int | None]:
    """Return (chunk_size, chunk_bytes) as ints, exactly one of them not None.

    Raises:
        InvalidArgumentError: neither or both are given, or one is no positive number.
    """
    if (chunk_size is None) == (chunk_bytes is None):
        given = "neither" if chunk_size is None else "both"
        msg = f"Give exactly one of chunk_size (samples per chunk) and chunk_bytes (like '64MB'); found {given}."
        raise InvalidArgumentError(msg)
    if chunk_bytes is not None:
        return None, min(parse_bytes(chunk_bytes, "chunk_bytes"), _TOO_MANY)  # no file is larger
    if (
        isinstance(chunk_size, bool)
        or not isinstance(chunk_size, int)
        or not 1 <= chunk_size < _TOO_MANY
    ):
        msg = f"chunk_size={chunk_size!r} must be an int of at least 1 and below 2**32."
        raise InvalidArgumentError(msg)
    return chunk_size, None
