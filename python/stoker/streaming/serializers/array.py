# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays and torch tensors.

1-D arrays are stored as raw elements with the dtype in the format string, all others with a small header. Byte
layouts and dtype indices: cpp/format/FORMAT.md, section "Leaves". Arrays read back are writable copies.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar

import numpy as np
import torch

from stoker.exceptions import CorruptDataError
from stoker.streaming.serializers.base import Serializer

ElementType = tuple["np.dtype[Any]", "torch.dtype | None"]

NUMPY_DTYPES: list[np.dtype[Any]] = [
    np.dtype(name)
    for name in (
        [
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "float16",
            "float32",
            "float64",
            "complex64",
            "complex128",
            "bool",
        ]
    )
]
# Index -> dtype. Pairs exist for historical reasons: both are read, the higher one is written.
TORCH_DTYPES: dict[int, torch.dtype] = {
    0: torch.float32,
    1: torch.float32,
    2: torch.float64,
    3: torch.float64,
    4: torch.complex64,
    5: torch.complex64,
    6: torch.complex128,
    7: torch.complex128,
    8: torch.float16,
    9: torch.float16,
    10: torch.bfloat16,
    11: torch.uint8,
    12: torch.int8,
    13: torch.int16,
    14: torch.int16,
    15: torch.int32,
    16: torch.int32,
    17: torch.int64,
    18: torch.int64,
    19: torch.bool,
    20: torch.uint16,
}
_NUMPY_INDEX = {dtype: index for index, dtype in enumerate(NUMPY_DTYPES)}
_TORCH_INDEX = {dtype: index for index, dtype in TORCH_DTYPES.items()}
_MOST_AXES = 32  # arrays of more are pickled
_SMALL = 1 << 16  # below this a plain copy is cheaper than a view


def numpy_element_types() -> list[ElementType]:
    """Return the element type of every NumPy dtype index, as stoker._core takes them."""
    return [(dtype, None) for dtype in NUMPY_DTYPES]


def torch_element_types() -> list[ElementType]:
    """Return the element type of every torch dtype index; bfloat16 travels as uint16 and is viewed."""
    return [_torch_element_type(dtype) for dtype in TORCH_DTYPES.values()]


def _torch_element_type(dtype: torch.dtype) -> ElementType:
    if dtype is torch.bfloat16:
        return np.dtype("uint16"), dtype
    return torch.empty(0, dtype=dtype).numpy().dtype, None


def flat_dtype_index(data_format: str, known: int) -> int:
    """Return the dtype index of ``no_header_numpy:<i>`` or ``no_header_tensor:<i>``.

    Raises:
        CorruptDataError: no number after the colon, or one that is not below ``known``.
    """
    text = data_format.partition(":")[2]
    if not text.isdigit() or int(text) >= known:
        msg = f"The leaf format {data_format!r} names no known dtype: expected a number from 0 to {known - 1} after the colon."
        raise CorruptDataError(msg)
    return int(text)


def _buffer(array: np.ndarray[Any, Any]) -> Any:
    """Return the elements in C order as a bytes-like object, without a copy when that pays."""
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    return array.tobytes() if array.nbytes < _SMALL else memoryview(array).cast("B")  # type: ignore[arg-type] # numpy declares no Buffer


def _is_plain_array(item: Any) -> bool:
    return (
        type(item) in (np.ndarray, np.memmap)
        and item.ndim <= _MOST_AXES
        and item.dtype.newbyteorder("=") in _NUMPY_INDEX
    )


def _is_plain_tensor(item: Any) -> bool:
    return (
        type(item) in (torch.Tensor, torch.nn.Parameter)
        and item.layout is torch.strided
        and item.ndim <= _MOST_AXES
        and item.dtype in _TORCH_INDEX
        and not item.is_meta
    )


def _tensor_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return (plain.view(torch.uint16) if plain.dtype is torch.bfloat16 else plain).numpy()


