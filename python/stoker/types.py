# SPDX-License-Identifier: Apache-2.0
"""Leaves that no other library has a class for. The serializers return them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker._optional import require


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A graph of torch-geometric, readable without torch-geometric.

    Top-level fields are attributes too: ``graph.edge_index``. A field named like a method, or by something that is no
    identifier, is found in `to_mapping` only.

    Attributes:
        data: field -> tensor or other value; in a heterogeneous graph node type (str) or edge type (tuple of three
            str) -> such a mapping.
        hetero: whether ``data`` is that of a ``HeteroData``.
    """

    data: Mapping[Any, Any]
    hetero: bool = field(default=False, kw_only=True)

    def __getattr__(self, name: str) -> Any:
        # copy and pickle ask for dunder names before `data` is there.
        if not name.startswith("__") and name in self.data:
            return self.data[name]
        msg = f"'Graph' object has no attribute {name!r}"
        raise AttributeError(msg, name=name, obj=self)

    def to_mapping(self) -> dict[Any, Any]:
        """Return the fields as dicts of their own; the tensors are shared with this object."""
        return _copied(self.data)

    def to_pyg(self) -> Any:
        """Return a ``torch_geometric.data.Data``, or ``HeteroData``.

        Raises:
            ModuleNotFoundError: torch-geometric is not installed.
        """
        pyg = require("torch_geometric.data", "torch_geometric", "PyG graphs")
        return (pyg.HeteroData if self.hetero else pyg.Data).from_dict(self.to_mapping())


def _copied(node: Mapping[Any, Any]) -> dict[Any, Any]:
    return {k: _copied(v) if isinstance(v, Mapping) else v for k, v in node.items()}
