# SPDX-License-Identifier: Apache-2.0
"""One dataset used by many threads, and by processes forked while threads read."""

from __future__ import annotations

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from datasets import write_dataset
from stoker import StreamingDataset, TokensLoader

N = 300


def sample(i: int) -> dict[str, object]:
    return {"i": i, "v": np.full(2000, i)}


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_threads_get_the_right_samples(tmp_path: Path, compression: str | None) -> None:
    directory = write_dataset(tmp_path / "d", map(sample, range(N)), compression=compression)
    dataset = StreamingDataset(directory, verify="always")

    def read(seed: int) -> int:
        generator = random.Random(seed)
        for _ in range(400):
            i = generator.randrange(N)
            got = dataset[i]
            assert got["i"] == i
            assert (got["v"] == i).all()
            if generator.random() < 0.01:
                dataset.close()
        return sum(1 for x in dataset if (x["v"] == x["i"]).all())

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read, range(8))) == [N] * 8


def test_threads_get_the_right_tokens(tmp_path: Path) -> None:
    rows = [np.arange(i, i + 64) for i in range(0, 64 * N, 64)]
    directory = write_dataset(tmp_path / "t", rows, chunk_size=640, item_loader=TokensLoader())
    dataset = StreamingDataset(directory, item_loader=TokensLoader(block_size=64))
    with ThreadPoolExecutor(4) as pool:
        blocks = list(pool.map(dataset.__getitem__, range(N)))
    assert np.array_equal(np.stack(blocks), np.stack(rows))


def test_a_child_forked_while_threads_read_does_not_hang(tmp_path: Path) -> None:
    """The parent's threads may hold the reader's lock at the moment of the fork."""
    directory = write_dataset(tmp_path / "d", map(sample, range(N)), compression="zstd")
    dataset = StreamingDataset(directory)
    stop = threading.Event()

    def churn(seed: int) -> None:
        generator = random.Random(seed)
        while not stop.is_set():
            dataset.close()
            dataset[generator.randrange(N)]

    threads = [threading.Thread(target=churn, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:
        for attempt in range(25):
            pid = os.fork()
            if pid == 0:
                good = all(dataset[i]["i"] == i for i in (attempt, N - 1, 0))
                os._exit(0 if good else 1)
            _, status = os.waitpid(pid, 0)
            assert os.waitstatus_to_exitcode(status) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
