# SPDX-License-Identifier: Apache-2.0
"""Every setting that comes from environment variables: name, type, default, meaning.

The only module besides `stoker.environment` that reads ``os.environ``. Arguments given in code always win.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from stoker.exceptions import InvalidArgumentError

_NO_QUOTA = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """Values read from the environment.

    Attributes:
        num_workers: DATA_OPTIMIZER_NUM_WORKERS, processes of `optimize`; default None = one per usable CPU core.
        window: STOKER_SHUFFLE_WINDOW, chunks of a stream whose samples are mixed when shuffling; default 4. Part of the
            order: it is stored in checkpoints.
    """

    num_workers: int | None = None
    window: int = 4

    @classmethod
    def from_env(cls) -> Settings:
        """Read the settings now."""
        return cls(
            num_workers=_int("DATA_OPTIMIZER_NUM_WORKERS", None),
            window=_int("STOKER_SHUFFLE_WINDOW", 4) or 4,
        )


def _int(name: str, default: int | None) -> int | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if not text.isdecimal() or int(text) == 0:
        msg = f"The environment variable {name}={text!r} must be a positive integer."
        raise InvalidArgumentError(msg)
    return int(text)


def usable_cpus() -> int:
    """Return how many CPU cores this process may use: affinity mask and cgroup quota, at least 1."""
    return max(min(len(os.sched_getaffinity(0)), _cgroup_cpus()), 1)


def _cgroup_cpus(root: Path = Path("/sys/fs/cgroup"), me: Path = Path("/proc/self/cgroup")) -> int:
    """Return the smallest CPU quota of this process's cgroup (version 2) and those around it, rounded up."""
    smallest = float(_NO_QUOTA)
    try:
        path = next(line[3:] for line in me.read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        path = "/"
    group = root / path.strip("/")
    for folder in (group, *(up for up in group.parents if up.is_relative_to(root))):
        try:
            quota, period = (folder / "cpu.max").read_text().split()
            smallest = min(smallest, int(quota) / int(period))
        except (OSError, ValueError, ZeroDivisionError):  # no such file, or "max"
            continue
    return math.ceil(smallest)
