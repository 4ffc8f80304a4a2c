# SPDX-License-Identifier: Apache-2.0
"""From what users write as a place to an absolute local directory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from stoker.exceptions import InvalidArgumentError, UnsupportedDataError

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):/")
_TIME = re.compile(r"\{(%[^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Dir:
    """A place.

    Attributes:
        path: absolute local directory, or None.
        url: remote location, or None. This version reads and writes local directories only.
    """

    path: str | None = None
    url: str | None = None


def resolve_dir(place: str | Path | Dir) -> Dir:
    """Return the directory ``place`` means, absolute, with ``~`` and ``{%Y-%m-%d}`` (strftime of now) expanded.

    Raises:
        InvalidArgumentError: not a str, Path or Dir, or an unknown scheme.
        UnsupportedDataError: a known remote scheme; this version works on local directories.
    """
    if isinstance(place, Dir):
        if place.path is None:
            msg = f"{place} has no local path; this version reads and writes local directories."
            raise UnsupportedDataError(msg)
        place = place.path
    if not isinstance(place, (str, Path)):
        msg = f"A dataset place must be a str, a Path or a Dir, found {type(place).__name__}: {place!r}."
        raise InvalidArgumentError(msg)
    text = str(place)
    scheme = _SCHEME.match(text)
    if scheme is not None:
        _refuse_scheme(scheme[1], text)
    now = datetime.now().astimezone()
    text = _TIME.sub(lambda match: now.strftime(match[1]), text)
    return Dir(path=str(Path(text).expanduser().resolve()))


def _refuse_scheme(scheme: str, text: str) -> None:
    if scheme in {"s3", "gs", "r2", "azure", "hf", "http", "https", "local"}:
        msg = f"{text!r}: this version reads and writes local directories; copy the dataset to a local disk first."
        raise UnsupportedDataError(msg)
    msg = f"{text!r} has the unknown scheme {scheme!r}. Pass a local directory."
    raise InvalidArgumentError(msg)
