# SPDX-License-Identifier: Apache-2.0
"""Small datasets for tests, written in this process."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stoker.streaming import BinaryWriter


def write_dataset(directory: Path, samples: Iterable[Any], **writer_options: Any) -> Path:
    """Write ``samples`` with one writer (5 per chunk unless said otherwise) and return the directory."""
    if "chunk_bytes" not in writer_options:
        writer_options.setdefault("chunk_size", 5)
    writer = BinaryWriter(directory, rank=0, sync=False, **writer_options)
    for sample in samples:
        writer.append(sample)
    writer.done()
    writer.merge()
    return directory
