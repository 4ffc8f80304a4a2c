# SPDX-License-Identifier: Apache-2.0
"""What every worker is doing, in memory shared with the parent: readable also after a worker was killed."""

from __future__ import annotations

import mmap
import os
import struct

_ROW = struct.Struct("<3q")  # current input or -1, inputs done, samples written


class ProgressBoard:
    """One row per worker. Each row has one writer (its worker) and one reader (the parent); no locks are needed."""

    def __init__(self, workers: int, fd: int | None = None) -> None:
        """Make a board, or open the one of the parent by its descriptor."""
        self.fd = os.memfd_create("stoker-progress", 0) if fd is None else fd
        if fd is None:
            os.ftruncate(self.fd, max(workers, 1) * _ROW.size)
        self._memory = mmap.mmap(self.fd, max(workers, 1) * _ROW.size)
        if fd is None:
            for worker in range(workers):
                self.write(worker, -1, 0, 0)

    def write(self, worker: int, current: int, done: int, samples: int) -> None:
        """Say that ``worker`` is at input ``current`` (its own count; -1 = none), with so much finished."""
        _ROW.pack_into(self._memory, worker * _ROW.size, current, done, samples)

    def read(self, worker: int) -> tuple[int, int, int]:
        """Return (current, done, samples) of ``worker``."""
        current, done, samples = _ROW.unpack_from(self._memory, worker * _ROW.size)
        return current, done, samples

    def close(self) -> None:
        """Release the memory."""
        self._memory.close()
        os.close(self.fd)
