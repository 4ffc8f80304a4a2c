# SPDX-License-Identifier: Apache-2.0
"""The rules of the house, applied to every file. The rules are in `house`, the proof that they bite in test_house_rules."""

from __future__ import annotations

import ast

import pytest

from house import cpp_code, python_code, python_imports
from house import text as text_rules
from house.files import PACKAGE, ROOT, module_name, relative, walk

# Functions longer than 60 lines: "path::name" -> lines on the day it was entered. The list may only shrink.
LONG_FUNCTIONS: dict[str, int] = {}

# Functions that catch everything and hand the error on in another way than raising or logging it.
HANDED_ON = {
    "python/stoker/processing/_worker.py::run_task": "sends the error to the parent, which raises it",
    "python/stoker/processing/_worker.py::main": "sends the error to the parent, which raises it",
    "python/stoker/processing/_worker.py::_failure": "an unpicklable error still travels as text",
    "python/stoker/streaming/_transformed.py::_produce": "hands the error to the consumer, which raises it",
    "python/stoker/processing/_runner.py::_input": "a failing repr must not hide the failure it is shown in",
}

TOP_LEVEL = {
    ".ci",
    ".clang-format",
    ".clang-tidy",
    ".gitignore",
    "CMakeLists.txt",
    "LICENSE",
    "Makefile",
    "README.md",
    "bench",
    "cpp",
    "examples",
    "pyproject.toml",
    "python",
    "tests",
    "third_party",
}


def _read(folder: str, *suffixes: str) -> dict[str, str]:
    """Return path -> text of the files below ``folder`` with one of ``suffixes``."""
    found = {relative(p): p for p in walk(ROOT / folder) if p.name.endswith(suffixes)}
    return {name: path.read_text(encoding="utf-8") for name, path in found.items()}


PYTHON = _read("python/stoker", ".py")
ALL_PYTHON = PYTHON | _read("tests", ".py") | _read("bench", ".py") | _read("examples", ".py")
MODULES = {module_name(path): text for path, text in PYTHON.items()}
CPP = _read("cpp", ".h", ".cc")
ALL_CPP = (
    CPP
    | _read("python/bindings", ".h", ".cc")
    | _read("tests", ".h", ".cc")
    | _read("bench", ".h", ".cc")
)


def _all_texts() -> dict[str, str]:
    texts = {}
    for path in walk():
        try:
            texts[relative(path)] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # pictures and chunks
    return texts


TEXTS = _all_texts()


def _report(problems: list[str]) -> None:
    assert not problems, "\n" + "\n".join(problems)


def test_something_was_checked() -> None:
    assert "python/stoker/exceptions.py" in PYTHON
    assert "cpp/base/error.h" in CPP
    assert "tests/python/test_house.py" in ALL_PYTHON
    assert ".ci/run" in TEXTS


def test_import_order() -> None:
    names = set(MODULES)
    _report(
        [p for m, text in MODULES.items() for p in python_imports.check_imports(m, text, names)]
    )


def test_no_import_cycles() -> None:
    names = set(MODULES)
    graph = {}
    for module, text in MODULES.items():
        found = {i.module for i in python_imports.imports_of(text, names)}
        # A package that re-exports its own modules is not what they depend on.
        graph[module] = {m for m in found & names if not f"{module}.".startswith(f"{m}.")}
    assert python_imports.find_cycle(graph) == []


def test_compatibility_paths_are_facades() -> None:
    _report([p for m, text in MODULES.items() for p in python_imports.check_facade(m, text)])


def test_package_inits_hold_names_only() -> None:
    inits = {path: text for path, text in PYTHON.items() if path.endswith("__init__.py")}
    _report(
        [p for path, text in inits.items() for p in python_imports.check_package_init(path, text)]
    )


@pytest.mark.parametrize(
    "check",
    [
        python_code.check_environment,
        python_code.check_sleep,
        python_code.check_print,
        python_code.check_loggers,
        python_code.check_mutable_defaults,
    ],
)
def test_package_code(check) -> None:
    _report([p for path, text in PYTHON.items() for p in check(path, text)])


def test_nothing_is_swallowed() -> None:
    _report(
        [
            p
            for path, text in PYTHON.items()
            for p in python_code.check_broad_except(path, text, HANDED_ON)
        ]
    )
    found = {
        f"{path}::{n}"
        for path, text in PYTHON.items()
        for n, _ in python_code.swallowing_handlers(text)
    }
    assert set(HANDED_ON) <= found, "entries of HANDED_ON that are no longer needed"


def test_function_length() -> None:
    _report(
        [
            p
            for path, text in ALL_PYTHON.items()
            for p in python_code.check_function_length(path, text, LONG_FUNCTIONS)
        ]
    )
    lengths = {
        f"{path}::{n}": lines
        for path, t in ALL_PYTHON.items()
        for n, _, lines in python_code.functions(t)
    }
    stale = {
        k: v
        for k, v in LONG_FUNCTIONS.items()
        if lengths.get(k, 0) < v or v <= python_code.FUNCTION_LINES
    }
    assert not stale, "entries of LONG_FUNCTIONS to lower or remove"


@pytest.mark.parametrize("check", [cpp_code.check_includes, cpp_code.check_function_length])
def test_all_cpp(check) -> None:
    _report([p for path, text in ALL_CPP.items() for p in check(path, text)])


@pytest.mark.parametrize("check", [cpp_code.check_words, cpp_code.check_header])
def test_cpp_rooms(check) -> None:
    _report([p for path, text in CPP.items() for p in check(path, text)])


def test_cpp_rooms_in_cmake() -> None:
    lists = {
        path: text
        for path, text in TEXTS.items()
        if path.startswith("cpp/") and path.endswith("CMakeLists.txt")
    }
    _report(cpp_code.check_room_order(lists.pop("cpp/CMakeLists.txt")))
    _report(
        [p for path, text in lists.items() for p in cpp_code.check_room_dependencies(path, text)]
    )


def test_licence_line() -> None:
    files = {path: text for path, text in TEXTS.items() if text_rules.needs_licence(path)}
    _report([p for path, text in files.items() for p in text_rules.check_licence(path, text)])


@pytest.mark.parametrize("check", [text_rules.check_size, text_rules.check_private_words])
def test_all_texts(check) -> None:
    _report([p for path, text in TEXTS.items() for p in check(path, text)])


def test_top_level() -> None:
    assert {relative(path).split("/")[0] for path in walk()} <= TOP_LEVEL


def test_third_party_holds_no_source() -> None:
    assert {path.suffix for path in walk(ROOT / "third_party")} <= {".cmake", ".md"}


def test_every_package_folder_is_a_package() -> None:
    folders = {path.parent for path in walk(PACKAGE) if path.suffix == ".py"}
    missing = [relative(folder) for folder in folders if not (folder / "__init__.py").exists()]
    assert not missing, "folders without __init__.py are not in the wheel's type information"


def test_sources_parse_for_the_oldest_python() -> None:
    for path, text in ALL_PYTHON.items():
        ast.parse(text, filename=path, feature_version=(3, 11))
