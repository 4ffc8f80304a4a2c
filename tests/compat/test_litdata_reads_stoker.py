# SPDX-License-Identifier: Apache-2.0
"""Real litdata, two versions, each in its own venv, reads what `stoker.optimize` wrote, value for value.

The datasets carry the additional index keys (file_bytes, xxh3_64): that litdata reads them proves that it ignores them.
"""

from __future__ import annotations

import io
import json
import subprocess
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tagged import tag

import stoker
from stoker import StreamingDataset, TokensLoader
from stoker.streaming.serializers import BytesSerializer

HERE = Path(__file__).parent
VERSIONS = ("0.2.71", "0.2.76")


@dataclass(frozen=True)
class Case:
    """One dataset: samples and how they are written."""

    samples: list[Any]
    options: dict[str, Any] = field(default_factory=dict)
    block_size: int | None = None
    raw: tuple[str, ...] = ()  # leaf formats compared as stored bytes

    def read(self, directory: Path) -> list[Any]:
        """Return the samples as stoker reads them."""
        loader = None if self.block_size is None else TokensLoader(block_size=self.block_size)
        serializers = {name: BytesSerializer() for name in self.raw}
        return list(StreamingDataset(directory, item_loader=loader, serializers=serializers))


def jpeg(i: int, mode: str = "RGB", **save: Any) -> Image.Image:
    """Return an opened JPEG with smooth content, so that decoders agree closely."""
    y, x = np.mgrid[0:24, 0:32]
    pixels = np.stack([x * 7 + i, y * 9, (x + y) * 4], -1).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, "JPEG", quality=95, **save)
    return Image.open(io.BytesIO(file.getvalue()))


