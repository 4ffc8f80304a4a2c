# SPDX-License-Identifier: Apache-2.0
"""The file in which ranks and jobs share what a filter kept.

A line "stoker-filter", version and XXH3-64 of all that follows; a line of JSON that says what the filter was asked; then
the begins and the ends of the kept item ranges as little-endian int64.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from pathlib import Path
from typing import NoReturn

import numpy as np

from stoker import _core
from stoker.exceptions import CorruptDataError, InvalidArgumentError
from stoker.streaming._selection import Selection
from stoker.streaming.index import DatasetIndex

_MAGIC = b"stoker-filter"
_VERSION = b"1"


def read_kept(path: Path, index: DatasetIndex, asked: str) -> Selection | None:
    """Return what the file says was kept.

    Args:
        path: of the file.
        index: of the dataset that is filtered.
        asked: digest of the items the filter is asked about.

    Returns:
        None when there is no file, or one of another version or about other items of this dataset.

    Raises:
        InvalidArgumentError: it belongs to another dataset.
        CorruptDataError: it is no such file, or was cut or altered.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    first, _, rest = data.partition(b"\n")
    words = first.split(b" ")
    if len(words) != 3 or words[0] != _MAGIC:  # noqa: PLR2004 - name, version, checksum
        _raise_corrupt(path, "it is no filter cache")
    if words[1] != _VERSION:
        return None
    if words[2] != f"{_core.xxh3_64(rest):016x}".encode():
        _raise_corrupt(path, "its checksum is wrong: it was cut or altered")
    head, _, body = rest.partition(b"\n")
    about = json.loads(head)
    if about["dataset"] != index.fingerprint:
        msg = (
            f"filter_cache={str(path)!r} belongs to the dataset {about['dataset']} (in {about['directory']}), but here is "
            f"{index.fingerprint} (in {index.directory}). Use another file for each dataset, or delete it."
        )
        raise InvalidArgumentError(msg)
    begins, ends = np.frombuffer(body, "<i8").reshape(2, -1)
    return Selection(begins, ends) if about["asked"] == asked else None


def write_kept(path: Path, index: DatasetIndex, asked: str, kept: Selection) -> None:
    """Write the file so that others see the old one, or the new one whole. Arguments as of `read_kept`.

    Raises:
        OSError: of the file system.
    """
    about = {"dataset": index.fingerprint, "directory": index.directory, "asked": asked}
    body = np.concatenate([kept.begins, kept.ends]).astype("<i8").tobytes()
    rest = json.dumps(about).encode() + b"\n" + body
    first = b" ".join([_MAGIC, _VERSION, f"{_core.xxh3_64(rest):016x}".encode()])
    tmp = path.with_name(f"{path.name}.tmp-{uuid.uuid4().hex}")  # ranks of many machines write here
    try:
        with tmp.open("wb") as file:
            file.write(first + b"\n" + rest)
            file.flush()
            os.fsync(file.fileno())
        tmp.replace(path)
    finally:
        with contextlib.suppress(OSError):
            tmp.unlink(missing_ok=True)


def _raise_corrupt(path: Path, problem: str) -> NoReturn:
    error = CorruptDataError(
        f"filter_cache={str(path)!r} cannot be used: {problem}. Delete it, and the filter is evaluated again."
    )
    error.path = str(path)
    raise error
