# SPDX-License-Identifier: Apache-2.0
"""From an index to something that returns samples by number.

Native where possible; Python for custom loaders and encrypted data.
"""

from __future__ import annotations

import bisect
from collections import OrderedDict
from collections.abc import Collection
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from stoker import _core
from stoker.encryption import Encryption
from stoker.exceptions import (
    DatasetFormatError,
    InvalidArgumentError,
    OutOfRangeError,
    UnsupportedDataError,
)
from stoker.streaming.compression import zstd_level
from stoker.streaming.index import DatasetIndex
from stoker.streaming.item_loader import BaseItemLoader, PyTreeLoader, TokensLoader
from stoker.streaming.item_loader.pytree import build_decoder
from stoker.streaming.serializers import Serializer

Verify = Literal["first", "always", "never"]
_DECRYPTED_CHUNKS_KEPT = 17  # a shuffle window and one more


class SampleSource(Protocol):
    """What a dataset reads from. Indices are item numbers of the whole dataset."""

    @property
    def size(self) -> int:
        """Number of items."""

    def get(self, index: int, whole: bool = False) -> Any:  # noqa: FBT001, FBT002 - mirrors the C++ signature
        """Return item ``index``; ``whole`` says its chunk is being read as a whole, so its checksum is due."""

    def close(self) -> None:
        """Let go of files; they open again when needed."""


def open_source(
    index: DatasetIndex,
    loader: BaseItemLoader,
    serializers: dict[str, Serializer],
    verify: Verify,
    encryption: Encryption | None,
    undecoded: Collection[int] = (),
) -> SampleSource:
    """Return the reader of a dataset. Leaves with the numbers ``undecoded`` come as their bytes.

    Raises:
        DatasetFormatError: the loader does not fit the dataset.
        UnsupportedDataError: the dataset is of another generation, or for a loader that is not here.
        InvalidArgumentError: encryption is missing or does not fit, TokensLoader without a block size.
    """
    _check_loader(index, loader)
    _check_layout(index)
    _check_encryption(index, encryption)
    table = chunk_table(index)
    if type(loader) is TokensLoader:
        return _open_tokens(index, loader, table, verify)
    if type(loader) is PyTreeLoader:
        decoder = build_decoder(index.config, serializers, undecoded)
        reader = _core.SampleReader(table, verify, decoder)
        if index.config.get("encryption") and encryption is not None:
            return EncryptedSource(index, reader, decoder, encryption)
        return reader
    return LoaderSource(index, loader, serializers)


def _check_loader(index: DatasetIndex, loader: BaseItemLoader) -> None:
    needed, mine = index.loader_name, type(loader).__name__
    if mine == needed:
        return
    if needed in (PyTreeLoader.__name__, TokensLoader.__name__):
        msg = (
            f"The dataset in {index.directory} was written for {needed}, but item_loader is {mine}. "
            f"Use StreamingDataset(..., item_loader={needed}(...))."
        )
        raise DatasetFormatError(msg)
    msg = (
        f"The dataset in {index.directory} was written for {needed}, which this version does not have. "
        f"Write it again with `optimize`, or pass item_loader=, an item loader of your own in a class named {needed}."
    )
    raise UnsupportedDataError(msg)


def _check_layout(index: DatasetIndex) -> None:
    for key in ("compression_level", "ipc_compression", "temporal_schema"):
        if index.config.get(key):
            msg = (
                f"The dataset in {index.directory} uses {key}={index.config[key]!r}, a layout this version does not read. "
                "Write it again in the classic layout (whole-file compression or none)."
            )
            raise UnsupportedDataError(msg)


def _check_encryption(index: DatasetIndex, encryption: Encryption | None) -> None:
    stored = index.config.get("encryption")
    if not stored:
        return
    if encryption is None:
        msg = f"The dataset in {index.directory} is encrypted ({stored.get('algorithm')}). Pass encryption=...load(key file, password)."
        raise InvalidArgumentError(msg)
    for key, mine in (("algorithm", encryption.algorithm), ("level", encryption.level)):
        if stored.get(key) != mine:
            msg = f"Encryption {key} mismatch: the dataset has {stored.get(key)!r}, the encryption object {mine!r}."
            raise InvalidArgumentError(msg)
    if index.loader_name == "TokensLoader":
        msg = "Encrypted token datasets cannot be read."
        raise UnsupportedDataError(msg)


def chunk_table(index: DatasetIndex) -> _core.ChunkTable:
    """Return what the index says about every chunk, for stoker._core.

    Raises:
        DatasetFormatError: numbers that cannot be true.
    """
    c = index.columns
    compressed = zstd_level(index.config.get("compression")) is not None
    try:
        return _core.make_table(
            index.directory,
            c.filename,
            c.chunk_size,
            c.chunk_bytes,
            c.file_bytes,
            c.xxh3_64,
            c.has_checksum,
            compressed,
        )
    except TypeError as error:
        msg = f"The index of {index.directory} holds numbers out of range ({error})."
        raise DatasetFormatError(msg) from error


