# SPDX-License-Identifier: Apache-2.0
"""Values as JSON that two interpreters can compare: type, dtype, shape and exact bytes.

Imported by the tests and, in litdata's own venv, by read_with_litdata.py: it may use neither stoker nor litdata.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from typing import Any

import numpy as np
import torch
from PIL import Image


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def tag(value: Any) -> Any:
    """Return a JSON value that is equal for equal values of equal type, and differs otherwise."""
    if value is None or isinstance(value, bool):
        return [type(value).__name__, value]
    if isinstance(value, np.generic):
        return ["numpy scalar", value.dtype.str, value.tobytes().hex()]
    if isinstance(value, int):
        return ["int", str(value)]
    if isinstance(value, float):
        return ["float", value.hex()]
    if isinstance(value, str):
        return ["str", value]
    if isinstance(
        value, (bytes, memoryview)
    ):  # litdata 0.2.71 and later return memoryview for bytes leaves
        return ["bytes", bytes(value).hex()]
    if isinstance(value, np.ndarray):
        return [
            "ndarray",
            value.dtype.str,
            list(value.shape),
            _digest(np.ascontiguousarray(value).tobytes()),
        ]
    if isinstance(value, torch.Tensor):
        plain = value.contiguous()
        plain = plain.view(torch.uint16) if plain.dtype is torch.bfloat16 else plain
        return ["tensor", str(value.dtype), list(value.shape), _digest(plain.numpy().tobytes())]
    if isinstance(value, Image.Image):
        return ["image", value.mode, list(value.size), _digest(value.tobytes())]
    if isinstance(value, (dict, OrderedDict)):
        return [type(value).__name__, [[tag(k), tag(v)] for k, v in value.items()]]
    if isinstance(value, (list, tuple, deque)):
        return [type(value).__name__, getattr(value, "maxlen", None), [tag(v) for v in value]]
    if isinstance(value, (set, frozenset)):
        return ["set", sorted(repr(v) for v in value)]
    return [type(value).__name__, repr(value)]
