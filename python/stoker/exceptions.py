# SPDX-License-Identifier: Apache-2.0
"""Every error stoker raises on purpose.

Each class is also the builtin a caller would expect, so ``except FileNotFoundError`` works::

    StokerError
    ├── InvalidArgumentError      (ValueError)           an argument that can never work
    ├── OutOfRangeError           (IndexError)           an index past the end
    ├── NotFoundError             (FileNotFoundError)    a file that does not exist
    │   └── ChunkNotFoundError                           a chunk the index promises
    ├── PermissionDeniedError     (PermissionError)      a file we may not open
    ├── AlreadyExistsError        (FileExistsError)      a file that must not be overwritten
    ├── StorageError              (OSError)              any other failure of the operating system
    │   └── OutOfSpaceError                              disk or quota full
    ├── OutOfMemoryError          (MemoryError)          batches larger than the memory there is
    ├── CorruptDataError          (RuntimeError)         bytes that contradict their header, index or checksum
    ├── UnsupportedDataError      (RuntimeError)         valid data that this version cannot handle
    ├── ClosedError               (RuntimeError)         an object used after it was closed
    ├── InternalError             (RuntimeError)         a broken invariant: a bug in stoker
    ├── DatasetFormatError        (ValueError)           an index or a dataset that cannot be read as asked
    ├── SampleStructureError      (ValueError)           a sample that differs from the first one
    ├── StateMismatchError        (ValueError)           a saved state of another dataset or other options
    └── OptimizeError             (RuntimeError)         an optimize run that failed
        └── WorkerDiedError                              a worker process that ended without a word
"""

from __future__ import annotations


class StokerError(Exception):
    """Base of all errors of stoker.

    Attributes:
        path: the file concerned, or None.
        offset: the byte in that file, or None.
    """

    path: str | None = None
    offset: int | None = None


class InvalidArgumentError(StokerError, ValueError):
    """An argument that can never work."""


class OutOfRangeError(StokerError, IndexError):
    """An index past the end."""


class NotFoundError(StokerError, FileNotFoundError):
    """A file that does not exist."""


class ChunkNotFoundError(NotFoundError):
    """A chunk that the index promises and that is not there."""


class PermissionDeniedError(StokerError, PermissionError):
    """A file we may not open."""


class AlreadyExistsError(StokerError, FileExistsError):
    """A file that must not be overwritten."""


class StorageError(StokerError, OSError):
    """Any other failure of the operating system."""


class OutOfSpaceError(StorageError):
    """Disk or quota full."""


class OutOfMemoryError(StokerError, MemoryError):
    """Batches larger than the memory there is."""


class CorruptDataError(StokerError, RuntimeError):
    """Bytes that contradict their header, the index or their checksum."""


class UnsupportedDataError(StokerError, RuntimeError):
    """Valid data that this version cannot handle."""


class ClosedError(StokerError, RuntimeError):
    """An object used after it was closed."""


class InternalError(StokerError, RuntimeError):
    """A broken invariant: a bug in stoker, please report it."""


class DatasetFormatError(StokerError, ValueError):
    """An index or a dataset that cannot be read as asked."""


class SampleStructureError(StokerError, ValueError):
    """A sample whose structure differs from that of the first sample."""


class StateMismatchError(StokerError, ValueError):
    """A saved state that belongs to another dataset or to other options."""


class OptimizeError(StokerError, RuntimeError):
    """An optimize run that failed; nothing was published."""


class WorkerDiedError(OptimizeError):
    """A worker process that ended without reporting a result."""


# ErrorCode of cpp/base/error.h -> class, by name; python/bindings/errors.cc looks the names up once.
CLASS_OF_CODE: dict[str, type[StokerError]] = {
    "invalid_argument": InvalidArgumentError,
    "out_of_range": OutOfRangeError,
    "not_found": NotFoundError,
    "permission_denied": PermissionDeniedError,
    "already_exists": AlreadyExistsError,
    "corrupt": CorruptDataError,
    "io": StorageError,
    "out_of_space": OutOfSpaceError,
    "out_of_memory": OutOfMemoryError,
    "unsupported": UnsupportedDataError,
    "closed": ClosedError,
    "internal": InternalError,
}
