# SPDX-License-Identifier: Apache-2.0
"""The files of the repository, without what is built, installed or cached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "python" / "stoker"

_SKIPPED = {".git", ".venv", "build", "dist", "__pycache__"}
_SKIPPED_PATHS = {"bench/data"}


def walk(folder: Path = ROOT) -> Iterator[Path]:
    """Yield every file of the project below ``folder``, sorted."""
    for path in sorted(folder.iterdir()):
        name = path.name
        if name in _SKIPPED or name.startswith(".venv-") or name.endswith((".so", ".egg-info")):
            continue
        if (name.startswith(".") and name.endswith("_cache")) or name == ".hypothesis":
            continue
        if path.is_dir():
            if relative(path) not in _SKIPPED_PATHS:
                yield from walk(path)
        else:
            yield path


def relative(path: Path) -> str:
    """Return ``path`` as messages and tables write it: from the root, with slashes."""
    return path.relative_to(ROOT).as_posix()


def module_name(path: str) -> str:
    """Return the module of a file: ``python/stoker/streaming/__init__.py`` -> ``stoker.streaming``."""
    parts = path.removeprefix("python/").removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
