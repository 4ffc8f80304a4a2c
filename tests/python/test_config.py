# SPDX-License-Identifier: Apache-2.0
"""How many CPU cores a process may use, read from files as the kernel writes them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker import config
from stoker.config import usable_cpus

NO_LIMIT = config._NO_QUOTA


def cgroup(root: Path, group: str = "", *, limit: str | None = None) -> None:
    """Write a group's cpu.max."""
    folder = root / group
    folder.mkdir(parents=True, exist_ok=True)
    if limit is not None:
        (folder / "cpu.max").write_text(limit + "\n")


def cpus(root: Path, me: str | None) -> int:
    own = root.parent / "cgroup"
    if me is not None:
        own.write_text(me)
    return config._cgroup_cpus(root, own)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    cgroup(tmp_path / "fs")
    return tmp_path / "fs"


@pytest.mark.parametrize(
    ("limit", "wanted"),
    [
        ("400000 100000", 4), ("max 100000", NO_LIMIT), ("150000 100000", 2), ("1000 100000", 1), ("50000 50000", 1),
        ("100001 100000", 2), ("", NO_LIMIT), ("x y", NO_LIMIT), ("7", NO_LIMIT), ("1 2 3", NO_LIMIT),
    ],
)  # fmt: skip
def test_the_quota_of_the_own_group(root: Path, limit: str, wanted: int) -> None:
    cgroup(root, "job/step", limit=limit)
    assert cpus(root, "0::/job/step\n") == wanted


def test_the_smallest_of_all_groups_around(root: Path) -> None:
    cgroup(root, "pod", limit="300000 100000")
    cgroup(root, "pod/box", limit="max 100000")
    cgroup(root, "pod/box/job", limit="600000 100000")
    cgroup(root, "pod/other", limit="100000 100000")
    assert cpus(root, "0::/pod/box/job\n") == 3
    assert cpus(root, "0::/pod/box\n") == 3
    assert cpus(root, "0::/\n") == NO_LIMIT
    cgroup(root, limit="200000 100000")  # inside a container its own group is the root
    assert cpus(root, "0::/\n") == 2
    assert cpus(root, "0::/pod/box/job\n") == 2


def test_files_that_are_missing_or_of_version_one(root: Path) -> None:
    assert cpus(root, None) == NO_LIMIT
    assert cpus(root, "") == NO_LIMIT
    assert cpus(root, "3:cpu:/a\n2:memory:/b\n") == NO_LIMIT
    cgroup(root, limit="200000 100000")
    assert cpus(root, None) == 2, "the root counts without the group's name"
    cgroup(root, "job", limit="100000 100000")
    assert cpus(root, "12:cpu:/x\n0::/job\n") == 1, "both versions at once"
    assert cpus(root, "0::/gone/group\n") == 2, "a group outside this view"


def test_nothing_outside_the_root_is_read(root: Path) -> None:
    (root.parent / "cpu.max").write_text("100000 100000\n")
    cgroup(root, "job")
    assert cpus(root, "0::/job\n") == NO_LIMIT


def test_a_zero_period_is_no_quota(root: Path) -> None:
    cgroup(root, limit="100000 0")
    assert cpus(root, "0::/\n") == NO_LIMIT


@pytest.mark.parametrize(("quota", "mask", "wanted"), [(3, 8, 3), (NO_LIMIT, 8, 8), (8, 2, 2), (0, 4, 1)])  # fmt: skip
def test_usable_cpus(monkeypatch: pytest.MonkeyPatch, quota: int, mask: int, wanted: int) -> None:
    monkeypatch.setattr(config, "_cgroup_cpus", lambda: quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(mask)))
    assert usable_cpus() == wanted


def test_usable_cpus_here() -> None:
    assert 1 <= usable_cpus() <= len(os.sched_getaffinity(0))
