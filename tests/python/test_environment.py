# SPDX-License-Identifier: Apache-2.0
"""Rank and worker detection."""

from __future__ import annotations

import pytest
from torch.utils.data import DataLoader, IterableDataset

from stoker import environment
from stoker.config import Settings


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for pair in environment._RANK_VARIABLES:
        for name in pair:
            monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("rank_name", "size_name"),
    [
        ("RANK", "WORLD_SIZE"),
        ("SLURM_PROCID", "SLURM_NTASKS"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ],
)
def test_launchers(monkeypatch: pytest.MonkeyPatch, rank_name: str, size_name: str) -> None:
    assert environment.detect() == environment.World()
    monkeypatch.setenv(rank_name, "3")
    monkeypatch.setenv(size_name, "8")
    world = environment.detect()
    assert (world.rank, world.world_size) == (3, 8)


def test_a_rank_outside_its_world_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "8")
    monkeypatch.setenv("WORLD_SIZE", "8")
    with pytest.raises(ValueError, match="WORLD_SIZE"):
        environment.detect()


class Reports(IterableDataset[tuple[int, int, bool]]):
    """Yields what a worker detects."""

    def __iter__(self):
        world = environment.detect()
        yield world.worker, world.num_workers, world.in_worker


def test_workers_know_their_number() -> None:
    seen = sorted(tuple(one) for one in DataLoader(Reports(), batch_size=None, num_workers=2))
    assert seen == [(0, 2, True), (1, 2, True)]


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA_OPTIMIZER_NUM_WORKERS", "3")
    monkeypatch.setenv("STOKER_SHUFFLE_WINDOW", "5")
    assert Settings.from_env() == Settings(num_workers=3, window=5)
    monkeypatch.setenv("STOKER_SHUFFLE_WINDOW", "many")
    with pytest.raises(ValueError, match="STOKER_SHUFFLE_WINDOW"):
        Settings.from_env()
