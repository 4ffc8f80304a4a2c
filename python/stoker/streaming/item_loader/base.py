# SPDX-License-Identifier: Apache-2.0
"""The contract of an item loader: how one sample lies in a chunk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from stoker.streaming.serializers import Serializer


class Interval(NamedTuple):
    """Items of one chunk in the numbering of the whole dataset.

    Attributes:
        chunk_start, chunk_end: the chunk holds items [chunk_start, chunk_end).
        roi_start_idx, roi_end_idx: the part that belongs to the dataset (all of it unless subsampled).
    """

    chunk_start: int
    roi_start_idx: int
    roi_end_idx: int
    chunk_end: int


class BaseItemLoader(ABC):
    """How samples become items of a chunk and come back.

    Users may subclass it. A loader is told everything once through `setup`; afterwards each call concerns a chunk file
    that is complete and on the local disk: a loader never waits and never downloads. Instances must be picklable, they
    travel to worker processes; `setup` is called again there.
    """

    def setup(
        self,
        config: dict[str, Any],
        chunks: list[dict[str, Any]],
        serializers: dict[str, Serializer],
        region_of_interest: list[tuple[int, int]] | None = None,
    ) -> None:
        """Remember the dataset.

        Args:
            config: the index's ``config`` object.
            chunks: the index's ``chunks``, in dataset order.
            serializers: the registry, user serializers first.
            region_of_interest: per chunk the (start, end) items that belong to the dataset; None = all.
        """
        self._config = config
        self._chunks = chunks
        self._serializers = serializers
        self._region_of_interest = region_of_interest

    @abstractmethod
    def generate_intervals(self) -> list[Interval]:
        """Return one interval per chunk, in dataset order."""

    @abstractmethod
    def pre_load_chunk(self, chunk_index: int, chunk_filepath: str) -> None:
        """Hear that items of this chunk will be read soon."""

    @abstractmethod
    def load_item_from_chunk(
        self, index: int, chunk_index: int, chunk_filepath: str, begin: int, filesize_bytes: int
    ) -> Any:
        """Return sample ``index`` (dataset numbering) of a chunk whose first item is ``begin``."""

    @abstractmethod
    def delete(self, chunk_index: int, chunk_filepath: str) -> None:
        """Let go of the chunk (close files); the file itself is not the loader's to remove."""

    @abstractmethod
    def encode_data(
        self, data: list[bytes], sizes: list[int], flattened: list[Any]
    ) -> tuple[bytes, int | None]:
        """Return the item bytes of one sample and its length in tokens (None when that means nothing).

        Args:
            data: serialized leaves in flatten order.
            sizes: their sizes.
            flattened: the leaves themselves.
        """
