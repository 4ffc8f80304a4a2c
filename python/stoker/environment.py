# SPDX-License-Identifier: Apache-2.0
"""Where this process stands: rank, nodes, DataLoader worker. The only place that detects it."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from stoker.exceptions import InvalidArgumentError

_RANK_VARIABLES = (
    ("RANK", "WORLD_SIZE"),  # torchrun, Lightning
    ("GLOBAL_RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
)
_LOCAL_SIZE_VARIABLES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")


@dataclass(frozen=True, slots=True)
class World:
    """A process among its peers.

    Attributes:
        rank, world_size: place among the training processes, 0 <= rank < world_size.
        worker, num_workers: place among the torch DataLoader workers of this rank; 0 of 1 outside a worker.
        in_worker: True inside a torch DataLoader worker process.
    """

    rank: int = 0
    world_size: int = 1
    worker: int = 0
    num_workers: int = 1
    in_worker: bool = False


def detect() -> World:
    """Look at torch.distributed, the launcher's variables and the DataLoader worker info, in this order.

    Call it late (when iterating): a process group initialised after a dataset was built is then honoured. torch is
    not imported for it: if nobody imported torch there is neither a process group nor a worker.
    """
    rank, world_size = _distributed() or _from_env() or (0, 1)
    data = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    if info is None:
        return World(rank, world_size)
    return World(rank, world_size, info.id, info.num_workers, in_worker=True)


def local_world_size() -> int:
    """Return how many ranks share this machine, as the launcher says; 1 when it does not."""
    for name in _LOCAL_SIZE_VARIABLES:
        text = os.environ.get(name, "")
        if text.isdecimal() and int(text) > 0:
            return int(text)
    return 1


def _distributed() -> tuple[int, int] | None:
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    return dist.get_rank(), dist.get_world_size()


def _from_env() -> tuple[int, int] | None:
    for rank_name, size_name in _RANK_VARIABLES:
        rank_text, size_text = os.environ.get(rank_name), os.environ.get(size_name)
        if rank_text is None or size_text is None:
            continue
        if not (
            rank_text.isdecimal() and size_text.isdecimal() and int(rank_text) < int(size_text)
        ):
            msg = f"{rank_name}={rank_text!r} and {size_name}={size_text!r} do not describe a rank in a world."
            raise InvalidArgumentError(msg)
        return int(rank_text), int(size_text)
    return None
