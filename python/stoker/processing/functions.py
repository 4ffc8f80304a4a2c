# SPDX-License-Identifier: Apache-2.0
"""`optimize`: from inputs and a function to a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from stoker.config import Settings, usable_cpus
from stoker.exceptions import (
    DatasetFormatError,
    InvalidArgumentError,
    OptimizeError,
    SampleStructureError,
)
from stoker.processing import _partition
from stoker.processing._launch import StartMethod
from stoker.processing._runner import run
from stoker.processing._staging import Staging
from stoker.processing._worker import WorkerTask
from stoker.streaming.compression import zstd_level
from stoker.streaming.index import merge_documents, read_document
from stoker.streaming.item_loader import BaseItemLoader
from stoker.streaming.resolver import Dir, resolve_dir
from stoker.streaming.writer import check_limits

_FAST_DEV_RUN = 10


def optimize(
    fn: Callable[[Any], Any],
    inputs: Sequence[Any] | Iterable[Any],
    output_dir: str | Path | Dir = "optimized_data",
    *,
    chunk_size: int | None = None,
    chunk_bytes: int | str | None = None,
    compression: str | None = None,
    num_workers: int | None = None,
    fast_dev_run: bool | int = False,
    batch_size: int | None = None,
    item_loader: BaseItemLoader | None = None,
    start_method: StartMethod = "spawn",
    verbose: bool = True,
) -> None:
    """Call ``fn`` on every input and store what it returns as an optimized dataset.

    The samples come in the order of the inputs. The dataset appears at the end, all at once: while the run is going
    on, and after a failed or killed one, there is no ``index.json``. Nothing this run did not write is ever removed or
    overwritten.

    Args:
        fn: input -> sample; None = no sample; a generator or other iterator = its samples. A sample is any nesting of dict, list and
            tuple (...) of leaves; all samples have the structure and leaf types of the first. Functions of a script,
            lambdas, partials and callable objects work.
        inputs: a sequence, array or iterable.
        output_dir: local directory; made when missing.
        chunk_size: samples per chunk (tokens, with TokensLoader).
        chunk_bytes: bytes per chunk, int or "64MB". Exactly one of the two limits is given.
        compression: None, "zstd" or "zstd:<1..22>"; not worth it for JPEG.
        num_workers: processes; default DATA_OPTIMIZER_NUM_WORKERS, else one per usable CPU core.
        fast_dev_run: only the first inputs: True = 10, or how many.
        batch_size: call ``fn`` with lists of that many inputs.
        item_loader: None = PyTreeLoader(); TokensLoader() for tokens.
        start_method: "spawn" (fresh processes) or "fork" (copies of this one: start at once, but unsafe when
            threads run).
        verbose: show a progress bar.

    Raises:
        InvalidArgumentError: arguments that can never work (a ValueError); nothing has run.
        OptimizeError: ``output_dir`` holds a dataset already, another run writes to it, ``fn`` returned no sample at
            all, or a worker died (WorkerDiedError: which worker, input and signal).
        SampleStructureError: samples of different structure; the message names the sample, the leaf and both.
        Exception: whatever ``fn`` raised, with the worker's traceback and the input.
    """
    size, byte_limit = check_limits(chunk_size, chunk_bytes)
    zstd_level(compression)
    _check(fn, item_loader, start_method)
    sequence = _partition.as_sequence(inputs)
    if fast_dev_run is not False:
        limit = _FAST_DEV_RUN if fast_dev_run is True else _positive("fast_dev_run", fast_dev_run)
        sequence = _partition.take(sequence, 0, min(limit, len(sequence)))
    sequence = _partition.group(sequence, batch_size)
    workers = (
        Settings.from_env().num_workers or usable_cpus() if num_workers is None else num_workers
    )
    workers = min(_positive("num_workers", workers or 1), len(sequence))
    staging = Staging(Path(resolve_dir(output_dir).path or ""))
    try:
        tasks = [
            WorkerTask(
                rank=rank,
                num_workers=workers,
                first_input=begin,
                inputs=_partition.take(sequence, begin, end),
                fn=fn,
                directory=str(staging.path),
                chunk_size=size,
                chunk_bytes=byte_limit,
                compression=compression,
                item_loader=item_loader,
            )
            for rank, (begin, end) in enumerate(_partition.bounds(len(sequence), workers))
        ]
        run(tasks, start_method, verbose=verbose)
        merged = _merge(staging.path, tasks)
        staging.commit(merged["chunks"], merged["config"])
    except BaseException:
        staging.abandon()
        raise


def _check(fn: object, item_loader: object, start_method: str) -> None:
    if not callable(fn):
        msg = f"fn must be callable, found {type(fn).__name__}."
        raise InvalidArgumentError(msg)
    if item_loader is not None and not isinstance(item_loader, BaseItemLoader):
        msg = f"item_loader must be an instance such as TokensLoader(), found {item_loader!r}."
        raise InvalidArgumentError(msg)
    if start_method not in ("spawn", "fork"):
        msg = f"start_method={start_method!r} is unknown; use 'spawn' or 'fork'."
        raise InvalidArgumentError(msg)


def _positive(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        msg = f"{name}={value!r} must be an int of at least 1."
        raise InvalidArgumentError(msg)
    return value


def _merge(directory: Path, tasks: Sequence[WorkerTask]) -> dict[str, Any]:
    documents = [read_document(directory / f"{task.rank}.index.json") for task in tasks]
    try:
        merged = merge_documents(documents)
    except DatasetFormatError as error:
        parts = ", ".join(
            f"worker {t.rank} had inputs {t.first_input} to {t.first_input + len(t.inputs) - 1}"
            for t in tasks
        )
        msg = f"The workers made samples of different structure. {error} ({parts})"
        raise SampleStructureError(msg) from None
    if not merged["chunks"]:
        count = sum(len(task.inputs) for task in tasks)
        msg = f"fn returned no sample for any of the {count} inputs (None means no sample). Nothing was published."
        raise OptimizeError(msg)
    return merged
