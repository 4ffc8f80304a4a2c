# SPDX-License-Identifier: Apache-2.0
"""Every setting that comes from environment variables: name, type, default, meaning.

The only module besides `stoker.environment` that reads ``os.environ``. Arguments given in code always win.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from stoker.exceptions import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class Settings:
    """Values read from the environment.

    Attributes:
        num_workers: DATA_OPTIMIZER_NUM_WORKERS, processes of `optimize`; default None = one per usable CPU core.
        window: STOKER_SHUFFLE_WINDOW, chunks whose samples are mixed when shuffling; default 16. Part of the order:
            it is stored in checkpoints.
    """

    num_workers: int | None = None
    window: int = 16

    @classmethod
    def from_env(cls) -> Settings:
        """Read the settings now."""
        return cls(
            num_workers=_int("DATA_OPTIMIZER_NUM_WORKERS", None),
            window=_int("STOKER_SHUFFLE_WINDOW", 16) or 16,
        )


def _int(name: str, default: int | None) -> int | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if not text.isdigit() or int(text) == 0:
        msg = f"The environment variable {name}={text!r} must be a positive integer."
        raise InvalidArgumentError(msg)
    return int(text)


def usable_cpus() -> int:
    """Return how many CPU cores this process may run on (affinity mask), at least 1."""
    return len(os.sched_getaffinity(0)) or 1
