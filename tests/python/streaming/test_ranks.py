# SPDX-License-Identifier: Apache-2.0
"""StreamingDataLoader.check_ranks: processes that would deliver different batches find out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from datasets import write_dataset
from stoker import StreamingDataLoader, StreamingDataset
from stoker.exceptions import InvalidArgumentError

RANK = """
import json, sys
from torch import distributed
from stoker import StreamingDataLoader, StreamingDataset
from stoker.exceptions import StateMismatchError

rank, store, options = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
distributed.init_process_group("gloo", store=distributed.FileStore(store, 2), rank=rank, world_size=2)
mine = options[rank]
dataset = StreamingDataset(mine["place"], shuffle=True, seed=mine.get("seed", 42))
loader = StreamingDataLoader(dataset, batch_size=mine.get("batch_size", 4))
if mine.get("taken"):
    running = iter(loader)
    for _ in range(mine["taken"]):
        next(running)
try:
    loader.check_ranks()
    print("alike")
except StateMismatchError as error:
    print(error)
distributed.destroy_process_group()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("numbers") / "data", range(50), chunk_size=7)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({}, "alike"),
        ({"seed": 7}, "`seed` is 7 on rank 1 and 42 on rank 0"),
        ({"batch_size": 5}, "`batch_size` is 5 on rank 1 and 4 on rank 0"),
        ({"taken": 2}, "`position` is 16 on rank 1 and 0 on rank 0"),
    ],
    ids=str,
)
def test_every_rank_says_what_differs(
    place: Path, tmp_path: Path, other: dict[str, Any], message: str
) -> None:
    options = json.dumps([{"place": str(place)}, {"place": str(place), **other}])
    command = [sys.executable, "-c", RANK]
    arguments = [str(tmp_path / "store"), options]
    ranks = [
        subprocess.Popen([*command, str(rank), *arguments], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    for rank in ranks:
        out, _ = rank.communicate(timeout=90)
        assert message in out
        assert rank.returncode == 0


def test_without_a_process_group_there_is_nothing_to_compare(place: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no process group"):
        StreamingDataLoader(StreamingDataset(place)).check_ranks()
