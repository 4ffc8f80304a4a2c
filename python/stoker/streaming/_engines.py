# SPDX-License-Identifier: Apache-2.0
"""Native engines for any kind of dataset: one for a dataset's own epoch, told ones for everything composed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from stoker import _core
from stoker.streaming._assignment import Cursor
from stoker.streaming._epochs import EpochDataset, OnError
from stoker.streaming._native_batch import DEPTH, BatchPlan, NotNativeError, plan_together
from stoker.streaming._native_run import NativeBatches, ZippedBatches, feeds_of
from stoker.streaming._steps import Steps
from stoker.streaming.dataset import StreamingDataset


@dataclass(frozen=True, slots=True)
class NativePlan:
    """How the engines of a loader build batches.

    Attributes:
        members: plan of each dataset of each group.
        groups: plan of each group's batches.
    """

    members: list[list[BatchPlan]]
    groups: list[BatchPlan]

    def describe(self) -> str:
        """Return what is decoded, for `explain`."""
        return " | ".join(plan.describe() for plan in self.groups)


def plan_native(
    dataset: EpochDataset, batch_size: int, on_error: OnError, *, pad: bool
) -> NativePlan:
    """Return how engines build the batches of a dataset. Reads first samples.

    Raises:
        NotNativeError: they cannot.
    """
    if batch_size > _core.MAX_BATCH_ROWS:
        msg = f"batch_size={batch_size} is above {_core.MAX_BATCH_ROWS}"
        raise NotNativeError(msg)
    if dataset.python_transform is not None:
        msg = f"its transform {dataset.python_transform!r} is a Python function"
        raise NotNativeError(msg)
    if on_error == "skip" and len(dataset.groups) > 1:
        msg = "on_error='skip' must leave a damaged sample out of all datasets side by side"
        raise NotNativeError(msg)
    most = dataset.epoch_samples(1)
    members = []
    for group in dataset.groups:
        samples = max(most, sum(member.num_samples for member in group), 1)
        rows = batch_size if pad else min(batch_size, samples)
        members.append([member.plan_batches(rows) for member in group])
    return NativePlan(members, [plan_together(plans) for plans in members])


def start_native(
    dataset: EpochDataset,
    plan: NativePlan,
    cursor: Cursor,
    steps: Steps | None,
    *,
    threads: int,
    on_error: OnError,
    pin_memory: bool,
) -> NativeBatches | ZippedBatches:
    """Start the engines of one iteration; ``steps`` are its batches when they are no plain slices."""
    options: dict[str, Any] = {
        "threads": threads,
        "depth": DEPTH,
        "skip_corrupt": on_error == "skip",
        "offered_slabs": pin_memory,
    }
    running: dict[str, Any] = {"pin_memory": pin_memory, "depth": DEPTH if threads else 1}
    if steps is None and isinstance(dataset, StreamingDataset):
        only, own = plan.groups[0], dataset

        def engine(delivered: int) -> _core.BatchLoader:
            begun = replace(cursor, start=cursor.start + delivered * cursor.global_batch)
            return own.batch_engine(only, begun, **options)

        return NativeBatches(only, engine, **running)
    zipped = []
    feeds = feeds_of(steps or dataset.steps(cursor), len(plan.groups))
    for group, plans, whole, feed in zip(
        dataset.groups, plan.members, plan.groups, feeds, strict=True
    ):
        parts = [member.engine_part(its) for member, its in zip(group, plans, strict=True)]

        def told(
            _delivered: int, parts: list[Any] = parts, whole: BatchPlan = whole
        ) -> _core.BatchLoader:
            return _core.BatchLoader.told(parts, whole.spec, whole.pool, **options)

        zipped.append(NativeBatches(whole, told, feed=feed, **running))
    return ZippedBatches(zipped) if dataset.side_by_side else zipped[0]
