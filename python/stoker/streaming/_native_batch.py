# SPDX-License-Identifier: Apache-2.0
"""Whether C++ threads can build the batches of a dataset, and how.

Decided once per loader, by `plan_batches`: each leaf must be of a kind the engine knows, and the batch must be what
torch's default collate would make of the samples. `_native_run` then runs one epoch.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from torch.utils.data import default_collate

from stoker import _core, pytree
from stoker.exceptions import CorruptDataError, StokerError
from stoker.streaming.index import DatasetIndex
from stoker.streaming.item_loader import TokensLoader
from stoker.streaming.item_loader.pytree import LeafKind, leaf_kinds
from stoker.streaming.serializers import Serializer
from stoker.streaming.serializers.array import (
    ElementType,
    numpy_element_types,
    torch_element_types,
)
from stoker.vision import Compose

Builder = Callable[[list[Any]], Any]
EnginePart = tuple[_core.ChunkOpener, int, list[int], list[int]]
"""(opener, seed of transforms, items of every chunk, tokens of every chunk or nothing): a dataset for the engine."""
_MARK = "\0leaf"
_HEADER_WORDS = 2  # of numpy and tensor leaves: dtype, rank
DEPTH = 4  # batches in work ahead of the consumer
_SAMPLES_TRIED = 16  # for the first that can be read
_FLAT = ("flat_numpy", "flat_tensor")


class NotNativeError(Exception):
    """The engine cannot build these batches; the text says why, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Column:
    """How a leaf becomes a column of the batch.

    Attributes:
        element: dtype of its rows for stoker._core; None: a list of str or bytes.
        shape: of one row as it lies in memory.
        permuted: an image with channels last, shown as (channels, height, width).
        what: for `explain`.
    """

    element: ElementType | None
    shape: tuple[int, ...]
    permuted: bool = False
    what: str = ""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What the engine does for a dataset.

    Attributes:
        spec: for the engine.
        columns: one per leaf.
        build: columns -> batch.
        chunk_sizes: items (token blocks) of every chunk.
        chunk_tokens: tokens of every chunk, or nothing.
        pool: memory of the batches of all epochs.
        layout: equal for datasets whose samples this plan can put in one batch.
    """

    spec: _core.BatchSpec
    columns: list[Column]
    build: Builder
    chunk_sizes: list[int]
    chunk_tokens: list[int]
    pool: _core.SlabPool
    layout: tuple[Any, ...]

    def describe(self) -> str:
        """Return what is decoded, for `explain`."""
        return ", ".join(column.what for column in self.columns)


def plan_tokens(index: DatasetIndex, loader: TokensLoader, rows: int) -> BatchPlan:
    """Return the plan of a token dataset."""
    block_size = loader.required_block_size()
    element, _ = loader.element_type(index.data_format)
    stored, view = element
    to_int64 = loader.widens(element)
    spec = _core.BatchSpec(rows)
    spec.set_tokens(block_size, stored.itemsize, stored.kind == "i", to_int64)
    spec.lay_out()
    shown = (np.dtype("int64"), None) if to_int64 else (stored, view)
    tokens = [dim or 0 for dim in index.columns.dim]
    column = Column(shown, (block_size,), what=f"blocks of {block_size} tokens of {shown[0].name}")
    sizes = [count // block_size for count in tokens]
    layout = (block_size, stored.str, view, to_int64)
    return BatchPlan(spec, [column], lambda columns: columns[0], sizes, tokens, _pool(spec), layout)


def plan_samples(
    index: DatasetIndex,
    serializers: dict[str, Serializer],
    composes: Mapping[int, Compose],
    read_item: Callable[[int], bytes],
    rows: int,
) -> BatchPlan:
    """Return the plan of a PyTree dataset.

    Args:
        index: of the dataset.
        serializers: name -> serializer.
        composes: leaf number -> what is done with that JPEG.
        read_item: the stored bytes of an item by number; the first readable one gives shapes and sizes.
        rows: of the largest batch.

    Raises:
        NotNativeError: a leaf of another kind, or a structure that torch cannot collate.
        CorruptDataError: no item could be read.
    """
    spec_tree = index.spec
    if spec_tree is None or spec_tree.num_leaves == 0:
        msg = "its samples have no leaves"
        raise NotNativeError(msg)
    kinds = leaf_kinds(index.config, serializers)
    for path, data_format, kind, *_ in kinds:
        if kind == "python":
            msg = f"leaf {path} is stored as {data_format!r}, which only Python can read"
            raise NotNativeError(msg)
    build = _builder(spec_tree)
    leaves = _first_readable(read_item, sum(index.columns.chunk_size), kinds)
    spec = _core.BatchSpec(rows)
    columns = []
    for number, ((path, data_format, kind, element, _), leaf) in enumerate(
        zip(kinds, leaves, strict=True)
    ):
        if kind == "jpeg":
            columns.append(_add_image(spec, path, data_format, composes.get(number), leaf))
        else:
            if number in composes:
                msg = f"leaf {path} has image transforms but is stored as {data_format!r}, not as a JPEG"
                raise NotNativeError(msg)
            columns.append(_add_leaf(spec, path, data_format, kind, element, leaf))
    spec.lay_out()
    layout = (
        index.config["data_spec"],
        *(kind for _, _, kind, *_ in kinds),
        *((c.element, c.shape, c.permuted) for c in columns),
        *(repr(composes[number]) for number in sorted(composes)),
    )
    sizes = index.columns.chunk_size
    return BatchPlan(spec, columns, build, sizes, [], _pool(spec), layout)


def plan_together(plans: list[BatchPlan]) -> BatchPlan:
    """Return the plan for batches that mix the samples of several datasets.

    Raises:
        NotNativeError: their samples differ.
    """
    for number, plan in enumerate(plans):
        if plan.layout != plans[0].layout:
            msg = (
                f"the samples of its datasets 0 ({plans[0].describe()}) and {number} ({plan.describe()}) differ in kind, "
                "shape or transforms"
            )
            raise NotNativeError(msg)
    return plans[0]


def _pool(spec: _core.BatchSpec) -> _core.SlabPool:
    return _core.SlabPool(
        spec.slab_bytes, DEPTH + 2
    )  # one in use by the consumer, and the one before


def _first_readable(
    read_item: Callable[[int], bytes], count: int, kinds: list[LeafKind]
) -> list[bytes]:
    """Return the leaves of the first item that can be read and whose images have a size."""
    failure: StokerError | None = None
    for number in range(min(count, _SAMPLES_TRIED)):
        try:
            item = read_item(number)
            sizes = struct.unpack_from(f"<{len(kinds)}I", item)
            ends = list(accumulate(sizes, initial=4 * len(kinds)))
            leaves = [item[a:b] for a, b in pairwise(ends)]
            for (_, _, kind, *_), leaf in zip(kinds, leaves, strict=True):
                if kind == "jpeg":
                    _core.probe_jpeg(leaf)
        except (CorruptDataError, struct.error) as error:
            failure = failure or CorruptDataError(f"item {number} cannot be read: {error}")
            continue
        if ends[-1] == len(item):
            return leaves
    raise failure or CorruptDataError(f"none of the first {_SAMPLES_TRIED} items can be read")


def _add_image(
    spec: _core.BatchSpec, path: str, data_format: str, compose: Compose | None, leaf: bytes
) -> Column:
    compose = compose or Compose([])
    width, height = _core.probe_jpeg(leaf)[:2]
    height, width = compose.steps.output_size(width, height)
    spec.add_image(path, data_format, compose.steps, width, height)
    view = torch.bfloat16 if compose.dtype == "bfloat16" else None
    element = (np.dtype("uint16" if view else compose.dtype), view)
    shape = (
        (height, width, compose.channels)
        if compose.channels_last
        else (compose.channels, height, width)
    )
    steps = "+".join(type(one).__name__ for one in compose.transforms)
    what = f"{path} (JPEG{' fused with ' + steps if steps else ''} to {compose.dtype})"
    return Column(element, shape, compose.channels_last, what)


_SCALARS = {"int": "int64", "float": "float64", "bool": "bool"}


def _add_leaf(
    spec: _core.BatchSpec,
    path: str,
    data_format: str,
    kind: str,
    element: ElementType | None,
    leaf: bytes,
) -> Column:
    if kind in _SCALARS:
        dtype = np.dtype(_SCALARS[kind])
        spec.add_column("fixed", path, data_format, dtype.itemsize, b"")
        return Column((dtype, None), (), what=f"{path} ({kind})")
    if kind in ("str", "bytes"):
        spec.add_column("text" if kind == "str" else "bytes", path, data_format, 0, b"")
        return Column(None, (), what=f"{path} ({kind})")
    shape: tuple[int, ...]
    if kind in _FLAT:
        if element is None:
            msg = f"the dtype of leaf {path} is unknown"
            raise NotNativeError(msg)
        shape, header = (len(leaf) // element[0].itemsize,), b""
    else:
        element, shape, header = _shaped(path, kind, leaf)
    _check_torch_has(path, element)
    spec.add_column(
        "shaped" if header else "fixed", path, data_format, len(leaf) - len(header), header
    )
    return Column(element, shape, what=f"{path} ({element[1] or element[0].name}{list(shape)})")


def _shaped(path: str, kind: str, leaf: bytes) -> tuple[ElementType, tuple[int, ...], bytes]:
    order = "<" if kind == "numpy" else ">"
    types = numpy_element_types() if kind == "numpy" else torch_element_types()
    number, rank = struct.unpack_from(f"{order}{_HEADER_WORDS}I", leaf)
    if number >= len(types):
        msg = f"leaf {path} has the unknown dtype index {number}"
        raise CorruptDataError(msg)
    end = 4 * (_HEADER_WORDS + rank)
    return types[number], struct.unpack_from(f"{order}{rank}I", leaf, 4 * _HEADER_WORDS), leaf[:end]


def _check_torch_has(path: str, element: ElementType) -> None:
    try:
        torch.from_numpy(np.empty(0, element[0]))
    except TypeError as error:
        msg = f"torch has no dtype for leaf {path} ({element[0].name})"
        raise NotNativeError(msg) from error


# ---- structure


def _builder(spec: pytree.TreeSpec) -> Builder:
    """Return a function from columns to the batch: the structure is what torch makes of marked samples."""
    marks = [f"{_MARK}{number}" for number in range(spec.num_leaves)]
    try:
        template = default_collate([pytree.unflatten(spec, marks)])
    except (TypeError, RuntimeError) as error:
        msg = f"torch cannot collate its structure {spec.describe()} ({error})"
        raise NotNativeError(msg) from error
    return _build_like(template)


def _build_like(template: Any) -> Builder:
    if isinstance(template, (list, tuple)) and len(template) == 1 and isinstance(template[0], str):
        number = int(template[0].removeprefix(_MARK))
        if isinstance(template, list):
            return lambda columns: columns[number]

        def as_tuple(columns: list[Any]) -> Any:  # of texts in a list or tuple torch makes a tuple
            column = columns[number]
            return tuple(column) if isinstance(column, list) else column

        return as_tuple
    if isinstance(template, Mapping):
        parts = {key: _build_like(value) for key, value in template.items()}
        if type(template) is dict:
            return lambda columns: {key: part(columns) for key, part in parts.items()}

        def like_mapping(columns: list[Any]) -> Any:
            made: Any = copy.copy(template)
            for key, part in parts.items():
                made[key] = part(columns)
            return made

        return like_mapping
    children = [_build_like(child) for child in template]
    kind = type(template)
    if kind is list:
        return lambda columns: [child(columns) for child in children]
    return lambda columns: kind(child(columns) for child in children)