def _open_tokens(
    index: DatasetIndex, loader: TokensLoader, table: _core.ChunkTable, verify: Verify
) -> _core.TokenReader:
    block_size = loader.required_block_size()
    element, as_tensor = loader.element_type(index.data_format)
    if any(type(d) is not int or d < 0 for d in index.columns.dim):
        msg = (
            f"The index of {index.directory} does not say how many tokens its chunks hold ('dim')."
        )
        raise DatasetFormatError(msg)
    dims = [d for d in index.columns.dim if d is not None]
    wide = (np.dtype("int64"), None) if loader.widens(element) else None
    return _core.TokenReader(table, verify, dims, block_size, element, as_tensor, wide)


class EncryptedSource:
    """Samples of an encrypted PyTree dataset: decrypted in Python, decoded in C++."""

    def __init__(
        self,
        index: DatasetIndex,
        reader: _core.SampleReader,
        decoder: _core.SampleDecoder,
        encryption: Encryption,
    ) -> None:
        """Keep the parts; nothing is opened yet."""
        self._reader, self._decoder, self._encryption = reader, decoder, encryption
        self._ends = list(accumulate(index.columns.chunk_size))
        self._directory, self._filenames = index.directory, index.columns.filename
        self._chunks: OrderedDict[int, _core.ChunkView] = OrderedDict()

    @property
    def size(self) -> int:
        """Number of samples."""
        return self._reader.size

    def get(self, index: int, whole: bool = False) -> Any:  # noqa: FBT001, FBT002 - mirrors the C++ signature
        """Return one sample."""
        return self._decoder.decode(self.item(index, whole))

    def item(self, index: int, whole: bool = False) -> bytes:  # noqa: FBT001, FBT002 - mirrors the C++ signature
        """Return the decrypted bytes of one item."""
        if self._encryption.level == "sample":
            return self._encryption.decrypt(self._reader.item(index, whole))
        position = index + self.size if index < 0 else index
        k = bisect.bisect_right(self._ends, position)
        if not 0 <= position < self.size:
            self._reader.item(index)  # raises the same error as for plain data
        return self._chunk(k, whole=whole).item(position - (self._ends[k - 1] if k else 0))

    def _chunk(self, k: int, *, whole: bool) -> _core.ChunkView:
        if k not in self._chunks:
            plain = self._encryption.decrypt(self._reader.file(k, whole))
            items = self._ends[k] - (self._ends[k - 1] if k else 0)
            self._chunks[k] = _core.ChunkView(
                plain, items, str(Path(self._directory) / self._filenames[k])
            )
        self._chunks.move_to_end(k)
        while len(self._chunks) > _DECRYPTED_CHUNKS_KEPT:
            self._chunks.popitem(last=False)
        return self._chunks[k]

    def close(self) -> None:
        """Forget decrypted chunks and close files."""
        self._chunks.clear()
        self._reader.close()


class LoaderSource:
    """Samples through a user's own item loader, one Python call each."""

    def __init__(
        self, index: DatasetIndex, loader: BaseItemLoader, serializers: dict[str, Serializer]
    ) -> None:
        """Set the loader up."""
        c = index.columns
        chunks = [
            {"filename": f, "chunk_size": n, "chunk_bytes": b, "dim": d}
            for f, n, b, d in zip(c.filename, c.chunk_size, c.chunk_bytes, c.dim, strict=True)
        ]
        loader.setup(index.config, chunks, serializers)
        self._loader, self._directory, self._columns = loader, Path(index.directory), c
        self._intervals = loader.generate_intervals()
        self._starts = [interval.chunk_start for interval in self._intervals]
        self._announced: int | None = None

    @property
    def counts(self) -> list[int]:
        """Samples of every chunk, as the loader counts them."""
        return [interval.chunk_end - interval.chunk_start for interval in self._intervals]

    @property
    def size(self) -> int:
        """Number of samples."""
        return self._intervals[-1].chunk_end if self._intervals else 0

    def get(self, index: int, whole: bool = False) -> Any:  # noqa: ARG002, FBT001, FBT002 - mirrors the C++ signature
        """Return one sample."""
        position = index + self.size if index < 0 else index
        if not 0 <= position < self.size:
            msg = f"index {index} is out of range for a dataset of {self.size} samples"
            raise OutOfRangeError(msg)
        k = bisect.bisect_right(self._starts, position) - 1
        path = str(self._directory / self._columns.filename[k])
        if self._announced != k:
            self._loader.pre_load_chunk(k, path)
            self._announced = k
        return self._loader.load_item_from_chunk(
            position, k, path, self._starts[k], self._columns.chunk_bytes[k]
        )

    def close(self) -> None:
        """Let the loader release the chunk it reads."""
        if self._announced is not None:
            self._loader.delete(
                self._announced, str(self._directory / self._columns.filename[self._announced])
            )
            self._announced = None
