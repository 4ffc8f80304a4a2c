# SPDX-License-Identifier: Apache-2.0
"""The wheel that users install: complete, nothing extra, and it works without the source tree."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from house.files import PACKAGE, ROOT, walk

ROUND_TRIP = """
import sys
import stoker
from stoker.streaming import BinaryWriter

assert stoker.__file__.startswith(sys.argv[1]), stoker.__file__
assert stoker._core.__file__.startswith(sys.argv[1]), stoker._core.__file__
writer = BinaryWriter(sys.argv[2], chunk_size=2)
for i in range(3):
    writer.append({"i": i, "text": str(i)})
writer.done()
writer.merge()
print(stoker.StreamingDataset(sys.argv[2])[2])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel in the tree that `make build` keeps, so that little is compiled."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        ROOT,
        "-w",
        folder,
        "--no-deps",
        "--no-build-isolation",
    ]
    subprocess.run([*command, "-C", f"build-dir={ROOT / 'build' / 'cpp'}"], check=True, cwd=folder)
    (found,) = folder.glob("stoker-*.whl")
    return found


def test_content(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {f"stoker/{path.relative_to(PACKAGE).as_posix()}" for path in walk(PACKAGE)}
    extension = {
        name for name in names if name.startswith("stoker/_core.") and name.endswith(".so")
    }
    assert len(extension) == 1
    assert {name for name in names if ".dist-info/" not in name} == package | extension
    assert {"stoker/py.typed", "stoker/_core.pyi"} <= names
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)


def test_works_without_the_source_tree(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    # -S: no .pth files, so the editable install of the source tree is out of reach.
    result = subprocess.run(
        [sys.executable, "-S", "-c", ROUND_TRIP, str(site), str(tmp_path / "data")],
        env={"PYTHONPATH": f"{site}:{sysconfig.get_path('purelib')}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.strip() == "{'i': 2, 'text': '2'}", result.stderr
