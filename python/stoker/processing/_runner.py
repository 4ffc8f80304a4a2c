# SPDX-License-Identifier: Apache-2.0
"""Starts the workers of an optimize run, watches them, and ends all when one fails."""

from __future__ import annotations

import pickle
import signal
from collections.abc import Sequence
from multiprocessing.connection import wait

from tqdm import tqdm

from stoker.exceptions import OptimizeError, WorkerDiedError
from stoker.processing._board import ProgressBoard
from stoker.processing._launch import StartMethod, Worker, start
from stoker.processing._worker import WorkerFailure, WorkerTask

_REFRESH_SECONDS = 0.5
_REPR_LIMIT = 200
_NO_MESSAGE = object()


class RemoteTracebackError(Exception):
    """Carries the formatted traceback of a worker as the cause of the exception raised here."""

    def __str__(self) -> str:
        """Return the traceback on lines of its own."""
        return f"\n{self.args[0]}"


def run(tasks: Sequence[WorkerTask], method: StartMethod, *, verbose: bool) -> int:
    """Run all tasks, one process each.

    Returns:
        The number of samples written.

    Raises:
        Exception: what fn or the writer raised, with the worker's traceback as its cause and the input in a note.
        OptimizeError: fn raised something that cannot be brought here, or called sys.exit.
        WorkerDiedError: a worker ended without a word (killed, os._exit, out of memory).
    """
    board = ProgressBoard(len(tasks))
    workers: list[Worker] = []
    try:
        for task in tasks:
            workers.append(start(task, method, board))  # noqa: PERF401 - those started must be ended on failure
        _watch(workers, tasks, board, verbose=verbose)
        return sum(board.read(task.rank)[2] for task in tasks)
    finally:
        for worker in workers:
            worker.end()
        board.close()


def _watch(
    workers: list[Worker], tasks: Sequence[WorkerTask], board: ProgressBoard, *, verbose: bool
) -> None:
    running = {worker.rank: worker for worker in workers}
    total = sum(len(task.inputs) for task in tasks)
    with tqdm(total=total, desc="optimize", unit="input", disable=not verbose) as bar:
        while running:
            handles = [h for w in running.values() for h in (w.connection, w.sentinel)]
            ready = wait(handles, timeout=_REFRESH_SECONDS if verbose else None)
            for worker in list(running.values()):
                if worker.connection in ready or worker.sentinel in ready:
                    _finish(worker, tasks[worker.rank], board)
                    del running[worker.rank]
            bar.update(sum(board.read(task.rank)[1] for task in tasks) - bar.n)


def _finish(worker: Worker, task: WorkerTask, board: ProgressBoard) -> None:
    """Take the one message of a worker; raise when it failed or ended without one."""
    try:
        message = worker.connection.recv() if worker.connection.poll(0) else _NO_MESSAGE
    except EOFError:
        message = _NO_MESSAGE
    if isinstance(message, WorkerFailure):
        _raise_failure(message, task)
    if message is not None:
        _raise_death(worker, task, board)


def _raise_failure(failure: WorkerFailure, task: WorkerTask) -> None:
    where = _where(task, failure.current)
    error = None if failure.pickled is None else pickle.loads(failure.pickled)
    if not isinstance(error, Exception):
        msg = f"optimize failed {where}: {failure.summary}"
        error = OptimizeError(msg)
    error.add_note(f"optimize: raised {where}. Nothing was published.")
    raise error from RemoteTracebackError(failure.traceback)


def _raise_death(worker: Worker, task: WorkerTask, board: ProgressBoard) -> None:
    code = worker.wait() or 0
    if code < 0:
        how = f"was killed by {_signal_name(-code)}"
        hint = (
            " SIGKILL often is the kernel's out-of-memory killer: use fewer workers."
            if code == -signal.SIGKILL
            else ""
        )
    else:
        how, hint = f"ended with exit code {code}", " Something in fn ended the process."
    msg = f"optimize: {_name(task)} {how} {_input(task, board.read(task.rank)[0])}.{hint} Nothing was published."
    raise WorkerDiedError(msg)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _name(task: WorkerTask) -> str:
    return f"worker {task.rank} of {task.num_workers}"


def _where(task: WorkerTask, current: int) -> str:
    return f"in {_name(task)} {_input(task, current)}"


def _input(task: WorkerTask, current: int) -> str:
    if current < 0:
        return "outside any input"
    try:
        text = repr(task.inputs[current])
    except Exception as error:  # noqa: BLE001 - the user's __repr__ must not hide what happened
        text = f"a {type(task.inputs[current]).__name__} whose repr raises {type(error).__name__}"
    text = text if len(text) <= _REPR_LIMIT else text[:_REPR_LIMIT] + "..."
    return f"at input {task.first_input + current}: {text}"
