# SPDX-License-Identifier: Apache-2.0
"""What a user does with every sample: functions of the sample, and of single leaves.

Image transforms of `stoker.vision` on JPEG leaves get the file's bytes, so that they can decode just what they need;
and the numbers that say which sample it is, so that their random numbers depend on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker import pytree
from stoker.exceptions import InvalidArgumentError
from stoker.streaming.index import DatasetIndex
from stoker.streaming.item_loader.pytree import leaf_kinds
from stoker.streaming.serializers import Serializer
from stoker.vision import Compose, as_compose

Function = Callable[[Any], Any]
Path = tuple[Any, ...]
Key = tuple[int, int, int]  # seed, epoch, position in the epoch


@dataclass(frozen=True, slots=True)
class LeafTransform:
    """A function of one leaf.

    Attributes:
        number: of the leaf, in flatten order.
        path: keys that lead to it.
        function: a Compose, or any function of the leaf's value.
    """

    number: int
    path: Path
    function: Function

    def apply(self, sample: Any, key: Key | None) -> Any:
        """Return the sample with the leaf changed (in place where its container allows)."""
        function = self.function
        if isinstance(function, Compose):
            numbers = None if key is None else (*key, self.number)
            return _changed(sample, self.path, lambda leaf: function(leaf, key=numbers))
        return _changed(sample, self.path, function)


def _changed(node: Any, path: Path, function: Function) -> Any:
    if not path:
        return function(node)
    step = path[0]
    value = _changed(node[step], path[1:], function)
    if isinstance(node, tuple):
        return (*node[:step], value, *node[step + 1 :])
    node[step] = value
    return node


@dataclass(frozen=True, slots=True)
class Transforms:
    """All of them, in the order of application: leaves first.

    Attributes:
        leaves: functions of leaves.
        functions: functions of the sample.
        undecoded: numbers of the JPEG leaves that stay bytes until their Compose.
    """

    leaves: tuple[LeafTransform, ...] = ()
    functions: tuple[Function, ...] = ()
    undecoded: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.leaves or self.functions)

    def __call__(self, sample: Any, key: Key | None = None) -> Any:
        """Return the transformed sample. ``key`` None: random numbers come from torch's generator."""
        for leaf in self.leaves:
            sample = leaf.apply(sample, key)
        for function in self.functions:
            sample = function(sample)
        return sample

    @property
    def composes(self) -> dict[int, Compose]:
        """Leaf number -> Compose."""
        return {t.number: t.function for t in self.leaves if isinstance(t.function, Compose)}

    @property
    def python(self) -> list[Function]:
        """Functions that only Python can run."""
        return [
            *(t.function for t in self.leaves if not isinstance(t.function, Compose)),
            *self.functions,
        ]


def resolve_transforms(
    transform: Any, index: DatasetIndex, serializers: dict[str, Serializer]
) -> Transforms:
    """Return the transforms a user asked for.

    Args:
        transform: None; a function or a list of functions of the sample; or a dict from a key of the sample (or a tuple
            of keys, for nested ones) to a function of that leaf.
        index: of the dataset.
        serializers: name -> serializer.

    Raises:
        InvalidArgumentError: anything else, or a key that leads to no leaf.
    """
    if transform is None:
        return Transforms()
    compose = as_compose(transform)
    if compose is not None:
        return _of_leaves({(): compose}, index, serializers)
    if isinstance(transform, Mapping):
        named = {k if isinstance(k, tuple) else (k,): v for k, v in transform.items()}
        return _of_leaves(named, index, serializers)
    functions: Sequence[Any] = transform if isinstance(transform, (list, tuple)) else [transform]
    if not all(callable(one) for one in functions):
        msg = (
            "transform must be a callable, a list of callables, or a dict of them by key of the sample, "
            f"found {transform!r}."
        )
        raise InvalidArgumentError(msg)
    return Transforms(functions=tuple(functions))


def _of_leaves(
    named: dict[Path, Any], index: DatasetIndex, serializers: dict[str, Serializer]
) -> Transforms:
    numbers = leaf_numbers("transform", named, index)
    kinds = leaf_kinds(index.config, serializers)
    leaves, undecoded = [], set()
    for number, (path, given) in zip(numbers, named.items(), strict=True):
        function = as_compose(given) or given
        if not callable(function):
            msg = f"transform: the value for {path!r} must be a callable, found {function!r}."
            raise InvalidArgumentError(msg)
        leaves.append(LeafTransform(number, path, function))
        if isinstance(function, Compose) and kinds[number][2] == "jpeg":
            undecoded.add(number)
    return Transforms(tuple(leaves), undecoded=frozenset(undecoded))


def leaf_numbers(argument: str, paths: Iterable[Path], index: DatasetIndex) -> list[int]:
    """Return the number, in flatten order, of the leaf at each path.

    Args:
        argument: that named the paths, for messages.
        paths: keys that lead to a leaf.
        index: of the dataset.

    Raises:
        InvalidArgumentError: the samples are no trees, or a path leads to no leaf.
    """
    if index.spec is None or index.loader_name != "PyTreeLoader":
        msg = f"{argument}: leaves by key need a dataset of PyTreeLoader; give a function of the sample instead."
        raise InvalidArgumentError(msg)
    known = _leaf_paths(index.spec)
    found = []
    for path in paths:
        number = known.get(path)
        if number is None:
            shown = path[0] if len(path) == 1 else path
            leaves = ", ".join(repr(p[0] if len(p) == 1 else p) for p in known)
            hint = f"Give it by key: {argument}={{key: ...}}. " if not path else ""
            msg = f"{argument}: no leaf {shown!r} in the samples of {index.directory}. {hint}Leaves: {leaves}."
            raise InvalidArgumentError(msg)
        found.append(number)
    return found


def _leaf_paths(spec: pytree.TreeSpec) -> dict[Path, int]:
    """Return the number of every leaf by its path."""
    paths: dict[Path, int] = {}

    def visit(node: pytree.TreeSpec, path: Path) -> None:
        if node.kind is None:
            paths[path] = len(paths)
            return
        steps = node.keys or range(len(node.children))
        for step, child in zip(steps, node.children, strict=True):
            visit(child, (*path, step))

    visit(spec, ())
    return paths
