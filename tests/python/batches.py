# SPDX-License-Identifier: Apache-2.0
"""Batches compared and fingerprinted to the bit, and loaders of either backend."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from stoker import StreamingDataLoader, StreamingDataset


def bits(tensor: torch.Tensor) -> bytes:
    """Return the elements in C order."""
    flat = tensor.contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def fingerprint(batch: Any) -> str:
    """Return what is equal for equal batches only: structure, types, dtypes, shapes and bits."""
    state = hashlib.sha256()

    def visit(node: Any) -> None:
        state.update(type(node).__name__.encode() + b"(")
        if isinstance(node, torch.Tensor):
            state.update(f"{node.dtype} {tuple(node.shape)} ".encode() + bits(node))
        elif isinstance(node, Mapping):
            for key, value in node.items():
                state.update(repr(key).encode())
                visit(value)
        elif isinstance(node, (str, bytes)):
            state.update(repr(node).encode())
        else:
            for child in node:
                visit(child)
        state.update(b")")

    visit(batch)
    return state.hexdigest()


def loader_of(
    place: Path, backend: str, data: dict[str, Any] | None = None, **options: Any
) -> StreamingDataLoader:
    """Return a loader; ``data`` are options of the dataset."""
    options.setdefault("batch_size", 4)
    options.setdefault("num_workers", 0 if backend == "torch" else 2)
    dataset = StreamingDataset(place, **(data or {}))
    return StreamingDataLoader(dataset, backend=backend, **options)  # type: ignore[arg-type]


def prints(loader: StreamingDataLoader, count: int | None = None) -> list[str]:
    """Return the fingerprints of an epoch, or of its first batches (then the loop breaks)."""
    taken: list[str] = []
    if count == 0:
        return taken
    for batch in loader:
        taken.append(fingerprint(batch))
        if len(taken) == count:
            break
    return taken
