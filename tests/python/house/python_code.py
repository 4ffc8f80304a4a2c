# SPDX-License-Identifier: Apache-2.0
"""Rules for Python code itself. A checker gets a file's path and text and returns what is wrong with it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

FUNCTION_LINES = 60

_MAY_READ_ENVIRONMENT = {"python/stoker/config.py", "python/stoker/environment.py"}
_BROAD = {"Exception", "BaseException"}
_LOGGERS = {"logger", "_logger", "log", "_log"}
_LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
_MUTABLE_CALLS = {
    "list",
    "dict",
    "set",
    "bytearray",
    "defaultdict",
    "OrderedDict",
    "deque",
    "Counter",
}
_MUTABLE_NODES = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield (qualified name, first line, number of lines) of every function.

    Decorators and the docstring do not count: a contract is as long as it must be.
    """
    yield from _functions(ast.parse(text), "")


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, int, int]]:
    for child in ast.iter_child_nodes(node):
        name = prefix
        if isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
            name = f"{prefix}.{child.name}" if prefix else child.name
        if isinstance(child, _FUNCTIONS):
            docstring = child.body[0] if ast.get_docstring(child) is not None else None
            yield name, child.lineno, _lines(child) - (_lines(docstring) if docstring else 0)
        yield from _functions(child, name)


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def check_function_length(path: str, text: str, allowed: dict[str, int]) -> list[str]:
    """Return functions above 60 lines, or above what ``allowed`` says for ``path::name``."""
    problems = []
    for name, line, length in functions(text):
        limit = allowed.get(f"{path}::{name}", FUNCTION_LINES)
        if length > limit:
            problems.append(f"{path}:{line}: {name} has {length} lines, at most {limit}")
    return problems


def check_environment(path: str, text: str) -> list[str]:
    """Return places that touch the process environment outside the two modules that own it."""
    if path in _MAY_READ_ENVIRONMENT:
        return []
    names = {"environ", "environb", "getenv", "putenv", "unsetenv"}
    return [
        f"{path}:{line}: only config.py and environment.py use os.{name}"
        for name, line in _uses("os", text)
        if name in names
    ]


def check_sleep(path: str, text: str) -> list[str]:
    """Return places that wait by the clock."""
    return [
        f"{path}:{line}: nothing sleeps; wait for the event itself"
        for name, line in _uses("time", text)
        if name == "sleep"
    ]


def _uses(module: str, text: str) -> Iterator[tuple[str, int]]:
    """Yield (name, line) for ``module.name`` and ``from module import name``, also under another name."""
    tree = ast.parse(text)
    aliases = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == module
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == module and node.level == 0:
            yield from ((alias.name, node.lineno) for alias in node.names)
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in aliases
        ):
            yield node.attr, node.lineno


def check_print(path: str, text: str) -> list[str]:
    """Return calls of print outside the command line."""
    if path.startswith("python/stoker/cli/"):
        return []
    return [
        f"{path}:{node.lineno}: only stoker.cli prints; use a logger"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]


def check_loggers(path: str, text: str) -> list[str]:
    """Return loggers that are not named after their module."""
    return [
        f"{path}:{node.lineno}: logging.getLogger(__name__)"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("getLogger")
        and [ast.unparse(a) for a in node.args] != ["__name__"]
    ]


def check_mutable_defaults(path: str, text: str) -> list[str]:
    """Return parameters whose default is one object shared by all calls."""
    problems = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            for default in [*node.args.defaults, *node.args.kw_defaults]:
                if default is not None and _is_mutable(default):
                    shown = ast.unparse(default)
                    problems.append(f"{path}:{default.lineno}: mutable default {shown}")
    return problems


def _is_mutable(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2] in _MUTABLE_CALLS
    return isinstance(node, _MUTABLE_NODES)


def check_broad_except(path: str, text: str, allowed: dict[str, str]) -> list[str]:
    """Return handlers that swallow any error: bare or broad, and neither re-raising nor logging.

    ``allowed`` maps ``path::function`` to the reason why its handlers hand the error on in another way.
    """
    return [
        f"{path}:{line}: catches everything in {name} and neither re-raises nor logs"
        for name, line in swallowing_handlers(text)
        if f"{path}::{name}" not in allowed
    ]


def swallowing_handlers(text: str) -> list[tuple[str, int]]:
    """Return (qualified function name, line) of every handler that swallows any error."""
    return list(_swallowing(ast.parse(text), ""))


def _swallowing(node: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        name = prefix
        if isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
            name = f"{prefix}.{child.name}" if prefix else child.name
        if isinstance(child, ast.ExceptHandler) and _is_broad(child.type) and not _hands_on(child):
            yield prefix, child.lineno
        yield from _swallowing(child, name)


def _is_broad(kind: ast.expr | None) -> bool:
    if kind is None:
        return True
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(ast.unparse(k) in _BROAD for k in kinds)


def _hands_on(handler: ast.ExceptHandler) -> bool:
    for node in _own_nodes(handler.body):
        if isinstance(node, ast.Raise):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value)
            if owner in _LOGGERS and node.func.attr in _LOG_METHODS:
                return True
    return False


def _own_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes at and below ``nodes`` that run there: not those of functions defined in it."""
    for node in nodes:
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield node
            yield from _own_nodes(ast.iter_child_nodes(node))
