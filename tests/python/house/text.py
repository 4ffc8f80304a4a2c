# SPDX-License-Identifier: Apache-2.0
"""Rules for every text file: licence line, size, and words that belong to somebody's desk and not to the project."""

from __future__ import annotations

import re

SPDX = "SPDX-License-Identifier: Apache-2.0"

_CODE = (".py", ".pyi", ".h", ".cc", ".cmake", ".toml", ".sh")
_CODE_NAMES = {"CMakeLists.txt", "Makefile", ".clang-tidy", ".clang-format"}

# Written in pieces, so that this file does not hold what it looks for.
_PRIVATE = [
    r"(?<![\w.-])/wo" + r"rk/",
    r"\bsha" + r"red/(design|spec|golden|peers|reference)\b",
    r"\.\./sha" + r"red\b",
    r"\.lib" + r"rary/",
    r"/tmp/se" + r"tup\b",
    r"\b(house|engine|cloud|anchors|behaviour|checklist|chunk-format|feature-table)\.m" + r"d\b",
    r"\bC" + r"EO\b",
    r"(?i)\bsub-?ag" + r"ents?\b",
    r"(?i)\b(this|another|previous|next|later|developer'?s?) ses" + r"sions?\b",
    r"(?i)\ban" + r"thropic\b",
    r"(?i)\bcl" + r"aude\b",
    r"(?i)\bchat" + r"gpt\b",
    r"(?i)\bissue #?\d" + r"+\b",
    r"(?i)\bpy" + r"pi\.org\b",
    r"(?i)\bpython" + r"hosted\b",
    r"(?i)\bdebian" + r"\.org\b",
    r"(?i)\bregistry\.npm" + r"js\b",
    r"(?i)\bdownload\.py" + r"torch\b",
]


def needs_licence(path: str) -> bool:
    """Say whether a file must name its licence."""
    name = path.rpartition("/")[2]
    return path.endswith(_CODE) or name in _CODE_NAMES or path.startswith(".ci/")


def check_licence(path: str, text: str) -> list[str]:
    """Return the file when its first line, or the one after ``#!``, is not the licence."""
    lines = text.splitlines()
    if not text or (lines[0].startswith("#!") and SPDX in "".join(lines[1:2])) or SPDX in lines[0]:
        return []
    return [f"{path}: the first line must be '{SPDX}' as a comment"]


def check_size(path: str, text: str) -> list[str]:
    """Return the file when it is too long to be about one thing."""
    if path.endswith(".md"):
        limit = 200 if path == "README.md" else 250
    elif path.endswith((*_CODE[:5], ".sh")) or path.startswith(".ci/"):
        limit = 600 if path.startswith("tests/") else 500
    else:
        return []
    lines = len(text.splitlines())
    return [f"{path}: {lines} lines, at most {limit}"] if lines > limit else []


def check_private_words(path: str, text: str) -> list[str]:
    """Return places that mention how or where somebody worked."""
    return [
        f"{path}:{text.count(chr(10), 0, match.start()) + 1}: '{match[0]}' does not belong here"
        for pattern in _PRIVATE
        for match in re.finditer(pattern, text)
    ]
