# SPDX-License-Identifier: Apache-2.0
"""Samples as trees: flatten to leaves, rebuild, and the spec's JSON form stored in ``index.json``.

Containers are dict, list, tuple, OrderedDict, deque and defaultdict (exact types; subclasses are leaves). Dict
children keep insertion order. ``None`` is a leaf. Format rules: cpp/format/FORMAT.md, section "data_spec".
"""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stoker.exceptions import DatasetFormatError, SampleStructureError

_PROTOCOL = 1
_TYPE_NAMES: dict[type, str] = {
    dict: "builtins.dict",
    list: "builtins.list",
    tuple: "builtins.tuple",
    OrderedDict: "collections.OrderedDict",
    deque: "collections.deque",
    defaultdict: "collections.defaultdict",
}
_TYPES = {name: kind for kind, name in _TYPE_NAMES.items()}
_FACTORIES = {kind.__name__: kind for kind in (bool, dict, float, int, list, set, str, tuple)}
_MAPPINGS = (dict, OrderedDict, defaultdict)

IsLeaf = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class TreeSpec:
    """The structure of a sample without its leaves.

    Attributes:
        kind: container class, or None for a leaf.
        keys: keys of a mapping in order, else ().
        extra: deque -> maxlen; defaultdict -> its factory; else None.
        children: one spec per child, in flatten order.
    """

    kind: type | None = None
    keys: tuple[Any, ...] = ()
    extra: Any = None
    children: tuple[TreeSpec, ...] = ()

    @property
    def num_leaves(self) -> int:
        """Number of leaves below this node."""
        return 1 if self.kind is None else sum(child.num_leaves for child in self.children)

    def paths(self, prefix: str = "") -> list[str]:
        """Return how to reach every leaf, for messages: ``["['image']", "['boxes'][0]"]``."""
        if self.kind is None:
            return [prefix or "the sample itself"]
        steps = self.keys or range(len(self.children))
        return [
            p
            for step, child in zip(steps, self.children, strict=True)
            for p in child.paths(f"{prefix}[{step!r}]")
        ]

    def describe(self) -> str:
        """Return the structure in one line, for messages: ``{'image': *, 'boxes': [*, *]}``."""
        if self.kind is None:
            return "*"
        inner = [child.describe() for child in self.children]
        if self.kind in _MAPPINGS:
            text = (
                "{" + ", ".join(f"{k!r}: {v}" for k, v in zip(self.keys, inner, strict=True)) + "}"
            )
            return text if self.kind is dict else f"{self.kind.__name__}({text})"
        text = ", ".join(inner)
        if self.kind is tuple:
            return f"({text},)" if len(inner) == 1 else f"({text})"
        return f"[{text}]" if self.kind is list else f"deque([{text}])"


LEAF = TreeSpec()


