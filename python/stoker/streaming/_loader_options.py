# SPDX-License-Identifier: Apache-2.0
"""The arguments of StreamingDataLoader, checked, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NoReturn, cast

from torch.utils.data import default_collate

from stoker import _core
from stoker.exceptions import InvalidArgumentError
from stoker.streaming._assignment import Cursor
from stoker.streaming._epochs import EpochDataset

_MOST_WORKERS = 1024  # more is a mistake
_MOST_ROWS = 1 << 48  # of a batch: so that their product with any world fits in 64 bits


@dataclass(frozen=True, slots=True)
class BatchSize:
    """How many samples a rank's batches have.

    Attributes:
        rows: the most in a batch; 1 when samples come one by one.
        of_each: of the batches of each dataset of a mixture; () = all alike.
        single: no batches: samples come one by one.
    """

    rows: int
    of_each: tuple[int, ...] = ()
    single: bool = False


def checked_batch_size(batch_size: object, dataset: EpochDataset) -> BatchSize:
    """Return the public argument.

    Raises:
        InvalidArgumentError: it is no int of at least 1, None, or a list of a size for each dataset whose batches are its
            own.
    """
    if batch_size is None:
        return BatchSize(1, single=True)
    several = isinstance(batch_size, Sequence) and not isinstance(batch_size, (str, bytes))
    given: list[Any] = list(cast("Sequence[Any]", batch_size)) if several else [batch_size]
    for size in given:
        if (
            isinstance(size, bool)
            or not isinstance(size, Integral)
            or not 1 <= int(size) < _MOST_ROWS
        ):
            msg = f"batch_size={batch_size!r} must be an int from 1 to 2**48 - 1, or None for samples one by one."
            raise InvalidArgumentError(msg)
    sizes = [int(size) for size in given]
    if not several:
        return BatchSize(sizes[0])
    count = len(dataset.groups[0])
    if not dataset.batched or len(sizes) != count:
        msg = (
            f"batch_size={batch_size!r}: a list must have one size for each dataset of a CombinedStreamingDataset with "
            f"batching_method='per_stream'; this is a {type(dataset).__name__} of {count}."
        )
        raise InvalidArgumentError(msg)
    return BatchSize(max(sizes), tuple(sizes))


def check_dataset(dataset: object) -> None:
    """Check the first argument.

    Raises:
        RuntimeError: it is no dataset of this package.
    """
    if not isinstance(dataset, EpochDataset):
        msg = (
            "StreamingDataLoader takes a StreamingDataset, CombinedStreamingDataset or ParallelStreamingDataset, found "
            f"{type(dataset).__name__}. Use torch's DataLoader for others."
        )
        raise RuntimeError(msg)  # noqa: TRY004 - the class the field expects here


def check_choices(backend: object, on_error: object, pad: object) -> None:
    """Check arguments that take one of few words.

    Raises:
        InvalidArgumentError: one takes another.
    """
    known: dict[str, tuple[object, tuple[object, ...]]] = {
        "backend": (backend, ("auto", "native", "torch")),
        "on_error": (on_error, ("raise", "skip")),
        "pad": (pad, (None, "mask")),
    }
    for name, (value, words) in known.items():
        if value not in words:
            msg = f"{name}={value!r} is unknown; use {', '.join(map(repr, words))}."
            raise InvalidArgumentError(msg)


def check_together(
    pad: object,
    on_error: str,
    size: BatchSize,
    replicate: object,
    bucket_by: object,
    num_workers: object,
    batch_transform: object,
    kwargs: dict[str, Any],
) -> None:
    """Check what depends on each other.

    Raises:
        InvalidArgumentError: arguments that can never work.
    """
    if type(replicate) is not int or replicate < 1:
        msg = f"replicate={replicate!r} must be an int of at least 1."
        raise InvalidArgumentError(msg)
    if num_workers is not None and (
        type(num_workers) is not int or not 0 <= num_workers <= _MOST_WORKERS
    ):
        msg = f"num_workers={num_workers!r} must be None or an int from 0 to {_MOST_WORKERS}."
        raise InvalidArgumentError(msg)
    if batch_transform is not None and not callable(batch_transform):
        msg = f"batch_transform must be a callable of the batch, found {batch_transform!r:.80}."
        raise InvalidArgumentError(msg)
    if pad is not None and (on_error == "skip" or size.single):
        msg = "pad='mask' needs batches of one size: give a batch_size, and on_error='raise'."
        raise InvalidArgumentError(msg)
    if bucket_by is not None and size.single:
        msg = "bucket_by makes batches: give a batch_size."
        raise InvalidArgumentError(msg)
    if kwargs.get("in_order") is False:
        msg = "in_order=False cannot be resumed exactly: batches would come in the order of luck."
        raise InvalidArgumentError(msg)


def countable(size: BatchSize, dataset: EpochDataset) -> int | None:
    """Return a batch size that gives torch the same batches: it counts to it before it looks for samples."""
    if size.single:
        return None
    if size.rows <= _core.MAX_BATCH_ROWS:
        return size.rows
    return min(size.rows, max(dataset.epoch_samples(1), _core.MAX_BATCH_ROWS))


def raise_too_few(cursor: Cursor, total: int, what: str = "The dataset has {} samples") -> NoReturn:
    """Raise the error of an epoch without a batch for a rank.

    Raises:
        InvalidArgumentError: always.
    """
    why = (
        "drop_last leaves it out. Use a smaller batch_size or drop_last=False."
        if cursor.drop_last
        else f"none is left for rank {cursor.rank}. Use fewer ranks."
    )
    msg = (
        f"{what.format(total)}, fewer than one global batch of {cursor.global_batch} (batch_size "
        f"{cursor.batch_size} x {cursor.world_size} ranks), and {why}"
    )
    raise InvalidArgumentError(msg)


def reason_against_native(size: BatchSize, collate_fn: Any, kwargs: dict[str, Any]) -> str | None:
    """Return why arguments rule the native backend out, or None."""
    if size.single:
        return "batch_size is None"
    if collate_fn is not None and collate_fn is not default_collate:
        return "it has a collate_fn"
    for name in ("worker_init_fn", "multiprocessing_context"):
        if kwargs.get(name) is not None:
            return f"it has a {name}"
    return None
