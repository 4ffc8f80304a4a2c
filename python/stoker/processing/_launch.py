# SPDX-License-Identifier: Apache-2.0
"""How a worker process starts and how it is known to have ended.

"spawn" starts a fresh interpreter that reads its task from a file. Unlike multiprocessing's spawn the user's script is
not imported again, so it needs no ``if __name__ == "__main__"``; functions of the script travel by value (cloudpickle).
"fork" copies this process.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import subprocess
import sys
import types
from collections import ChainMap
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar, Literal

import cloudpickle

from stoker.exceptions import InvalidArgumentError
from stoker.processing._board import ProgressBoard
from stoker.processing._worker import PR_SET_PDEATHSIG, WorkerTask, run_task

StartMethod = Literal["spawn", "fork"]
# The first thing a worker does: it must not outlive a parent that is killed while modules are imported.
_BOOT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl({death}, signal.SIGKILL)
if os.getppid() != {parent}:
    os._exit(1)
sys.path[:] = {path!r}
from stoker.processing._worker import main
main()
"""


@dataclass(slots=True)
class Worker:
    """A running worker.

    Attributes:
        rank: its number.
        connection: where its one message arrives; at its end when the process ended.
        sentinel: descriptor that becomes readable when the process ended.
        process: the process object of either kind.
    """

    rank: int
    connection: Connection
    sentinel: int
    process: subprocess.Popen[bytes] | multiprocessing.process.BaseProcess

    def wait(self) -> int | None:
        """Wait for the end of the process and return its exit code; negative = ended by that signal."""
        if isinstance(self.process, subprocess.Popen):
            return self.process.wait()
        self.process.join()
        return self.process.exitcode

    def end(self) -> None:
        """End the process if it still runs and release its descriptors."""
        self.process.kill()
        self.wait()
        if isinstance(self.process, subprocess.Popen):
            os.close(self.sentinel)
        self.connection.close()


def pickle_task(task: WorkerTask) -> bytes:
    """Return the task's bytes.

    Raises:
        InvalidArgumentError: something in it cannot be pickled; the message says what pickle said.
    """
    buffer = io.BytesIO()
    try:
        _Pickler(buffer).dump(task)
    except Exception as error:
        msg = (
            f"fn or its inputs cannot be sent to worker processes: {type(error).__name__}: {error}. Open files, locks, "
            "connections and the like inside fn, or pass start_method='fork'."
        )
        raise InvalidArgumentError(msg) from error
    return buffer.getvalue()


def _reduce_code(code: types.CodeType) -> tuple[Any, ...]:
    make, arguments = cloudpickle.CloudPickler.dispatch_table[types.CodeType](code)
    return make, tuple(code.co_filename if a == "<dynamic-code>" else a for a in arguments)


class _Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
    """cloudpickle that keeps the file names of functions sent by value, so that their tracebacks show the user's lines."""

    dispatch_table: ClassVar[ChainMap[Any, Any]] = ChainMap(
        {types.CodeType: _reduce_code}, cloudpickle.CloudPickler.dispatch_table
    )


def start(task: WorkerTask, method: StartMethod, board: ProgressBoard) -> Worker:
    """Start one worker.

    Raises:
        InvalidArgumentError: the task cannot be pickled ("spawn").
    """
    return _spawn(task, board) if method == "spawn" else _fork(task, board)


def _spawn(task: WorkerTask, board: ProgressBoard) -> Worker:
    task_path = Path(task.directory) / f"task-{task.rank}.pickle"
    task_path.write_bytes(pickle_task(task))
    receiver, sender = multiprocessing.Pipe(duplex=False)
    with sender:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [
                sys.executable,
                "-c",
                _BOOT.format(path=sys.path, parent=os.getpid(), death=PR_SET_PDEATHSIG),
                str(task_path),
                str(sender.fileno()),
                str(board.fd),
                str(task.num_workers),
            ],
            stdin=subprocess.DEVNULL,
            pass_fds=(sender.fileno(), board.fd),
        )
    return Worker(task.rank, receiver, os.pidfd_open(process.pid), process)


def _fork(task: WorkerTask, board: ProgressBoard) -> Worker:
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=run_task, args=(task, sender, board, os.getpid()), daemon=True
    )
    with sender:
        process.start()
    return Worker(task.rank, receiver, process.sentinel, process)
