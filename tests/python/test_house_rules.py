# SPDX-License-Identifier: Apache-2.0
"""Proof that every rule of `house` finds what it looks for, and leaves the allowed twin alone."""

from __future__ import annotations

import pytest

from house import cpp_code, python_code, python_imports
from house import text as text_rules

MODULES = {
    "stoker",
    "stoker.config",
    "stoker.units",
    "stoker.streaming",
    "stoker.streaming.index",
    "stoker.streaming.item_loader.base",
    "stoker.streaming.reader",
    "stoker.streaming.writer",
    "stoker.processing.functions",
    "stoker.tracing",
}


@pytest.mark.parametrize(
    ("module", "code"),
    [
        (
            "stoker.config",
            "from stoker.streaming.index import DatasetIndex",
        ),  # foundation -> streaming
        ("stoker.config", "import torch"),
        ("stoker.streaming.index", "from stoker.processing.functions import optimize"),
        (
            "stoker.streaming.index",
            "from stoker.streaming.reader import Reader",
        ),  # upwards inside the room
        ("stoker.streaming.index", "from stoker.streaming import Dir"),
        (
            "stoker.streaming.writer",
            "from stoker.streaming._progress import Progress",
        ),  # same line of the table
        ("stoker.streaming.index", "from stoker import StreamingDataset"),  # the top is for users
        ("stoker.streaming.index", "def f():\n    from stoker.units import parse_bytes"),
        ("stoker.streaming.index", "def f():\n    import json"),
        ("stoker.streaming.index", "from stoker.utilities.encryption import Encryption"),  # façade
        ("stoker.streaming.index", "from .writer import BinaryWriter"),
        ("stoker.streaming.unheard_of", "from stoker.streaming.index import x"),
        ("stoker.unheard_of", ""),
        ("stoker.raw.dataset", "from stoker.processing.functions import optimize"),
        ("stoker.integrations.hf", "from stoker.streaming.resolver import Dir"),
        ("stoker.cli.main", "from stoker.streaming.index import DatasetIndex"),
        (
            "stoker.utilities.format",
            "from stoker.config import Settings",
        ),  # façade with another target
        (
            "stoker.streaming.index",
            "if TYPE_CHECKING:\n    from stoker.streaming.reader import Reader",
        ),
    ],
)
def test_forbidden_imports(module: str, code: str) -> None:
    assert len(python_imports.check_imports(module, code, MODULES)) == 1


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("stoker.config", "import os\nimport numpy as np\nfrom stoker import units"),
        ("stoker.config", "def f():\n    import torch"),
        (
            "stoker.streaming.reader",
            "from stoker import _core\nfrom stoker.streaming.index import x",
        ),
        (
            "stoker.streaming.item_loader.pytree",
            "from stoker.streaming.item_loader.base import BaseItemLoader",
        ),
        ("stoker.processing.functions", "from stoker.streaming.reader import Reader"),
        ("stoker.streaming", "from stoker.streaming.reader import Reader"),
        ("stoker.cli.main", "import stoker"),
        ("stoker.utilities.format", "from stoker.units import parse_bytes"),
    ],
)
def test_allowed_imports(module: str, code: str) -> None:
    assert python_imports.check_imports(module, code, MODULES) == []


def test_import_of_a_module_by_from() -> None:
    found = python_imports.imports_of("from stoker import config, Thing", MODULES)
    assert [i.module for i in found] == ["stoker.config", "stoker"]


def test_cycles() -> None:
    assert python_imports.find_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]
    assert python_imports.find_cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


FACADE = '"""Compatibility path for `stoker.units`."""\n\nfrom stoker.units import parse_bytes\n\n__all__ = ["parse_bytes"]\n'


def test_facades() -> None:
    check = python_imports.check_facade
    assert check("stoker.utilities.format", FACADE) == []
    assert check("stoker.utilities.format", FACADE.replace("Compatibility", "Some"))
    assert check("stoker.utilities.format", FACADE + "def f(): ...\n")
    assert check("stoker.utilities.format", FACADE + "\n" * 12)
    assert check("stoker.units", FACADE)
    assert check("stoker.units", '"""Sizes."""\ndef f(): ...\n') == []


def test_package_init() -> None:
    check = python_imports.check_package_init
    assert check("i", '"""Names."""\nfrom a import b\n__all__ = ["b"]\n__version__ = "1"\n') == []
    for code in ("def f(): ...", "class A: ...", "x = 1", '"""Names."""\nprint()'):
        assert len(check("i", code)) == 1


