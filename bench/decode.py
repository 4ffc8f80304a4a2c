# SPDX-License-Identifier: Apache-2.0
"""Question: what does reading a JPEG leaf cost beside decoding alone?

Data: about 500 photos of 256 to 400 pixels a side (examples/photos.py). ``images_per_cpu_s`` of ``ds[i]`` with the sample
{"image": JPEG, "label": int}; ``ratio_to_decode`` = CPU time of the decoder alone on the same bytes / ours, in the same
process, alternating; ``pillow_ratio`` = CPU time of Pillow to
the same array / ours. How near the decoder is to the bare
libjpeg-turbo loop is measured inside C++: build/cpp/bench/cpp/decode_bench. With ``--peer`` beside litdata (which needs torchvision
for it: ``make torchvision-venv``).
"""

from __future__ import annotations

import argparse
import importlib
import io
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from harness import TORCHVISION_PYTHON, Arm, alternate, cpu_seconds, emit, record, torchvision_ready


def load(path: Path) -> dict[str, Any]:
    """Make a sample."""
    return {"image": Image.open(path), "label": 1}


def arm(lib: str, directory: str, passes: int) -> None:
    """Read every sample ``passes`` times."""
    dataset = importlib.import_module(lib).StreamingDataset(directory)
    count = len(dataset)

    def work() -> int:
        for _ in range(passes):
            for i in range(count):
                dataset[i]
        return passes * count

    work()
    cpu, images = cpu_seconds(work)
    emit(images_per_cpu_s=images / cpu)


def in_process(directory: str, files: list[Path], rounds: int) -> dict[str, float]:
    """Compare ``ds[i]`` with the decoder alone and with Pillow on the same bytes."""
    import stoker
    from stoker import _core

    dataset = stoker.StreamingDataset(directory)
    blobs = [path.read_bytes() for path in files]

    def pillow() -> None:
        for blob in blobs:
            pixels = np.asarray(Image.open(io.BytesIO(blob)).convert("RGB"))
            np.ascontiguousarray(pixels.transpose(2, 0, 1))

    jobs = {
        "ours": lambda: [dataset[i] for i in range(len(dataset))] and None,
        "decode": lambda: [_core.decode_jpeg(blob) for blob in blobs] and None,
        "pillow": pillow,
    }
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds + 1):
        for name, job in jobs.items():
            times[name].append(cpu_seconds(job)[0])
    median = {name: statistics.median(taken[1:]) for name, taken in times.items()}
    return {
        "images_per_cpu_s": len(files) / median["ours"],
        "ratio_to_decode": median["decode"] / median["ours"],
        "pillow_ratio": median["pillow"] / median["ours"],
    }


def main() -> None:
    """Make the data, run the arms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arm", nargs=3, metavar=("LIB", "DIR", "PASSES"))
    parser.add_argument("--peer", action="store_true", help="also run litdata 0.2.76")
    parser.add_argument("--size", choices=("tiny", "full"), default="full")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.arm:
        arm(arguments.arm[0], arguments.arm[1], int(arguments.arm[2]))
        return
    import stoker
    from data import photos

    tiny = arguments.size == "tiny"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = photos(folder / "photos", 20 if tiny else 500)
        directory = str(folder / "dataset")
        stoker.optimize(load, files, directory, chunk_bytes="8MB", num_workers=1, verbose=False)
        figures = in_process(directory, files, 1 if tiny else arguments.rounds)
        if arguments.peer and torchvision_ready():
            arms = [
                Arm("stoker", "decode.py", ("--arm", "stoker", directory, "2")),
                Arm(
                    "litdata",
                    "decode.py",
                    ("--arm", "litdata", directory, "2"),
                    python=TORCHVISION_PYTHON,
                ),
            ]
            measured = alternate(arms, 1 if tiny else arguments.rounds)
            mine, theirs = (measured[n].median("images_per_cpu_s") for n in ("stoker", "litdata"))
            figures["peer_images_per_cpu_s"] = theirs
            figures["peer_ratio"] = mine / theirs
        record("decode.jpeg", figures)


if __name__ == "__main__":
    main()
