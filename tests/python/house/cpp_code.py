# SPDX-License-Identifier: Apache-2.0
"""Rules for C++ files and the rooms of cpp/. A checker gets a file's path and text and returns what is wrong with it."""

from __future__ import annotations

import re

from house.rooms import CPP_ROOMS, THIRD_PARTY_HEADERS

FUNCTION_LINES = 60

_INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_SCOPE = re.compile(r"(inline )?(namespace|class|struct|enum|union|extern)\b")

# word -> what to do instead, for files in cpp/
_FORBIDDEN = {
    r"\b(secure_)?getenv\b": "settings arrive as arguments; Python reads the environment",
    r"\bstd::(cout|cerr|clog)\b": "report through base/log.h or an Error",
    r"(?<!\w)(printf|puts|putchar)\s*\(": "report through base/log.h or an Error",
    r"\bPy(Object|_\w+)\b|\bnanobind\b": "C++ rooms do not know Python",
    r"<iostream>|<Python\.h>": "neither streams to the terminal nor Python in cpp/",
}


def includes_of(text: str) -> list[tuple[str, str, int]]:
    """Return (quote, header, line) of every include."""
    return [(m[1], m[2], text.count("\n", 0, m.start(2)) + 1) for m in _INCLUDE.finditer(text)]


def _code(text: str) -> str:
    """Return ``text`` without comments and string literals, lines kept."""
    return _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)


def _room(path: str) -> str | None:
    """Return the room whose rules a file follows: cpp/<room>/ and tests/cpp/<room>/."""
    match = re.match(r"(?:tests/)?cpp/(\w+)/", path)
    return match[1] if match else None


def check_includes(path: str, text: str) -> list[str]:
    """Return includes that cross the order of the rooms or bring a library where it does not belong."""
    problems = []
    room = _room(path)
    for quote, header, line in includes_of(text):
        reason = _forbidden_room(path, room, header) if quote == '"' else None
        reason = reason or _forbidden_library(path, header)
        if reason:
            problems.append(f"{path}:{line}: includes {header}: {reason}")
    return problems


def _forbidden_room(path: str, room: str | None, header: str) -> str | None:
    other, slash, _ = header.partition("/")
    if not slash:
        return "write it as room/file.h" if path.startswith("cpp/") else None
    if other not in CPP_ROOMS or room is None:
        return None
    if room not in CPP_ROOMS:
        return f"'{room}' has no place in CPP_ROOMS of tests/python/house/rooms.py"
    allowed = other == room or other in CPP_ROOMS[room]
    return None if allowed else f"'{room}' may not use '{other}'"


def _forbidden_library(path: str, header: str) -> str | None:
    for prefix, places in THIRD_PARTY_HEADERS.items():
        if header.startswith(prefix) and not path.startswith(places):
            return f"only {', '.join(places)} may"
    return None


def check_header(path: str, text: str) -> list[str]:
    """Return what is wrong with a header or with the first include of its source file."""
    if path.endswith(".h"):
        return [] if "\n#pragma once\n" in text else [f"{path}: no #pragma once"]
    own = path.removeprefix("cpp/").removesuffix(".cc").removesuffix("_avx2") + ".h"
    first = next((header for _, header, _ in includes_of(text)), None)
    return [] if first == own else [f'{path}: the first include is "{own}"']


def check_words(path: str, text: str) -> list[str]:
    """Return calls that a C++ room never makes."""
    code = _code(text)
    return [
        f"{path}:{code.count(chr(10), 0, match.start()) + 1}: {match[0].strip()}: {instead}"
        for pattern, instead in _FORBIDDEN.items()
        for match in re.finditer(pattern, code)
    ]


def check_function_length(path: str, text: str) -> list[str]:
    """Return functions at namespace scope, tests included, above 60 lines.

    Relies on clang-format: such a function starts at the left margin and ends with a brace there. clang-tidy checks
    member functions too, but does not see the tests.
    """
    problems = []
    start = None
    for number, line in enumerate(text.splitlines(), 1):
        if start is None and re.match(r"[A-Za-z_\[]", line) and not _SCOPE.match(line):
            start = number
        if line.startswith("}") and start is not None:
            if number - start + 1 > FUNCTION_LINES:
                lines = number - start + 1
                problems.append(f"{path}:{start}: {lines} lines, at most {FUNCTION_LINES}")
            start = None
        elif start is not None and line.rstrip().endswith(";") and not line.startswith(" "):
            start = None
    return problems


def check_room_order(text: str) -> list[str]:
    """Return rooms that cpp/CMakeLists.txt adds before a room they use."""
    order = re.findall(r"^\s*add_subdirectory\((\w+)\)", text, re.MULTILINE)
    problems = []
    for place, room in enumerate(order):
        if room not in CPP_ROOMS:
            problems.append(f"cpp/CMakeLists.txt: '{room}' has no place in CPP_ROOMS")
            continue
        later = CPP_ROOMS[room] & set(order[place:])
        problems += [
            f"cpp/CMakeLists.txt: '{room}' comes before '{x}', which it uses" for x in sorted(later)
        ]
    return problems


def check_room_dependencies(path: str, text: str) -> list[str]:
    """Return DEPS of a room's CMakeLists.txt that the table does not allow."""
    problems = []
    for room, rest in re.findall(r"stoker_add_library\(\s*(\w+)([^)]*)\)", text):
        words = rest.split()
        start = words.index("DEPS") + 1 if "DEPS" in words else len(words)
        for word in words[start:]:
            if word.isupper():
                break
            if word not in CPP_ROOMS.get(room, set()):
                problems.append(f"{path}: '{room}' may not use '{word}'")
    return problems
