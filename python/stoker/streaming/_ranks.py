# SPDX-License-Identifier: Apache-2.0
"""Whether all ranks of a process group are about to deliver parts of the same batches."""

from __future__ import annotations

from typing import Any

from torch import distributed

from stoker.exceptions import InvalidArgumentError, StateMismatchError


def check_alike(mine: dict[str, Any]) -> None:
    """Compare plain values over all ranks. Every rank must call it.

    Raises:
        InvalidArgumentError: there is no process group.
        StateMismatchError: on every rank, when one differs from rank 0; names what, where and both values.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        msg = "There is no process group to compare ranks in: call torch.distributed.init_process_group first."
        raise InvalidArgumentError(msg)
    every: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(every, mine)
    differing = [
        f"`{key}` is {other.get(key)!r:.200} on rank {rank} and {every[0].get(key)!r:.200} on rank 0"
        for rank, other in enumerate(every)
        for key in sorted(other.keys() | every[0].keys())
        if other.get(key) != every[0].get(key)
    ]
    if differing:
        more = f"; and {len(differing) - 3} more" if len(differing) > 3 else ""  # noqa: PLR2004 - enough to see why
        msg = f"The ranks would deliver different batches: {'; '.join(differing[:3])}{more}."
        raise StateMismatchError(msg)
