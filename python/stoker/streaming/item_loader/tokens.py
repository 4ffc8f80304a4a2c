# SPDX-License-Identifier: Apache-2.0
"""TokensLoader: samples are 1-D arrays of tokens, read back as fixed blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from stoker.exceptions import CorruptDataError, DatasetFormatError, InvalidArgumentError
from stoker.streaming.item_loader.base import BaseItemLoader, Interval
from stoker.streaming.serializers import (
    NoHeaderNumpySerializer,
    NoHeaderTensorSerializer,
    find_serializer,
)
from stoker.streaming.serializers.array import ElementType


class TokensLoader(BaseItemLoader):
    """Tokens of all samples of a chunk in one run, cut into blocks of ``block_size``.

    Blocks cross sample boundaries but not chunks: the last ``dim % block_size`` tokens of a chunk are not read.

    Args:
        block_size: tokens per sample when reading, at least 1. Not needed for writing.
        dtype: ``torch.int64`` = read tokens as int64, which embedding layers ask for; None = as stored.

    Raises:
        InvalidArgumentError: an impossible block size, or another dtype.
    """

    def __init__(self, block_size: int | None = None, dtype: torch.dtype | None = None) -> None:
        """Remember the block size."""
        if block_size is not None and (
            isinstance(block_size, bool) or not isinstance(block_size, int) or block_size < 1
        ):
            msg = (
                f"TokensLoader(block_size={block_size!r}): block_size must be an int of at least 1."
            )
            raise InvalidArgumentError(msg)
        if dtype not in (None, torch.int64):
            msg = (
                f"TokensLoader(dtype={dtype}): tokens are read as stored (None) or as torch.int64."
            )
            raise InvalidArgumentError(msg)
        self.block_size = block_size
        self.dtype = dtype

    def required_block_size(self) -> int:
        """Return the block size.

        Raises:
            InvalidArgumentError: none was given.
        """
        if self.block_size is None:
            msg = "Reading tokens needs the number of tokens per sample: TokensLoader(block_size=2048)."
            raise InvalidArgumentError(msg)
        return self.block_size

    def element_type(self, data_format: list[str]) -> tuple[ElementType, bool]:
        """Return the token type for stoker._core and whether samples are tensors.

        Raises:
            DatasetFormatError: the dataset does not store one 1-D array per sample.
        """
        if len(data_format) == 1:
            serializer = (
                find_serializer(
                    data_format[0],
                    {
                        "no_header_numpy": NoHeaderNumpySerializer(),
                        "no_header_tensor": NoHeaderTensorSerializer(),
                    },
                )
                if data_format[0].startswith("no_header_")
                else None
            )
            if isinstance(serializer, (NoHeaderNumpySerializer, NoHeaderTensorSerializer)):
                return serializer.element_type(), isinstance(serializer, NoHeaderTensorSerializer)
        msg = f"TokensLoader reads datasets of one 1-D array per sample; this one stores {data_format}."
        raise DatasetFormatError(msg)

    def widens(self, element: ElementType) -> bool:
        """Return whether tokens stored as ``element`` are turned into int64."""
        return self.dtype == torch.int64 and element[0] != np.int64

    def generate_intervals(self) -> list[Interval]:
        """Return one interval of blocks per chunk."""
        block_size = self.required_block_size()
        intervals, start = [], 0
        for k, chunk in enumerate(self._chunks):
            blocks = chunk["dim"] // block_size
            first, last = self._region_of_interest[k] if self._region_of_interest else (0, blocks)
            intervals.append(Interval(start, start + first, start + last, start + blocks))
            start += blocks
        return intervals

    def pre_load_chunk(self, chunk_index: int, chunk_filepath: str) -> None:
        """Do nothing: chunks are mapped when touched."""

    def load_item_from_chunk(
        self, index: int, chunk_index: int, chunk_filepath: str, begin: int, filesize_bytes: int
    ) -> Any:
        """Return one block."""
        (dtype, view), as_tensor = self.element_type(self._config["data_format"])
        block_size = self.required_block_size()
        start = (
            4 * (self._chunks[chunk_index]["chunk_size"] + 2)
            + (index - begin) * block_size * dtype.itemsize
        )
        with Path(chunk_filepath).open("rb") as file:
            file.seek(start)
            block = np.fromfile(file, dtype, block_size)
        if len(block) < block_size:
            msg = f"{chunk_filepath} ({filesize_bytes} bytes in the index) ends inside block {index - begin}"
            raise CorruptDataError(msg)
        if self.widens((dtype, view)):
            block, view = block.astype(np.int64), None
        if not as_tensor:
            return block
        tensor = torch.from_numpy(block)
        return tensor if view is None else tensor.view(view)

    def delete(self, chunk_index: int, chunk_filepath: str) -> None:
        """Do nothing: no file stays open."""

    def encode_data(
        self,
        data: list[bytes],
        sizes: list[int],  # noqa: ARG002 - the contract of BaseItemLoader
        flattened: list[Any],
    ) -> tuple[bytes, int | None]:
        """Return the raw elements and their number.

        Raises:
            InvalidArgumentError: the sample is not one 1-D array.
        """
        if len(flattened) != 1 or getattr(flattened[0], "ndim", None) != 1:
            found = ", ".join(type(leaf).__name__ for leaf in flattened) or "no leaf"
            msg = (
                f"TokensLoader stores one 1-D array or tensor per sample; the sample holds {found}."
            )
            raise InvalidArgumentError(msg)
        return data[0], len(flattened[0])
