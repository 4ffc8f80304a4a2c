# SPDX-License-Identifier: Apache-2.0
"""Packages that stoker uses when they are there: imported by name, with a hint when they are missing."""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType


def require(module: str, package: str, purpose: str) -> ModuleType:
    """Return an optional module.

    Args:
        module: what to import, for example ``"torchcodec.decoders"``.
        package: what to pip install.
        purpose: what needs it, for example ``"audio leaves"``.

    Raises:
        ModuleNotFoundError: the module, or one that it imports itself, is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        msg = f"{purpose} need {package} ({error}). Run: pip install {package}"
        raise ModuleNotFoundError(msg, name=error.name) from error


@cache
def find(module: str) -> ModuleType | None:
    """Return an optional module, or None when it is not installed. The answer is kept."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        return None