def test_function_length() -> None:
    def body(lines: int) -> str:
        return "class A:\n    @property\n    def f(self):\n" + "        x = 1\n" * (lines - 1)

    assert python_code.check_function_length("p", body(60), {}) == []
    assert python_code.check_function_length("p", body(61), {}) == [
        "p:3: A.f has 61 lines, at most 60"
    ]
    assert python_code.check_function_length("p", body(61), {"p::A.f": 61}) == []
    assert python_code.check_function_length("p", body(62), {"p::A.f": 61})
    documented = body(60).replace("self):", 'self):\n        """A.\n\n        B.\n        """')
    assert python_code.check_function_length("p", documented, {}) == []


PACKAGE_FILE = "python/stoker/x.py"


@pytest.mark.parametrize(
    ("check", "code"),
    [
        (python_code.check_environment, "import os\nos.environ['A']"),
        (python_code.check_environment, "import os as o\no.getenv('A')"),
        (python_code.check_environment, "from os import environ"),
        (python_code.check_sleep, "import time\ntime.sleep(1)"),
        (python_code.check_sleep, "def f():\n    from time import sleep"),
        (python_code.check_print, "print('x')"),
        (python_code.check_loggers, "import logging\nlogging.getLogger('stoker')"),
        (python_code.check_loggers, "import logging\nlogging.getLogger()"),
        (python_code.check_mutable_defaults, "def f(a, b=[]): ..."),
        (python_code.check_mutable_defaults, "def f(*, b={}): ..."),
        (python_code.check_mutable_defaults, "f = lambda x=set(): x"),
        (python_code.check_mutable_defaults, "async def f(a=collections.deque()): ..."),
    ],
)
def test_bad_package_code(check, code: str) -> None:
    assert len(check(PACKAGE_FILE, code)) == 1


@pytest.mark.parametrize(
    ("check", "path", "code"),
    [
        (python_code.check_environment, "python/stoker/config.py", "import os\nos.environ['A']"),
        (python_code.check_environment, PACKAGE_FILE, "import os\nos.cpu_count()\nself.environ"),
        (python_code.check_sleep, PACKAGE_FILE, "import time\ntime.monotonic()\nself.sleep()"),
        (python_code.check_print, "python/stoker/cli/main.py", "print('x')"),
        (python_code.check_print, PACKAGE_FILE, "self.print('x')  # print(x)"),
        (python_code.check_loggers, PACKAGE_FILE, "import logging\nlogging.getLogger(__name__)"),
        (python_code.check_mutable_defaults, PACKAGE_FILE, "def f(a=(), b=None, *, c=0): ..."),
    ],
)
def test_good_package_code(check, path: str, code: str) -> None:
    assert check(path, code) == []


def _handler(kind: str, body: str) -> str:
    return f"class A:\n    def f(self):\n        try:\n            g()\n        except{kind}:\n            {body}\n"


@pytest.mark.parametrize(
    "kind", ["", " Exception", " BaseException as e", " (ValueError, Exception)"]
)
def test_swallowed_errors(kind: str) -> None:
    def check(body: str, allowed: dict[str, str] | None = None) -> list[str]:
        return python_code.check_broad_except("p", _handler(kind, body), allowed or {})

    assert len(check("pass")) == 1
    assert len(check("def later(): raise")) == 1
    assert check("raise") == []
    assert check("raise StokerError() from None") == []
    assert check("logger.warning('x')") == []
    assert check("pass", {"p::A.f": "sends it on"}) == []


def test_narrow_handlers_are_free() -> None:
    assert python_code.swallowing_handlers(_handler(" (KeyError, OSError)", "pass")) == []


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("cpp/format/x.cc", '#include "io/file.h"'),  # rooms that do not know each other
        ("cpp/base/x.h", '#include "io/file.h"'),
        ("cpp/plan/x.h", '#include "rng.h"'),
        ("cpp/unheard_of/x.h", '#include "base/bytes.h"'),
        ("cpp/engine/x.cc", '#include "storage/store.h"'),
        ("tests/cpp/plan/x_test.cc", '#include "format/chunk_view.h"'),
        ("cpp/io/x.cc", "#include <zstd.h>"),
        ("cpp/io/x.cc", "#include <xxhash.h>"),
        ("cpp/io/x.cc", "  #  include <jpeglib.h>"),
        ("cpp/storage/store.cc", "#include <curl/curl.h>"),
        ("cpp/codec/x.cc", "#include <nanobind/nanobind.h>"),
        ("cpp/codec/x.cc", "#include <Python.h>"),
        ("cpp/codec/x.cc", "#include <gtest/gtest.h>"),
        ("python/bindings/x.cc", "#include <zstd.h>"),
    ],
)
def test_forbidden_includes(path: str, code: str) -> None:
    assert len(cpp_code.check_includes(path, code)) == 1


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (
            "cpp/reader/x.cc",
            '#include "format/chunk_view.h"\n#include "reader/x.h"\n#include <vector>',
        ),
        ("cpp/codec/zstd.cc", "#include <zstd.h>"),
        (
            "python/bindings/x.cc",
            '#include <nanobind/nanobind.h>\n#include "convert.h"\n#include "plan/rng.h"',
        ),
        ("tests/cpp/reader/x_test.cc", '#include <gtest/gtest.h>\n#include "codec/zstd.h"'),
        ("bench/cpp/x_bench.cc", '#include <benchmark/benchmark.h>\n#include "codec/zstd.h"'),
    ],
)
def test_allowed_includes(path: str, code: str) -> None:
    assert cpp_code.check_includes(path, code) == []


