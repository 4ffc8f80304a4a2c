# SPDX-License-Identifier: Apache-2.0
"""Ranks of a job, one after another in this process, and variables that a launcher sets."""

from __future__ import annotations

import os

import pytest

from stoker import environment


def as_rank(monkeypatch: pytest.MonkeyPatch, rank: int, world: int) -> None:
    """Be this rank from now on."""
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", str(world))


def clean_environment() -> dict[str, str]:
    """Return the variables of this process without those of any launcher."""
    names = {name for pair in environment._RANK_VARIABLES for name in pair}
    names |= {*environment._LOCAL_SIZE_VARIABLES, "LOCAL_RANK", "GROUP_RANK", "NODE_RANK"}
    kept = {name: value for name, value in os.environ.items() if name not in names}
    return kept | {"OMP_NUM_THREADS": "1"}