class NoHeaderNumpySerializer(Serializer):
    """1-D ``numpy.ndarray`` -> raw elements; format ``no_header_numpy:<dtype index>``."""

    native: ClassVar[str] = "flat_numpy"

    def __init__(self) -> None:
        """Start without a dtype; `setup` sets it."""
        self._dtype = np.dtype("uint8")

    def setup(self, data_format: str) -> None:
        """Take the dtype from the format string."""
        self._dtype = NUMPY_DTYPES[flat_dtype_index(data_format, len(NUMPY_DTYPES))]

    def element_type(self) -> ElementType:
        """Return the element type for stoker._core."""
        return self._dtype, None

    def serialize(self, item: np.ndarray[Any, Any]) -> tuple[bytes, str | None]:
        """Return the elements and the format string with the dtype."""
        return _buffer(item), f"no_header_numpy:{_NUMPY_INDEX[item.dtype.newbyteorder('=')]}"

    def deserialize(self, data: bytes) -> np.ndarray[Any, Any]:
        """Return a 1-D array."""
        return np.frombuffer(data, self._dtype).copy()

    def can_serialize(self, item: Any) -> bool:
        """Take 1-D arrays of a plain dtype, any byte order."""
        return _is_plain_array(item) and item.ndim == 1


class NumpySerializer(Serializer):
    """``numpy.ndarray`` of two or more dimensions, with dtype and shape in a header."""

    native: ClassVar[str] = "numpy"

    def serialize(self, item: np.ndarray[Any, Any]) -> tuple[bytes, str | None]:
        """Return header and elements. Shape and dtype may differ from sample to sample."""
        index = _NUMPY_INDEX[item.dtype.newbyteorder("=")]
        header = struct.pack(f"<{2 + item.ndim}I", index, item.ndim, *item.shape)
        return b"".join((header, _buffer(item))), None

    def deserialize(self, data: bytes) -> np.ndarray[Any, Any]:
        """Return the array."""
        index, rank = struct.unpack_from("<2I", data)
        shape = struct.unpack_from(f"<{rank}I", data, 8)
        return np.frombuffer(data, NUMPY_DTYPES[index], offset=8 + 4 * rank).reshape(shape).copy()

    def can_serialize(self, item: Any) -> bool:
        """Take arrays with two or more dimensions of a plain dtype, any byte order."""
        return _is_plain_array(item) and item.ndim >= 2  # noqa: PLR2004 - 0-d arrays are pickled


class NoHeaderTensorSerializer(Serializer):
    """1-D ``torch.Tensor`` -> raw elements; format ``no_header_tensor:<dtype index>``."""

    native: ClassVar[str] = "flat_tensor"

    def __init__(self) -> None:
        """Start without a dtype; `setup` sets it."""
        self._dtype = torch.uint8

    def setup(self, data_format: str) -> None:
        """Take the dtype from the format string."""
        self._dtype = TORCH_DTYPES[flat_dtype_index(data_format, len(TORCH_DTYPES))]

    def element_type(self) -> ElementType:
        """Return the element type for stoker._core."""
        return _torch_element_type(self._dtype)

    def serialize(self, item: torch.Tensor) -> tuple[bytes, str | None]:
        """Return the elements and the format string with the dtype."""
        return _buffer(_tensor_array(item)), f"no_header_tensor:{_TORCH_INDEX[item.dtype]}"

    def deserialize(self, data: bytes) -> torch.Tensor:
        """Return a 1-D tensor."""
        return (
            torch.frombuffer(bytearray(data), dtype=self._dtype)
            if data
            else torch.empty(0, dtype=self._dtype)
        )

    def can_serialize(self, item: Any) -> bool:
        """Take dense 1-D tensors of a plain dtype, on any device."""
        return _is_plain_tensor(item) and item.ndim == 1


class TensorSerializer(Serializer):
    """``torch.Tensor`` of any other rank (0-d included), with dtype and shape in a header."""

    native: ClassVar[str] = "tensor"

    def serialize(self, item: torch.Tensor) -> tuple[bytes, str | None]:
        """Return header (big-endian) and elements. Shape and dtype may differ from sample to sample."""
        header = struct.pack(f">{2 + item.ndim}I", _TORCH_INDEX[item.dtype], item.ndim, *item.shape)
        return b"".join((header, _buffer(_tensor_array(item)))), None

    def deserialize(self, data: bytes) -> torch.Tensor:
        """Return the tensor."""
        index, rank = struct.unpack_from(">2I", data)
        shape = struct.unpack_from(f">{rank}I", data, 8)
        dtype, body = TORCH_DTYPES[index], bytearray(data[8 + 4 * rank :])
        return (
            torch.frombuffer(body, dtype=dtype) if body else torch.empty(0, dtype=dtype)
        ).reshape(shape)

    def can_serialize(self, item: Any) -> bool:
        """Take dense tensors of a plain dtype that are not 1-D, on any device."""
        return _is_plain_tensor(item) and item.ndim != 1
