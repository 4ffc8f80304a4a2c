# SPDX-License-Identifier: Apache-2.0
"""One optimize process: inputs -> fn -> writer."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import cloudpickle

from stoker.processing._board import ProgressBoard
from stoker.streaming.item_loader import BaseItemLoader
from stoker.streaming.writer import BinaryWriter

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """All a worker needs.

    Attributes:
        rank, num_workers: number of this worker among all.
        first_input: global number of its first input.
        inputs: its inputs.
        fn: input -> sample, None (nothing), or a generator or other iterator of samples.
        directory: where chunks go.
        chunk_size, chunk_bytes, compression, item_loader: for the writer.
    """

    rank: int
    num_workers: int
    first_input: int
    inputs: Sequence[Any]
    fn: Callable[[Any], Any]
    directory: str
    chunk_size: int | None
    chunk_bytes: int | None
    compression: str | None
    item_loader: BaseItemLoader | None


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """What a worker sends when it fails.

    Attributes:
        pickled: the exception, or None when it cannot be pickled.
        summary: its type and text.
        traceback: formatted, with the user's lines.
        current: the input it was at (the worker's own count), -1 = none.
    """

    pickled: bytes | None
    summary: str
    traceback: str
    current: int


def run_task(
    task: WorkerTask, connection: Connection, board: ProgressBoard, parent: int | None = None
) -> None:
    """Do the work and send None, or a WorkerFailure; the process ends afterwards.

    Args:
        task: what to do.
        connection: where the message goes.
        board: shared with the parent.
        parent: process id of the parent, for a forked worker: it must not outlive it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the parent, which ends us
    if parent is not None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
    try:
        _process(task, board)
    except BaseException as error:  # noqa: BLE001 - sent to the parent, which raises it
        connection.send(_failure(error, board.read(task.rank)[0]))
    else:
        connection.send(None)
    connection.close()


def _process(task: WorkerTask, board: ProgressBoard) -> None:
    writer = BinaryWriter(
        task.directory,
        task.chunk_size,
        task.chunk_bytes,
        task.compression,
        item_loader=task.item_loader,
        rank=task.rank,
    )
    fn, append = task.fn, writer.append
    for number, one in enumerate(task.inputs):
        board.write(task.rank, number, number, writer.samples)
        result = fn(one)
        if isinstance(result, Iterator):
            for sample in result:
                if sample is not None:
                    append(sample)
        elif result is not None:
            append(result)
    board.write(task.rank, -1, len(task.inputs), writer.samples)
    writer.done()


def _failure(error: BaseException, current: int) -> WorkerFailure:
    pickled: bytes | None
    try:
        pickled = cloudpickle.dumps(error)
        pickle.loads(pickled)
    except Exception:  # noqa: BLE001 - whatever the user's class does, the text below still arrives
        pickled = None
    summary = "".join(traceback.format_exception_only(error)).strip()
    return WorkerFailure(pickled, summary, "".join(traceback.format_exception(error)), current)


def main() -> None:
    """Run in a fresh interpreter: the task file, the pipe's and the board's descriptors are the arguments."""
    task_path, connection_fd, board_fd, workers = sys.argv[1], *map(int, sys.argv[2:5])
    connection = Connection(connection_fd)
    board = ProgressBoard(workers, board_fd)
    try:
        task = pickle.loads(Path(task_path).read_bytes())
    except BaseException as error:  # noqa: BLE001 - sent to the parent, which raises it
        connection.send(_failure(error, -1))
        return
    Path(task_path).unlink()
    run_task(task, connection, board)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads of libraries that fn used must not keep us
