# SPDX-License-Identifier: Apache-2.0
"""Datasets written by several writers without a final merge."""

from __future__ import annotations

from pathlib import Path

from stoker.exceptions import NotFoundError
from stoker.streaming.index import INDEX_NAME, find_shards
from stoker.streaming.resolver import resolve_dir
from stoker.streaming.writer import merge_shards


def is_complete_dataset(directory: str | Path) -> bool:
    """Say whether ``directory`` holds an ``index.json``."""
    return (Path(resolve_dir(directory).path or "") / INDEX_NAME).is_file()


def complete_dataset(directory: str | Path) -> str:
    """Merge the per-writer indexes (``<rank>.index.json``, in numeric order) of ``directory`` to ``index.json``.

    Nothing happens when ``index.json`` is there. Only the per-writer indexes are removed, after the merged one is on
    the disk; chunks are not touched.

    Returns:
        The absolute path of the directory.

    Raises:
        NotFoundError: there is neither an ``index.json`` nor a per-writer index.
        DatasetFormatError: the writers' indexes do not fit together.
    """
    path = resolve_dir(directory).path or ""
    if is_complete_dataset(path):
        return path
    if not Path(path).is_dir() or not find_shards(path):
        msg = f"{path} holds neither {INDEX_NAME} nor per-writer indexes (0.index.json, ...): there is nothing to complete."
        raise NotFoundError(msg)
    merge_shards(Path(path))
    return path
