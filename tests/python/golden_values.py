# SPDX-License-Identifier: Apache-2.0
"""Compares what was read with the values of tests/compat/golden/expected.json; the README there describes the encoding."""

from __future__ import annotations

import base64
import json
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from stoker.types import Graph

GOLDEN = Path(__file__).resolve().parents[1] / "compat" / "golden"
PASSWORD = "golden-password"  # the datasets are public
JPEG_TOLERANCE = 2

Expected = dict[str, Any]


@cache
def expectations() -> dict[str, Expected]:
    """Return the content of expected.json."""
    return json.loads((GOLDEN / "expected.json").read_bytes())


def check(expected: Expected, value: Any, where: str = "sample", jpeg: bool = False) -> None:
    """Assert that ``value`` is the expected one: exact Python types, dtypes, shapes and bytes.

    Args:
        expected: the encoded value.
        value: what was read.
        where: the place in the sample, for messages.
        jpeg: the dataset holds JPEG images: uint8 tensors (3, h, w) may differ by `JPEG_TOLERANCE`.
    """
    kind = expected["t"]
    assert kind in _CHECKS, f"{where}: expected.json holds the unknown kind {kind!r}"
    wanted, compare = _CHECKS[kind]
    assert type(value) is wanted or (kind in _BASES and isinstance(value, wanted)), (
        f"{where}: expected {wanted.__name__}, found {type(value).__name__}"
    )
    compare(expected, value, where, jpeg)


def _blob(expected: Expected) -> bytes:
    return base64.b64decode(expected["b64"], validate=True)


def _equal(wanted: Any, found: Any, where: str) -> None:
    assert wanted == found, f"{where}: expected {wanted!r}, found {found!r}"


def _none(expected, value, where, jpeg) -> None:
    assert value is None, where


def _plain(expected, value, where, jpeg) -> None:
    _equal(expected["v"], value, where)


def _float(expected, value, where, jpeg) -> None:
    _equal(expected["v"], value.hex(), where)


def _complex(expected, value, where, jpeg) -> None:
    _equal(expected["v"], [value.real.hex(), value.imag.hex()], where)


def _bytes(expected, value, where, jpeg) -> None:
    _equal(_blob(expected), bytes(value), where)


def _array(expected, value, where, jpeg) -> None:
    _equal(expected["dtype"], value.dtype.str, f"{where}.dtype")
    _equal(expected.get("shape", []), list(value.shape), f"{where}.shape")
    _equal(_blob(expected).hex(), np.ascontiguousarray(value).tobytes().hex(), where)


def _tensor(expected, value, where, jpeg) -> None:
    _equal(expected["dtype"], str(value.dtype).removeprefix("torch."), f"{where}.dtype")
    _equal(expected["shape"], list(value.shape), f"{where}.shape")
    found = value.contiguous().numpy()
    wanted = np.frombuffer(_blob(expected), found.dtype).reshape(found.shape)
    if jpeg and value.dtype is torch.uint8 and value.ndim == 3 and value.shape[0] == 3:
        most = int(np.abs(wanted.astype(int) - found.astype(int)).max())
        assert most <= JPEG_TOLERANCE, f"{where}: pixels differ by up to {most}"
    else:
        _equal(wanted.tobytes().hex(), found.tobytes().hex(), where)


def _image(expected, value, where, jpeg) -> None:
    _equal(expected["mode"], value.mode, f"{where}.mode")
    _equal(expected["size"], list(value.size), f"{where}.size")
    _equal(_blob(expected).hex(), value.tobytes().hex(), where)


def _pairs(pairs: list[Any], items: Iterable[tuple[Any, Any]], where: str, jpeg: bool) -> None:
    found = list(items)
    _equal(len(pairs), len(found), f"len({where})")
    for (wanted_key, wanted), (key, value) in zip(pairs, found, strict=True):
        check(wanted_key, key, f"key of {where}")
        check(wanted, value, f"{where}[{key!r}]", jpeg)


def _dict(expected, value, where, jpeg) -> None:
    _pairs(expected["v"], value.items(), where, jpeg)


def _graph(expected, value, where, jpeg) -> None:
    _pairs(expected["v"], value.to_mapping().items(), where, jpeg)


def _sequence(expected, value, where, jpeg) -> None:
    _equal(expected.get("maxlen"), getattr(value, "maxlen", None), f"{where}.maxlen")
    _equal(len(expected["v"]), len(value), f"len({where})")
    for i, (wanted, found) in enumerate(zip(expected["v"], value, strict=True)):
        check(wanted, found, f"{where}[{i}]", jpeg)


def _set(expected, value, where, jpeg) -> None:
    _sequence(expected, sorted(value), where, jpeg)


def _nifti(expected, value, where, jpeg) -> None:
    _equal("Nifti1Image", type(value).__name__, f"type({where})")
    check(expected["data"], np.asarray(value.dataobj), f"{where}.dataobj")
    check(expected["affine"], np.asarray(value.affine), f"{where}.affine")


def _mesh(expected, value, where, jpeg) -> None:
    mesh = next(iter(value.geometry.values())) if hasattr(value, "geometry") else value
    _equal(expected["n_vertices"], len(mesh.vertices), f"{where}.vertices")
    _equal(expected["n_faces"], len(mesh.faces), f"{where}.faces")


def _pdf(expected, value, where, jpeg) -> None:
    _equal(expected["n_pages"], len(value.pages), f"{where}.pages")


_BASES = {"npscalar", "pil", "nifti", "mesh", "pdf"}  # any subclass will do
_CHECKS: dict[str, tuple[type, Callable[[Expected, Any, str, bool], None]]] = {
    "none": (type(None), _none),
    "int": (int, _plain),
    "bool": (bool, _plain),
    "str": (str, _plain),
    "float": (float, _float),
    "complex": (complex, _complex),
    "bytes": (bytes, _bytes),
    "bytearray": (bytearray, _bytes),
    "npscalar": (np.generic, _array),
    "ndarray": (np.ndarray, _array),
    "tensor": (torch.Tensor, _tensor),
    "pil": (Image.Image, _image),
    "dict": (dict, _dict),
    "odict": (OrderedDict, _dict),
    "list": (list, _sequence),
    "tuple": (tuple, _sequence),
    "deque": (deque, _sequence),
    "set": (set, _set),
    "graph": (Graph, _graph),
    "nifti": (object, _nifti),
    "mesh": (object, _mesh),
    "pdf": (object, _pdf),
}