NUMPY = [
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
TORCH = [torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float16, torch.uint8, torch.int8,
         torch.int16, torch.int32, torch.int64, torch.bool, torch.uint16]  # fmt: skip

CASES: dict[str, Case] = {
    "scalars_dict": Case(
        [
            {"i": i - 3, "x": i / 7, "b": i % 2 == 0, "s": "é" * i, "y": bytes(range(i))}
            for i in range(9)
        ]
    ),
    "scalars_tuple": Case([(i, i / 3, bool(i), str(i), b"x" * i) for i in range(9)]),
    "single_int": Case([2**63 - 1, -(2**63), 0]),
    "single_str": Case(["", "a", "\x00\U0001f600"]),
    "single_float": Case([0.1, float("inf"), -0.0]),
    "single_bytes": Case([b"", b"\x00\xff"]),
    "numpy_1d": Case([tuple(np.arange(n).astype(d) for d in NUMPY) for n in (3, 1, 5)]),
    "numpy_nd": Case(
        [tuple(np.arange(2 * n).reshape(2, n).astype(d) for d in NUMPY) for n in (3, 1, 5)]
    ),
    "numpy_shapes": Case(
        [
            {
                "e": np.empty((0, 3)),
                "f": np.asfortranarray(np.arange(6).reshape(2, 3)),
                "r4": np.ones((1, 2, 3, 4)),
                "z": np.array(4.5),
            }
        ]
        * 2
    ),
    "torch_1d": Case([tuple(torch.arange(n).to(d) for d in TORCH) for n in (3, 1, 5)]),
    "torch_nd": Case(
        [(*(torch.ones(2, n, dtype=d) for d in TORCH), torch.tensor(2.5)) for n in (3, 1, 5)]
    ),
    "nested_dict": Case(
        [{"d": {"l": [np.ones(2), np.ones((1, 2))], "t": (i, i + 1)}, "s": "x"} for i in range(5)]
    ),
    "nested_tuple": Case(
        [(i, [i, (1.5, "s")], {"a": {"b": np.ones((2, 2))}}, []) for i in range(5)]
    ),
    "nested_odict_deque": Case(
        [(OrderedDict(b=1, a=i), deque([1, 2], maxlen=5), deque([i])) for i in range(5)]
    ),
    "int_keys": Case([{1: "a", 2: {3: i}} for i in range(3)]),
    "empty_containers": Case([{"a": {}, "b": [], "c": (), "i": i} for i in range(3)]),
    "pickle": Case(
        [(None, 1 + 2j, {1, 2}, bytearray(b"x"), np.int32(5), np.float32(1.5)) for _ in range(3)]
    ),
    "pil": Case(
        [tuple(Image.new(m, (5, 3), 1) for m in ("RGB", "L", "RGBA", "1")) for _ in range(3)]
    ),
    "jpeg": Case([{"image": jpeg(i), "label": i} for i in range(4)], raw=("jpeg",)),
    "jpeg_array": Case(
        [{"images": [jpeg(i), jpeg(i + 1)], "label": i} for i in range(3)], raw=("jpeg_array",)
    ),
    "chunk_bytes": Case([(i, "x" * (10 + i)) for i in range(30)], {"chunk_bytes": 300}),
    "two_workers": Case([{"i": i} for i in range(37)], {"num_workers": 2, "chunk_size": 5}),
    "zstd": Case(
        [{"a": np.zeros((20, 20)) + i, "i": i} for i in range(20)], {"compression": "zstd"}
    ),
    "zstd_tuple": Case([(i, i) for i in range(9)], {"compression": "zstd"}),
    "zstd_list": Case([[i, "s"] for i in range(9)], {"compression": "zstd"}),
    "zstd_array": Case([np.full((2, 3), i) for i in range(9)], {"compression": "zstd"}),
    "mixed_keys": Case([{"a": 1, 3: "x", None: i} for i in range(3)]),
    "zstd_level": Case(
        [{"a": np.zeros((20, 20)) + i, "i": i} for i in range(20)], {"compression": "zstd:7"}
    ),
    "tokens_torch": Case(
        [torch.arange(n) for n in (9, 30, 2, 17)],
        {"chunk_size": 40, "item_loader": TokensLoader()},
        8,
    ),
    "tokens_numpy": Case(
        [np.arange(n, dtype=np.uint16) for n in (9, 30, 2, 17)],
        {"chunk_size": 40, "item_loader": TokensLoader()},
        5,
    ),
    "tokens_zstd": Case(
        [torch.arange(n, dtype=torch.int32) for n in (9, 30)],
        {"chunk_size": 40, "item_loader": TokensLoader(), "compression": "zstd"},
        4,
    ),
}


def write(directory: Path, case: Case) -> None:
    options = {"num_workers": 1, **case.options}
    if "chunk_bytes" not in options:
        options.setdefault("chunk_size", 4)
    stoker.optimize(
        case.samples.__getitem__,
        range(len(case.samples)),
        directory,
        start_method="fork",
        verbose=False,
        **options,
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All cases as datasets. litdata rewrites compressed datasets when it reads them, so each version gets a copy."""
    root = tmp_path_factory.mktemp("written")
    for name, case in CASES.items():
        for version in ("mine", *VERSIONS):
            write(root / version / name, case)
    return root


@pytest.fixture(scope="module", params=VERSIONS)
def litdata(request: pytest.FixtureRequest, written: Path) -> dict[str, Any]:
    """What one litdata version makes of every case."""
    python = HERE / f".venv-{request.param}" / "bin" / "python"
    assert python.exists(), f"litdata's venv is missing; run `make compat-venvs` ({python})"
    jobs = [
        {
            "directory": str(written / request.param / name),
            "block_size": case.block_size,
            "raw": case.raw,
        }
        for name, case in CASES.items()
    ]
    done = subprocess.run(
        [str(python), str(HERE / "read_with_litdata.py")],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(CASES, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_litdata_reads_the_same_values(name: str, litdata: dict[str, Any], written: Path) -> None:
    case, theirs = CASES[name], litdata[name]
    assert "error" not in theirs, theirs
    mine = case.read(written / "mine" / name)
    if case.block_size is None and not case.raw:
        expected = [tag(sample) for sample in case.samples]
        assert [tag(sample) for sample in mine] == expected, "stoker's own round trip"
    assert theirs["length"] == len(mine)
    expected = [tag(sample) for sample in mine]
    assert theirs["samples"] == expected
    assert theirs["by_index"] == expected


@pytest.mark.parametrize("name", ["scalars_dict", "two_workers", "zstd"])
def test_the_datasets_carry_checksums(name: str, written: Path) -> None:
    chunks = json.loads((written / "mine" / name / "index.json").read_text())["chunks"]
    assert all(len(chunk["xxh3_64"]) == 16 and chunk["file_bytes"] > 0 for chunk in chunks)