def flatten(sample: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves of ``sample`` in order and its structure.

    Args:
        sample: any nesting of the container types.
        is_leaf: asked for each list and tuple; True keeps it whole as a leaf.

    Raises:
        SampleStructureError: a namedtuple, or dict keys the format cannot store.
    """
    leaves: list[Any] = []
    return leaves, _flatten(sample, leaves, is_leaf, "")


def _flatten(node: Any, leaves: list[Any], is_leaf: IsLeaf | None, path: str) -> TreeSpec:
    kind = type(node)
    if kind not in _TYPE_NAMES or (kind in (list, tuple) and is_leaf is not None and is_leaf(node)):
        if isinstance(node, tuple) and hasattr(node, "_fields"):
            msg = f"{path or 'The sample'} is a namedtuple ({kind.__name__}), which the format cannot store. Use `._asdict()` or `tuple()`."
            raise SampleStructureError(msg)
        leaves.append(node)
        return LEAF
    if kind in _MAPPINGS:
        keys = tuple(node)
        for key in keys:
            if not isinstance(key, (str, int, float, type(None))):
                msg = f"{path or 'The sample'} has the dict key {key!r} of type {type(key).__name__}; keys must be str, int, float, bool or None."
                raise SampleStructureError(msg)
        children = tuple(_flatten(node[key], leaves, is_leaf, f"{path}[{key!r}]") for key in keys)
        return TreeSpec(kind, keys, node.default_factory if kind is defaultdict else None, children)
    children = tuple(
        _flatten(child, leaves, is_leaf, f"{path}[{i}]") for i, child in enumerate(node)
    )
    return TreeSpec(kind, (), node.maxlen if kind is deque else None, children)


def flatten_as(spec: TreeSpec, sample: Any, out: list[Any], path: str = "") -> None:
    """Append the leaves of ``sample`` to ``out`` in the order of ``spec``.

    Dict keys may come in any order; containers, keys and lengths must be those of ``spec``.

    Raises:
        SampleStructureError: they are not; the message names the place, what was expected and what was found.
    """
    kind = spec.kind
    if kind is None:
        out.append(sample)  # whether the leaf's serializer takes it is the writer's question
        return
    if type(sample) is not kind:
        _mismatch(
            path, spec.describe(), f"{'an' if type(sample) is int else 'a'} {type(sample).__name__}"
        )
    if kind in _MAPPINGS:
        if len(sample) != len(spec.keys) or any(key not in sample for key in spec.keys):
            _mismatch(path, f"the keys {list(spec.keys)}", f"{list(sample)}")
        for key, child in zip(spec.keys, spec.children, strict=True):
            if child.kind is None:  # saves building the path for the common flat dict
                out.append(sample[key])
            else:
                flatten_as(child, sample[key], out, f"{path}[{key!r}]")
        return
    if len(sample) != len(spec.children):
        _mismatch(
            path, f"a {kind.__name__} of length {len(spec.children)}", f"length {len(sample)}"
        )
    for i, child in enumerate(spec.children):
        flatten_as(child, sample[i], out, f"{path}[{i}]")


def _mismatch(path: str, expected: str, found: str) -> None:
    msg = f"at {path or 'the top'}: expected {expected}, found {found}"
    raise SampleStructureError(msg)


def unflatten(spec: TreeSpec, leaves: list[Any]) -> Any:
    """Rebuild a sample; the inverse of `flatten`. Reading datasets does this in C++."""
    iterator = iter(leaves)

    def build(node: TreeSpec) -> Any:
        if node.kind is None:
            return next(iterator)
        values = [build(child) for child in node.children]
        if node.kind in (dict, OrderedDict):
            return node.kind(zip(node.keys, values, strict=True))
        if node.kind is defaultdict:
            return defaultdict(node.extra, zip(node.keys, values, strict=True))
        return deque(values, node.extra) if node.kind is deque else node.kind(values)

    return build(spec)


def to_json(spec: TreeSpec) -> str:
    """Return the text stored as ``config.data_spec``."""
    return json.dumps([_PROTOCOL, _to_node(spec)])


def _to_node(spec: TreeSpec) -> dict[str, Any]:
    if spec.kind is None:
        return {"type": None, "context": None, "children_spec": []}
    context: Any
    if spec.kind is defaultdict:
        factory = spec.extra
        context = {
            "default_factory_module": getattr(factory, "__module__", None),
            "default_factory_name": getattr(factory, "__qualname__", None),
            "dict_context": list(spec.keys),
        }
    elif spec.kind in _MAPPINGS:
        context = json.dumps(list(spec.keys))
    else:
        context = json.dumps(spec.extra)
    return {
        "type": _TYPE_NAMES[spec.kind],
        "context": context,
        "children_spec": [_to_node(c) for c in spec.children],
    }


def from_json(text: str) -> TreeSpec:
    """Return the spec of a ``config.data_spec`` text.

    Raises:
        DatasetFormatError: the text is no spec of protocol 1, or names a container this version does not know.
    """
    try:
        protocol, node = json.loads(text)
        if protocol != _PROTOCOL:
            msg = f"data_spec has protocol {protocol}, this version reads {_PROTOCOL}"
            raise DatasetFormatError(msg)
        return _from_node(node)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        if isinstance(error, DatasetFormatError):
            raise
        msg = f"data_spec cannot be read: {text[:200]!r} ({type(error).__name__}: {error})"
        raise DatasetFormatError(msg) from error


def _from_node(node: dict[str, Any]) -> TreeSpec:
    if node["type"] is None:
        return LEAF
    kind = _TYPES.get(node["type"])
    if kind is None:
        msg = f"data_spec names the container {node['type']!r}; known are {sorted(_TYPES)}"
        raise DatasetFormatError(msg)
    children = tuple(_from_node(child) for child in node["children_spec"])
    context = node["context"]
    if kind is defaultdict:
        extra = _factory(context["default_factory_module"], context["default_factory_name"])
        keys = context["dict_context"]
        keys = json.loads(keys) if isinstance(keys, str) else keys
    else:
        keys = json.loads(context) if kind in _MAPPINGS else ()
        extra = json.loads(context) if kind is deque else None
    if kind in _MAPPINGS and len(keys) != len(children):
        msg = f"data_spec has {len(keys)} keys for {len(children)} children in a {node['type']}"
        raise DatasetFormatError(msg)
    return TreeSpec(kind, tuple(keys), extra, children)


def _factory(module: str | None, name: str | None) -> Any:
    """Find a defaultdict's factory among the harmless ones: a dataset must not choose what gets called."""
    return _FACTORIES.get(name or "") if module == "builtins" else None
