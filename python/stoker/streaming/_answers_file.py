# SPDX-License-Identifier: Apache-2.0
"""The file in which ranks and jobs share what a function said about a dataset's samples.

A line of kind, version and XXH3-64 of all that follows; a line of JSON that says what was asked about; then the answers.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from stoker import _core
from stoker.exceptions import CorruptDataError, InvalidArgumentError
from stoker.streaming.index import DatasetIndex

_VERSION = b"1"


@dataclass(frozen=True, slots=True)
class AnswersFile:
    """One file of one kind.

    Attributes:
        path: of the file.
        argument: that named it, for messages.
        kind: what its first line begins with.
    """

    path: Path
    argument: str
    kind: bytes

    def read(self, index: DatasetIndex, asked: str) -> bytes | None:
        """Return the answers.

        Args:
            index: of the dataset.
            asked: digest of what the answers are about.

        Returns:
            None when there is no file, or one of another version or about other items of this dataset.

        Raises:
            InvalidArgumentError: it belongs to another dataset.
            CorruptDataError: it is no such file, or was cut or altered.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        first, _, rest = data.partition(b"\n")
        words = first.split(b" ")
        if len(words) != 3 or words[0] != self.kind:  # noqa: PLR2004 - kind, version, checksum
            self._raise_corrupt(f"it is no {self.argument.replace('_', ' ')}")
        if words[1] != _VERSION:
            return None
        if words[2] != f"{_core.xxh3_64(rest):016x}".encode():
            self._raise_corrupt("its checksum is wrong: it was cut or altered")
        head, _, body = rest.partition(b"\n")
        about = json.loads(head)
        if about["dataset"] != index.fingerprint:
            msg = (
                f"{self.argument}={str(self.path)!r} belongs to the dataset {about['dataset']} (in {about['directory']}), "
                f"but here is {index.fingerprint} (in {index.directory}). Use another file for each dataset, or delete it."
            )
            raise InvalidArgumentError(msg)
        return body if about["asked"] == asked else None

    def write(self, index: DatasetIndex, asked: str, answers: bytes) -> None:
        """Write the file so that others see the old one, or the new one whole. Arguments as of `read`.

        Raises:
            OSError: of the file system.
        """
        about = {"dataset": index.fingerprint, "directory": index.directory, "asked": asked}
        rest = json.dumps(about).encode() + b"\n" + answers
        first = b" ".join([self.kind, _VERSION, f"{_core.xxh3_64(rest):016x}".encode()])
        name = f"{self.path.name}.tmp-{uuid.uuid4().hex}"  # ranks of many machines write here
        tmp = self.path.with_name(name)
        try:
            with tmp.open("wb") as file:
                file.write(first + b"\n" + rest)
                file.flush()
                os.fsync(file.fileno())
            tmp.replace(self.path)
        finally:
            with contextlib.suppress(OSError):
                tmp.unlink(missing_ok=True)

    def _raise_corrupt(self, problem: str) -> NoReturn:
        error = CorruptDataError(
            f"{self.argument}={str(self.path)!r} cannot be used: {problem}. Delete it, and every sample is asked again."
        )
        error.path = str(self.path)
        raise error


def checked_file(
    argument: str, given: str | Path | None, kind: bytes, *, wanted: bool
) -> AnswersFile | None:
    """Return the file that a user named.

    Args:
        argument: its name.
        given: its value.
        kind: see `AnswersFile`.
        wanted: there is something to keep in it.

    Raises:
        InvalidArgumentError: there is nothing to keep, or the file could never be written.
    """
    if given is None:
        return None
    if not isinstance(given, (str, os.PathLike)):
        msg = f"{argument}={given!r} must be the path of a file."
        raise InvalidArgumentError(msg)
    path = Path(given).expanduser().absolute()
    if not wanted or path.is_dir() or not path.parent.is_dir():
        needed = argument.removesuffix("_cache")
        problem = "must be a file in an existing folder" if wanted else f"needs a {needed}"
        msg = f"{argument}={str(given)!r} {problem}."
        raise InvalidArgumentError(msg)
    return AnswersFile(path, argument, kind)
