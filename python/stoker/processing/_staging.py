# SPDX-License-Identifier: Apache-2.0
"""Where a run writes before it is finished, and how its result appears in one step.

A run holds a lock on the file ``.stoker-lock`` of the output directory from its first look to its end, so there is never
a second one, and writes to a directory ``.stoker-staging-<token>`` inside. The kernel frees the lock when the run dies,
however it dies; what the next run then finds is litter. Committing writes a list of the files to be moved, moves them (never over an existing file) and writes ``index.json`` last. A run
that finds the list of a dead one takes back what that one had moved: nothing is listed by an index yet.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from pathlib import Path
from typing import Any

from stoker import _core
from stoker.exceptions import AlreadyExistsError, OptimizeError
from stoker.streaming.index import INDEX_NAME, find_shards, write_document

_PREFIX = ".stoker-staging-"
_LOCK, _COMMIT = ".stoker-lock", "commit.json"


class Staging:
    """The staging directory of one run.

    Raises:
        OptimizeError: the output directory already holds a dataset, or another run is writing to it.
        AlreadyExistsError: it holds chunk files of an unknown dataset.
    """

    def __init__(self, output_dir: Path) -> None:
        """Make the directory and lock it; litter of dead runs is removed first."""
        self.output_dir = output_dir
        self._made = _make_directories(output_dir)
        self._lock = _lock(output_dir)
        try:
            _clear_dead_runs(output_dir)
            _refuse_existing(output_dir)
            self.path = output_dir / f"{_PREFIX}{secrets.token_hex(8)}"
            self.path.mkdir()
        except BaseException:
            _unlock(output_dir, self._lock)
            raise

    def commit(self, chunks: list[dict[str, Any]], config: dict[str, Any] | None) -> None:
        """Move the chunks to the output directory and publish the index."""
        names = [chunk["filename"] for chunk in chunks]
        inodes = {name: (self.path / name).stat().st_ino for name in names}
        _write_durably(self.path / _COMMIT, json.dumps(inodes))
        for name in names:
            _core.publish(str(self.path / name), str(self.output_dir / name), False)  # noqa: FBT003 - a C++ positional
        _core.sync_directory(str(self.output_dir))
        write_document(self.output_dir / INDEX_NAME, chunks, config)
        _core.sync_directory(str(self.output_dir))
        self._remove()

    def abandon(self) -> None:
        """Remove everything this run wrote, also directories it made when they are empty."""
        _roll_back(self.path, self.output_dir)
        self._remove()
        for directory in reversed(self._made):
            try:
                directory.rmdir()
            except OSError:
                break

    def _remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        _unlock(self.output_dir, self._lock)


def _make_directories(path: Path) -> list[Path]:
    """Make ``path`` with its parents; return those that were made, outermost first."""
    missing = [p for p in (*reversed(path.parents), path) if not p.exists()]
    path.mkdir(parents=True, exist_ok=True)
    return missing


def _lock(output_dir: Path) -> int:
    path = output_dir / _LOCK
    while True:
        fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(fd).st_ino == path.stat().st_ino:
                return fd
        except BlockingIOError:
            os.close(fd)
            msg = f"Another optimize run is writing to {output_dir}. Wait for its end or choose another output_dir."
            raise OptimizeError(msg) from None
        except FileNotFoundError:
            pass
        os.close(fd)  # its last holder removed the file in between: lock the one that is there now


def _unlock(output_dir: Path, fd: int) -> None:
    (output_dir / _LOCK).unlink(missing_ok=True)
    os.close(fd)


def _clear_dead_runs(output_dir: Path) -> None:
    for staging in sorted(output_dir.glob(f"{_PREFIX}*")):
        _roll_back(staging, output_dir)
        shutil.rmtree(staging, ignore_errors=True)


def _roll_back(staging: Path, output_dir: Path) -> None:
    """Take back chunks that a run moved to the output directory without publishing an index."""
    record = staging / _COMMIT
    if not record.exists() or (output_dir / INDEX_NAME).exists():
        return
    try:
        moves = json.loads(record.read_text()).items()
    except (ValueError, AttributeError):  # not ours: we write it whole or not at all
        return
    for name, inode in moves:
        moved = output_dir / name
        # The same file, not one of that name: what somebody else put there stays.
        if not (staging / name).exists() and moved.exists() and moved.stat().st_ino == inode:
            moved.unlink()


def _refuse_existing(output_dir: Path) -> None:
    if (output_dir / INDEX_NAME).exists():
        msg = (
            f"{output_dir} already contains an optimized dataset, and optimized datasets are immutable. Choose another "
            "output_dir, or remove the dataset first."
        )
        raise OptimizeError(msg)
    strangers = [
        p.name for p in (*find_shards(str(output_dir)), *sorted(output_dir.glob("chunk-*.bin")))
    ]
    if strangers:
        msg = (
            f"{output_dir} holds {len(strangers)} dataset files that no index lists ({', '.join(strangers[:3])}...). They are "
            "not removed. Complete them (complete_dataset), move them away, or choose another output_dir."
        )
        raise AlreadyExistsError(msg)


def _write_durably(path: Path, text: str) -> None:
    """Write a file that is there whole or not at all, whenever the process ends."""
    part = path.with_suffix(".part")
    with part.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
