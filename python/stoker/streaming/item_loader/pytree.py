# SPDX-License-Identifier: Apache-2.0
"""PyTreeLoader: one item per sample, leaf sizes first, then the leaves."""

from __future__ import annotations

import struct
from collections import OrderedDict, defaultdict, deque
from collections.abc import Collection
from pathlib import Path
from typing import Any

from stoker import _core, pytree
from stoker.exceptions import CorruptDataError, DatasetFormatError
from stoker.streaming.item_loader.base import BaseItemLoader, Interval
from stoker.streaming.serializers import Serializer, find_serializer
from stoker.streaming.serializers.array import (
    ElementType,
    numpy_element_types,
    torch_element_types,
)


class PyTreeLoader(BaseItemLoader):
    """Samples of any nesting. The default loader.

    Reading runs in C++ (`build_decoder`); the methods of the contract do the same item by item.
    """

    def generate_intervals(self) -> list[Interval]:
        """Return one interval per chunk."""
        intervals, start = [], 0
        for k, chunk in enumerate(self._chunks):
            end = start + chunk["chunk_size"]
            first, last = (
                self._region_of_interest[k]
                if self._region_of_interest
                else (0, chunk["chunk_size"])
            )
            intervals.append(Interval(start, start + first, start + last, end))
            start = end
        return intervals

    def pre_load_chunk(self, chunk_index: int, chunk_filepath: str) -> None:
        """Do nothing: chunks are mapped when touched."""

    def load_item_from_chunk(
        self,
        index: int,
        chunk_index: int,  # noqa: ARG002 - the contract of BaseItemLoader
        chunk_filepath: str,
        begin: int,
        filesize_bytes: int,  # noqa: ARG002 - the contract of BaseItemLoader
    ) -> Any:
        """Return one sample."""
        with Path(chunk_filepath).open("rb") as file:
            file.seek(4 + 4 * (index - begin))
            bounds = file.read(8)
            if len(bounds) < 8:  # noqa: PLR2004 - two u32 offsets
                msg = f"{chunk_filepath} ends inside its header; item {index - begin} was asked for"
                raise CorruptDataError(msg)
            start, end = struct.unpack("<2I", bounds)
            file.seek(start)
            item = file.read(end - start)
        return build_decoder(self._config, self._serializers).decode(item)

    def delete(self, chunk_index: int, chunk_filepath: str) -> None:
        """Do nothing: no file stays open."""

    def encode_data(
        self,
        data: list[bytes],
        sizes: list[int],
        flattened: list[Any],  # noqa: ARG002 - the contract of BaseItemLoader
    ) -> tuple[bytes, int | None]:
        """Return sizes and leaves joined."""
        return b"".join((struct.pack(f"<{len(sizes)}I", *sizes), *data)), None


LeafKind = tuple[str, str, str, ElementType | None, Any]


def leaf_kinds(config: dict[str, Any], serializers: dict[str, Serializer]) -> list[LeafKind]:
    """Return per leaf: path, format, kind, element type of flat arrays, and the Python function that reads it.

    The kind is what stoker._core calls it, "python" for leaves that only the function can read.

    Raises:
        DatasetFormatError: the config has no data_spec.
        UnsupportedDataError: a leaf format without a serializer.
    """
    if not config.get("data_spec"):
        msg = f"The index has no data_spec, which PyTreeLoader needs; its item_loader is {config.get('item_loader')!r}."
        raise DatasetFormatError(msg)
    spec = pytree.from_json(config["data_spec"])
    leaves: list[LeafKind] = []
    for path, data_format in zip(spec.paths(), config["data_format"], strict=True):
        serializer = find_serializer(data_format, serializers)
        # Only the built-in classes say `native`: a user's subclass overrides deserialize and must be called.
        kind = type(serializer).__dict__.get("native", "python")
        element = serializer.element_type() if kind.startswith("flat_") else None  # type: ignore[attr-defined]
        leaves.append((path, data_format, kind, element, serializer.deserialize))
    return leaves


def build_decoder(
    config: dict[str, Any],
    serializers: dict[str, Serializer],
    undecoded: Collection[int] = (),
) -> _core.SampleDecoder:
    """Return the C++ decoder of a dataset's items.

    Args:
        config: of the index.
        serializers: name -> serializer.
        undecoded: numbers of leaves that are returned as their bytes.

    Raises:
        DatasetFormatError: the config has no data_spec.
        UnsupportedDataError: a leaf format without a serializer.
    """
    leaves = [
        ("bytes" if number in undecoded else kind, path, data_format, element, read)
        for number, (path, data_format, kind, element, read) in enumerate(
            leaf_kinds(config, serializers)
        )
    ]
    spec = pytree.from_json(config["data_spec"])
    return _core.SampleDecoder(leaves, numpy_element_types(), torch_element_types(), _tree(spec))


class LeafReader:
    """Decodes one leaf of an item and looks at no other.

    Args:
        config: of the index.
        serializers: name -> serializer.
        number: of the leaf, in flatten order.
    """

    def __init__(
        self, config: dict[str, Any], serializers: dict[str, Serializer], number: int
    ) -> None:
        """Make the decoder."""
        kinds = leaf_kinds(config, serializers)
        self._sizes, self._number = struct.Struct(f"<{len(kinds)}I"), number
        path, data_format, kind, element, read = kinds[number]
        leaves = [(kind, path, data_format, element, read)]
        self._decoder = _core.SampleDecoder(
            leaves, numpy_element_types(), torch_element_types(), None
        )

    def __call__(self, item: bytes) -> Any:
        """Return the leaf's value of an item.

        Raises:
            CorruptDataError: the item's sizes contradict it, or the leaf cannot be decoded.
        """
        sizes = self._sizes.unpack_from(item) if len(item) >= self._sizes.size else ()
        if not sizes or self._sizes.size + sum(sizes) != len(item):
            msg = f"an item of {len(item)} bytes does not have the leaves its sizes tell ({sizes or 'none'})"
            raise CorruptDataError(msg)
        begin = self._sizes.size + sum(sizes[: self._number])
        size = sizes[self._number]
        return self._decoder.decode(struct.pack("<I", size) + item[begin : begin + size])


def _tree(spec: pytree.TreeSpec) -> tuple[Any, ...] | None:
    """Return the spec as stoker._core takes it: None for a leaf, else (kind, keys, wrap, children)."""
    kind = spec.kind
    if kind is None:
        return None
    wrap: Any = None
    if kind is OrderedDict:
        wrap = OrderedDict
    elif kind is defaultdict:
        wrap = _Wrap(defaultdict, spec.extra)
    elif kind is deque:
        wrap = _Wrap(deque, spec.extra)
    shape = (
        "dict" if kind in (dict, OrderedDict, defaultdict) else "tuple" if kind is tuple else "list"
    )
    return shape, spec.keys, wrap, tuple(_tree(child) for child in spec.children)


class _Wrap:
    """Builds a deque or defaultdict from the plain container."""

    def __init__(self, kind: type, extra: Any) -> None:
        self._kind, self._extra = kind, extra

    def __call__(self, values: Any) -> Any:
        return (
            deque(values, self._extra) if self._kind is deque else defaultdict(self._extra, values)
        )
