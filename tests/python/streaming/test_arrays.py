# SPDX-License-Identifier: Apache-2.0
"""Array leaves: exact round trips through a real dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis.extra import numpy as hnp

from stoker import StreamingDataset
from stoker.exceptions import SampleStructureError
from stoker.streaming import BinaryWriter
from stoker.streaming.serializers.array import NUMPY_DTYPES, TORCH_DTYPES


def round_trip(folder: Path, samples: list[Any]) -> tuple[list[Any], list[str]]:
    """Write the samples to a new dataset and read them back."""
    directory = folder / f"d{len(list(folder.iterdir()))}"
    writer = BinaryWriter(directory, chunk_size=2, rank=0, sync=False)
    for sample in samples:
        writer.append(sample)
    writer.done()
    writer.merge()
    dataset = StreamingDataset(directory)
    return list(dataset), dataset.index.data_format


@pytest.mark.parametrize("dtype", NUMPY_DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(0,), (5,), (2, 3), (0, 4), (1, 2, 0), (2, 1, 3, 2)], ids=str)
def test_numpy_dtypes_and_shapes(
    tmp_path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> None:
    array = (np.arange(np.prod(shape)) % 3).reshape(shape).astype(dtype)
    (got,), formats = round_trip(tmp_path, [array])
    assert type(got) is np.ndarray
    assert got.dtype == dtype
    assert got.shape == shape
    assert got.tobytes() == array.tobytes()
    assert got.flags.writeable
    assert formats == [
        f"no_header_numpy:{NUMPY_DTYPES.index(dtype)}" if len(shape) == 1 else "numpy"
    ]


@pytest.mark.parametrize("dtype", sorted(set(TORCH_DTYPES.values()), key=str), ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (0, 4)], ids=str)
def test_torch_dtypes_and_shapes(
    tmp_path: Path, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    tensor = torch.ones(shape, dtype=dtype)
    (got,), _ = round_trip(tmp_path, [tensor])
    assert type(got) is torch.Tensor
    assert got.dtype == dtype
    assert got.shape == tensor.shape
    assert torch.equal(got, tensor)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    array=hnp.arrays(
        hnp.scalar_dtypes().filter(lambda d: d.newbyteorder("=") in NUMPY_DTYPES),
        hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5),
    )
)
def test_any_array_comes_back(tmp_path: Path, array: np.ndarray[Any, Any]) -> None:
    (got,), _ = round_trip(tmp_path, [array])
    assert got.shape == array.shape
    assert got.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(got, array)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1),
        np.arange(20)[::3],
        np.asfortranarray(np.ones((3, 4))),
        np.arange(5, dtype=">i4"),
    ],
)
def test_strides_and_byte_order_do_not_matter(tmp_path: Path, array: np.ndarray[Any, Any]) -> None:
    (got,), _ = round_trip(tmp_path, [array])
    np.testing.assert_array_equal(got, array)


@pytest.mark.parametrize(
    "leaf",
    [
        np.array(3.5),
        np.array(["a", "bcd"]),
        np.array([object, None], dtype=object),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]),
        np.int32(7),
    ],
    ids=lambda leaf: type(leaf).__name__,
)
def test_what_has_no_plain_layout_is_pickled_whole(tmp_path: Path, leaf: Any) -> None:
    (got,), formats = round_trip(tmp_path, [leaf])
    assert formats == ["pickle"]
    assert type(got) is type(leaf)
    assert got.dtype == leaf.dtype
    assert str(got) == str(leaf)


def test_what_would_be_lost_is_refused_at_once(tmp_path: Path) -> None:
    """torch pickles uint32 tensors but cannot read them back."""
    with pytest.raises(ValueError, match=r"torch\.uint32"):
        round_trip(tmp_path, [{"a": torch.tensor([1, 2], dtype=torch.uint32)}])


def test_tensor_views_gradients_and_parameters(tmp_path: Path) -> None:
    base = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    tensors = [base.T, base[:, 1], torch.nn.Parameter(base), (base + 1j * base).conj(), base[::2]]
    for tensor in tensors:
        (got,), _ = round_trip(tmp_path, [tensor])
        assert torch.equal(got, tensor.detach().resolve_conj())
        assert not got.requires_grad


def test_lengths_and_shapes_may_vary_but_not_rank_kind_or_dtype(tmp_path: Path) -> None:
    rows = [np.arange(n, dtype=np.int16) for n in (0, 3, 700)]
    got, _ = round_trip(tmp_path, rows)
    assert [g.tolist() for g in got] == [r.tolist() for r in rows]
    got, _ = round_trip(tmp_path, [np.ones((2, 3)), np.ones((3, 2, 1), np.int8)])
    assert [(g.shape, str(g.dtype)) for g in got] == [((2, 3), "float64"), ((3, 2, 1), "int8")]
    for second in (np.arange(3, dtype=np.int32), np.ones((1, 1), np.int16), torch.ones(3), 3):
        with pytest.raises(SampleStructureError, match="Sample 1"):
            round_trip(tmp_path, [rows[1], second])


def test_arrays_outlive_the_dataset(tmp_path: Path) -> None:
    writer = BinaryWriter(tmp_path / "d", chunk_size=2, rank=0)
    for i in range(4):
        writer.append({"a": np.full(1000, i), "t": torch.full((1000,), i)})
    writer.done()
    writer.merge()
    dataset = StreamingDataset(tmp_path / "d")
    samples = [dataset[i] for i in range(4)]
    dataset.close()
    del dataset
    for chunk in (tmp_path / "d").glob("*.bin"):
        chunk.unlink()
    assert all((s["a"] == i).all() and (s["t"] == i).all() for i, s in enumerate(samples))
    samples[0]["a"][0] = 5
    samples[0]["t"][0] = 5
