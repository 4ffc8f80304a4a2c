# SPDX-License-Identifier: Apache-2.0
"""Who may import whom in the package. A checker gets a module's name and text and returns what is wrong with it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from house.rooms import FACADES, FOUNDATION_PACKAGES, PYTHON_ROOMS, STREAMING_ORDER, room_of

_FACADE_LINES = 12
_FACADE_DOCSTRING = "Compatibility path for"


@dataclass(frozen=True, slots=True)
class Imported:
    """One import of one module."""

    module: str
    line: int
    in_function: bool

    @property
    def root(self) -> str:
        """The distribution-level name, for example ``torch`` of ``torch.utils``."""
        return self.module.partition(".")[0]


def imports_of(text: str, modules: set[str]) -> list[Imported]:
    """Return every import of a file, also those in functions and under ``if TYPE_CHECKING``.

    ``modules`` are the names of the package's modules: ``from stoker import units`` then counts as ``stoker.units``.
    """
    return list(_walk(ast.parse(text), modules, in_function=False))


def _walk(node: ast.AST, modules: set[str], *, in_function: bool) -> Iterator[Imported]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Imported(alias.name, node.lineno, in_function)
    elif isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            name = f"{module}.{alias.name}"
            is_module = name in modules or name == "stoker._core"
            yield Imported(name if is_module else module, node.lineno, in_function)
    inside = in_function or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, modules, in_function=inside)


def check_imports(module: str, text: str, modules: set[str]) -> list[str]:
    """Return the imports of ``module`` that the tables of `house.rooms` do not allow."""
    room = room_of(module)
    if room is None:
        return [f"{module}: no room in tests/python/house/rooms.py has this module"]
    problems = []
    for found in imports_of(text, modules):
        reason = _forbidden(module, room, found)
        if reason:
            problems.append(f"{module}:{found.line}: imports {found.module}: {reason}")
    return problems


def _forbidden(module: str, room: str, found: Imported) -> str | None:
    if found.module.startswith("."):
        return "imports are absolute"
    if found.root != "stoker":
        return _forbidden_package(room, found)
    if found.in_function:
        return "only optional packages are imported inside functions"
    other = room_of(found.module)
    if other is None:
        return "no room in tests/python/house/rooms.py has it"
    if other == "facade":
        return "compatibility paths are for users, not for our own code"
    if room == "facade":
        allowed = found.module in FACADES[module]
        return None if allowed else "this compatibility path may not point there"
    if other != room and other not in PYTHON_ROOMS[room]:
        return f"'{room}' may not use '{other}'"
    if room == other == "streaming":
        return _forbidden_in_streaming(module, found.module)
    return None


def _forbidden_package(room: str, found: Imported) -> str | None:
    standard = found.root in sys.stdlib_module_names
    if found.in_function:
        needless = standard or found.root == "numpy"
        return "only optional packages are imported inside functions" if needless else None
    if room == "foundation" and not standard and found.root not in FOUNDATION_PACKAGES:
        return "the foundation imports only the standard library and numpy when it is loaded"
    return None


def _forbidden_in_streaming(module: str, imported: str) -> str | None:
    parts, other_parts = module.split("."), imported.split(".")
    if len(parts) == 2:
        return None
    if len(other_parts) == 2:
        return "a module of streaming imports the module it needs, not the whole room"
    mine, other = _level(parts[2]), _level(other_parts[2])
    if mine is None or other is None:
        missing = parts[2] if mine is None else other_parts[2]
        return f"'{missing}' has no place in STREAMING_ORDER of tests/python/house/rooms.py"
    if parts[2] != other_parts[2] and other >= mine:
        return f"'{other_parts[2]}' is not below '{parts[2]}'"
    return None


def _level(name: str) -> int | None:
    return next((i for i, names in enumerate(STREAMING_ORDER) if name in names), None)


def check_facade(module: str, text: str) -> list[str]:
    """Return why ``module`` is no façade, or why it should be in the table of façades."""
    tree = ast.parse(text)
    docstring = ast.get_docstring(tree) or ""
    if module not in FACADES:
        looks_so = docstring.startswith(_FACADE_DOCSTRING)
        return [f"{module}: is a façade, but not in FACADES of rooms.py"] if looks_so else []
    problems = []
    if not docstring.startswith(_FACADE_DOCSTRING):
        problems.append(f"{module}: the docstring must start with '{_FACADE_DOCSTRING}'")
    if len(text.splitlines()) > _FACADE_LINES:
        problems.append(f"{module}: more than {_FACADE_LINES} lines")
    for node in tree.body[1:]:
        names_all = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        if not names_all and not isinstance(node, ast.ImportFrom):
            problems.append(f"{module}:{node.lineno}: only `from ... import ...` and __all__")
    return problems


def check_package_init(module: str, text: str) -> list[str]:
    """Return what an ``__init__.py`` holds besides docstring, imports, ``__all__`` and ``__version__``."""
    problems = []
    for number, node in enumerate(ast.parse(text).body):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        if number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in {
            "__all__",
            "__version__",
        }:
            continue
        problems.append(f"{module}:{node.lineno}: an __init__.py holds names and nothing else")
    return problems


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of one import cycle in order, or [] when there is none."""
    state: dict[str, int] = {}
    stack: list[str] = []

    def visit(module: str) -> list[str]:
        state[module] = 1
        stack.append(module)
        for other in sorted(graph.get(module, ())):
            if state.get(other) == 1:
                return stack[stack.index(other) :]
            if other not in state and (cycle := visit(other)):
                return cycle
        stack.pop()
        state[module] = 2
        return []

    for module in sorted(graph):
        if module not in state and (cycle := visit(module)):
            return cycle
    return []
