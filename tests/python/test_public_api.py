# SPDX-License-Identifier: Apache-2.0
"""What users may rely on: names, documented import paths, type information."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.resources
import pickle
import subprocess
import types
from pathlib import Path

import pytest

import stoker
from house.files import PACKAGE, ROOT, module_name, relative, walk
from house.rooms import FACADES

TOP_LEVEL = {
    "CombinedStreamingDataset",
    "ParallelStreamingDataset",
    "StreamingDataLoader",
    "StreamingDataset",
    "TokensLoader",
    "__version__",
    "complete_dataset",
    "is_complete_dataset",
    "optimize",
    "train_test_split",
}

# Documented path -> where the object lives. Both must give the same object.
PATHS = {
    "stoker.CombinedStreamingDataset": "stoker.streaming.combined",
    "stoker.ParallelStreamingDataset": "stoker.streaming.parallel",
    "stoker.StreamingDataLoader": "stoker.streaming.dataloader",
    "stoker.StreamingDataset": "stoker.streaming.dataset",
    "stoker.TokensLoader": "stoker.streaming.item_loader.tokens",
    "stoker.complete_dataset": "stoker.processing.complete",
    "stoker.is_complete_dataset": "stoker.processing.complete",
    "stoker.optimize": "stoker.processing.functions",
    "stoker.train_test_split": "stoker.streaming.splits",
    "stoker.processing.functions.optimize": "stoker.processing.functions",
    "stoker.streaming.BinaryWriter": "stoker.streaming.writer",
    "stoker.streaming.CombinedStreamingDataset": "stoker.streaming.combined",
    "stoker.streaming.Dir": "stoker.streaming.resolver",
    "stoker.streaming.StreamingDataLoader": "stoker.streaming.dataloader",
    "stoker.streaming.StreamingDataset": "stoker.streaming.dataset",
    "stoker.streaming.item_loader.BaseItemLoader": "stoker.streaming.item_loader.base",
    "stoker.streaming.item_loader.Interval": "stoker.streaming.item_loader.base",
    "stoker.streaming.item_loader.PyTreeLoader": "stoker.streaming.item_loader.pytree",
    "stoker.streaming.item_loader.TokensLoader": "stoker.streaming.item_loader.tokens",
    "stoker.streaming.resolver.Dir": "stoker.streaming.resolver",
    "stoker.streaming.serializers.Serializer": "stoker.streaming.serializers.base",
    "stoker.streaming.writer.BinaryWriter": "stoker.streaming.writer",
    "stoker.utilities.train_test_split.train_test_split": "stoker.streaming.splits",
}

SOURCES = {module_name(relative(path)): path for path in walk(PACKAGE) if path.suffix == ".py"}
PUBLIC = sorted(m for m in SOURCES if not any(p.startswith("_") for p in m.split(".")))


def _declared(module: types.ModuleType) -> list[str] | None:
    return getattr(module, "__all__", None)


def _defined(path: Path) -> set[str]:
    """Return the public classes, functions and constants that a module's own text defines."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {n for n in names if not n.startswith("_") and n != "logger"}


def _imported(path: Path) -> set[str]:
    """Return the names that an ``__init__.py`` takes from its modules."""
    nodes = ast.parse(path.read_text()).body
    return {a.asname or a.name for n in nodes if isinstance(n, ast.ImportFrom) for a in n.names}


def test_something_was_found() -> None:
    assert {"stoker", "stoker.exceptions", "stoker.streaming.serializers"} <= set(PUBLIC)


def test_top_level_names() -> None:
    assert set(stoker.__all__) == TOP_LEVEL


@pytest.mark.parametrize("name", PUBLIC)
def test_all_equals_exports(name: str) -> None:
    module = importlib.import_module(name)
    declared = _declared(module)
    path = SOURCES[name]
    if path.name == "__init__.py" or name in FACADES:
        gathered = _imported(path) - {"annotations"}
        assert declared is not None or not gathered, f"{name} gathers names without __all__"
        assert set(declared or ()) - {"__version__"} == gathered
    elif declared is not None:
        assert _defined(path) <= set(declared)
        for extra in set(declared) - _defined(path):  # re-exported under a documented path
            assert f"{name}.{extra}" in PATHS
    if declared is not None:
        assert len(declared) == len(set(declared))
        assert all(hasattr(module, entry) for entry in declared)


@pytest.mark.parametrize("path", sorted(PATHS))
def test_documented_paths_give_one_object(path: str) -> None:
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    home = importlib.import_module(PATHS[path])
    assert found is getattr(home, name)
    # Pickles name the home, so it is what must not move.
    assert found.__module__ == PATHS[path]
    assert pickle.loads(pickle.dumps(found)) is found


def test_every_top_level_name_is_documented() -> None:
    assert {f"stoker.{n}" for n in TOP_LEVEL - {"__version__"}} <= set(PATHS)


def test_version_is_that_of_the_installed_package() -> None:
    assert stoker.__version__ == importlib.metadata.version("stoker")


def test_package_is_typed() -> None:
    assert importlib.resources.files(stoker).joinpath("py.typed").is_file()


def test_stub_of_the_extension_is_current(tmp_path: Path) -> None:
    fresh = tmp_path / "_core.pyi"
    subprocess.run([ROOT / ".ci" / "stubs", fresh], check=True, capture_output=True)
    checked_in = PACKAGE / "_core.pyi"
    assert fresh.read_text() == checked_in.read_text(), "run: make stubs"