@pytest.mark.parametrize(
    "code",
    [
        'auto home = getenv("HOME");',
        'std::cout << "x";',
        'printf("x");',
        "PyObject* object;",
        "nanobind::object x;",
        "#include <iostream>",
    ],
)
def test_forbidden_words(code: str) -> None:
    assert len(cpp_code.check_words("cpp/io/x.cc", code)) == 1


def test_words_in_comments_and_texts_are_free() -> None:
    code = '// no getenv here\n/* nor std::cout\n */ const char* kText = "printf(";\nstd::snprintf(buffer);'
    assert cpp_code.check_words("cpp/io/x.cc", code) == []


def test_headers() -> None:
    check = cpp_code.check_header
    assert check("cpp/io/file.h", "// x\n#pragma once\n\n") == []
    assert check("cpp/io/file.h", "// x\n")
    assert check("cpp/io/file.cc", '// x\n#include "io/file.h"\n\n#include <vector>\n') == []
    assert check("cpp/io/file.cc", '#include <vector>\n#include "io/file.h"\n')


def test_cpp_function_length() -> None:
    def body(lines: int) -> str:
        return (
            "namespace x {\n\nint f(int a,\n"
            + "  g();\n" * (lines - 2)
            + "}\n\n}  // namespace x\n"
        )

    assert cpp_code.check_function_length("t", body(60)) == []
    assert cpp_code.check_function_length("t", body(61)) == ["t:3: 61 lines, at most 60"]
    test = "int forward(int);\nTEST(A, B) {\n" + "  g();\n" * 60 + "}\n"
    assert cpp_code.check_function_length("t", test) == ["t:2: 62 lines, at most 60"]


def test_rooms_in_cmake() -> None:
    assert cpp_code.check_room_order("add_subdirectory(base)\nadd_subdirectory(io)\n") == []
    assert len(cpp_code.check_room_order("add_subdirectory(io)\nadd_subdirectory(base)\n")) == 1
    assert len(cpp_code.check_room_order("add_subdirectory(unheard_of)\n")) == 1
    good = "stoker_add_library(reader DEPS base io\n  LIBS X::X SOURCES a.cc)"
    assert cpp_code.check_room_dependencies("c", good) == []
    assert (
        len(cpp_code.check_room_dependencies("c", "stoker_add_library(plan DEPS io SOURCES a.cc)"))
        == 1
    )


def test_licence() -> None:
    check = text_rules.check_licence
    line = f"# {text_rules.SPDX}\n"
    assert check("a.py", line) == check("a", "#!/bin/sh\n" + line) == check("empty", "") == []
    assert check("a.py", '"""Text."""\n' + line)
    assert check("a.py", "import os\n")
    assert text_rules.needs_licence("cpp/io/CMakeLists.txt")
    assert text_rules.needs_licence(".ci/run")
    assert not text_rules.needs_licence("README.md")


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        ("python/stoker/a.py", 500),
        ("tests/a.py", 600),
        ("cpp/io/a.h", 500),
        (".ci/run", 500),
        ("README.md", 200),
    ],
)
def test_size(path: str, limit: int) -> None:
    assert text_rules.check_size(path, "x\n" * limit) == []
    assert len(text_rules.check_size(path, "x\n" * (limit + 1))) == 1
    assert text_rules.check_size("data.json", "x\n" * 10_000) == []


@pytest.mark.parametrize(
    "pieces",
    [
        ("see /wo", "rk/main/x"),
        ("../sha", "red"),
        ("sha", "red/spec/x"),
        ("as the sub", "agent did"),
        ("in the next ses", "sion"),
        ("house", ".md"),
        ("for iss", "ue #12"),
        ("from py", "pi.org"),
        ("An", "thropic"),
        ("/tmp/se", "tup"),
    ],
)
def test_private_words(pieces: tuple[str, str]) -> None:
    assert len(text_rules.check_private_words("p", "a\n" + "".join(pieces))) == 1


def test_ordinary_words_are_free() -> None:
    text = "network/file framework/x shared memory, boto3 session, an issue with 3 files, FORMAT.md, debian package"
    assert text_rules.check_private_words("p", text) == []
