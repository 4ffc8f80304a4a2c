# SPDX-License-Identifier: Apache-2.0
"""Run with the interpreter of a litdata venv: read datasets and print their tagged samples.

Input on stdin: a JSON list of {"directory", "block_size", "raw"}; leaves whose format is in "raw" are read as bytes
(decoding JPEG with litdata needs torchvision, which these venvs do not have). Output: a JSON list with, for each dataset,
{"length", "samples", "by_index"} or {"error"}.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import litdata
from litdata.streaming.item_loader import TokensLoader
from litdata.streaming.serializers import BytesSerializer

sys.path.insert(0, str(Path(__file__).parent))
from tagged import tag


def read(directory: str, block_size: int | None, raw: list[str]) -> dict[str, Any]:
    """Return what litdata makes of one dataset, by iteration and by index."""
    loader = None if block_size is None else TokensLoader(block_size=block_size)
    dataset = litdata.StreamingDataset(
        directory, item_loader=loader, serializers={name: BytesSerializer() for name in raw}
    )
    samples = [tag(sample) for sample in dataset]
    return {
        "length": len(dataset),
        "samples": samples,
        "by_index": [tag(dataset[i]) for i in range(len(dataset))],
    }


def main() -> None:
    """Read every dataset asked for."""
    results: list[dict[str, Any]] = []
    for job in json.load(sys.stdin):
        try:
            results.append(read(job["directory"], job["block_size"], job["raw"]))
        except Exception as error:  # noqa: BLE001 - the test shows it
            results.append({"error": f"{type(error).__name__}: {error}"})
    sys.stdout.write("\n" + json.dumps(results))


if __name__ == "__main__":
    main()
