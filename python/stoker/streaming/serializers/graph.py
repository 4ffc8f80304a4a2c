# SPDX-License-Identifier: Apache-2.0
"""Graphs of torch-geometric: tensors one by one, and what lies around them in a pickle. Only read.

Byte layout, numbers big-endian::

    "LDGR"  u8 version  count of fields
    per field: length of the name, name, u8 kind (0 tensor, 1 pickle; not in version 1), u32 length, payload

Count and length of the name are u16 in version 3 and u8 before. The field ``_meta`` holds the structure as a pickled
dict: ``_tree`` (the mapping with a mark in place of each tensor), ``_paths`` and ``_fields`` (where each tensor belongs
and what its field is called) and ``_cls``. Without ``_meta`` the fields themselves are the graph.
"""

from __future__ import annotations

import pickle
import pickletools
from collections.abc import Iterator
from typing import Any

import torch

from stoker import _optional
from stoker.exceptions import CorruptDataError
from stoker.streaming.serializers._cursor import ByteCursor
from stoker.streaming.serializers._read_only import ReadOnlySerializer, decoding
from stoker.streaming.serializers.array import TensorSerializer
from stoker.types import Graph

_MAGIC = b"LDGR"
_VERSIONS = (1, 2, 3)
_META = "_meta"
_TENSOR_MARK = "__ldgr_t__"
_TENSOR, _PICKLE = 0, 1


class GraphSerializer(ReadOnlySerializer):
    """``graph`` leaves; ``graph:pickle`` leaves are pickles, and the registry reads them as such.

    Reading unpickles what lies around the tensors: open only datasets you trust.
    """

    def deserialize(self, data: bytes) -> Any:
        """Return a PyG ``Data`` or ``HeteroData`` when torch-geometric is installed, else a `stoker.types.Graph`.

        Raises:
            CorruptDataError: the bytes are no graph.
        """
        fields = dict(_fields(ByteCursor(data, "graph leaf", "big")))
        graph = _assemble(fields) if _META in fields else Graph(fields)
        return graph if _optional.find("torch_geometric") is None else graph.to_pyg()


def _fields(cursor: ByteCursor) -> Iterator[tuple[str, Any]]:
    magic = cursor.take(len(_MAGIC), "magic")
    if magic != _MAGIC:
        cursor.at = 0
        cursor.fail(repr(_MAGIC), repr(magic))
    version = cursor.unsigned(1, "the version")
    if version not in _VERSIONS:
        cursor.fail(f"one of the versions {_VERSIONS}", str(version))
    width = 2 if version >= 3 else 1  # noqa: PLR2004 - see the layout above
    for _ in range(cursor.unsigned(width, "the number of fields")):
        name = cursor.text(cursor.unsigned(width, "the length of a name"), "the name of a field")
        if version == 1:
            kind = _PICKLE if name == _META else _TENSOR
        else:
            kind = cursor.unsigned(1, "the kind of a field")
        payload = cursor.take(cursor.unsigned(4, "the length of a field"), f"field {name!r}")
        if kind == _TENSOR:
            yield name, _tensor(name, payload)
        elif kind == _PICKLE:
            yield name, _unpickled(name, payload)
        else:
            cursor.fail(f"kind 0 or 1 of field {name!r}", str(kind))
    cursor.finish()


def _tensor(name: str, payload: bytes) -> torch.Tensor:
    with decoding(f"a tensor in field {name!r} of a graph", payload):
        return TensorSerializer().deserialize(payload)


def _unpickled(name: str, payload: bytes) -> Any:
    with decoding(f"a pickle in field {name!r} of a graph", payload):
        # The unpickler makes room for as many objects as the largest number given to one; in damaged bytes that can
        # be billions. Every numbered object takes a byte, so a larger number is damage.
        for opcode, argument, _ in pickletools.genops(payload):
            if opcode.name == "LONG_BINPUT" and (argument or 0) > len(payload):
                msg = f"an object numbered {argument}"
                raise pickle.UnpicklingError(msg)
        return pickle.loads(payload)


def _assemble(fields: dict[str, Any]) -> Graph:
    meta = fields[_META]
    try:
        paths = [tuple(path) for path in meta["_paths"]]
        tensors = dict(zip(paths, [fields[name] for name in meta["_fields"]], strict=True))
        return Graph(_filled(meta["_tree"], (), tensors), hetero=meta["_cls"] == "hetero")
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        msg = (
            f"graph leaf: expected the structure of the fields {list(fields)}, found {str(meta)[:200]} "
            f"({type(error).__name__}: {error})"
        )
        raise CorruptDataError(msg) from error


def _filled(node: dict[Any, Any], path: tuple[Any, ...], tensors: dict[Any, Any]) -> dict[Any, Any]:
    filled = {}
    for key, value in node.items():
        here = (*path, key)
        if isinstance(value, dict):
            filled[key] = _filled(value, here, tensors)
        elif isinstance(value, str) and value == _TENSOR_MARK:
            filled[key] = tensors[here]
        else:
            filled[key] = value
    return filled
