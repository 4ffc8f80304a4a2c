# SPDX-License-Identifier: Apache-2.0
"""Question: what does a batch of images cost beside decoding them?

The limit is the shortest libjpeg-turbo program (one decompressor, one buffer, packed RGB) on the same files, in a process
of its own in the same rounds. ``stream.uint8``: 256 x 256, quality 95, into uint8 batches with channels last.
``stream.rrc``: 500 x 375, quality 90, RandomResizedCrop(224), flip, normalise, float32; the limit decodes the files in full.
``ratio`` = images per CPU second / the limit's: both count every thread of the process, so it says what the loader adds.
``wall_2_threads`` = wall time of one thread / of two (idle machine only). With ``--peer`` beside torchvision.transforms.v2
on decode_jpeg, Pillow, and litdata (``make torchvision-venv``); all single-threaded, no worker processes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from harness import (
    LIMITS,
    TORCHVISION_PYTHON,
    Arm,
    alternate,
    cpu_seconds,
    emit,
    record,
    torchvision_ready,
)

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
BATCH = 64
KINDS = {"uint8": (256, 256, 95), "rrc": (500, 375, 90)}


def load(path: Path) -> dict[str, Any]:
    """Make a sample."""
    return {"image": Image.open(path), "label": 1}


def stoker_epochs(kind: str, directory: str, threads: int) -> Callable[[], int]:
    """Return a function that streams one epoch and says how many images came."""
    import stoker
    from stoker import vision

    steps: list[Any] = []
    if kind == "rrc":
        steps = [
            vision.RandomResizedCrop(224),
            vision.RandomHorizontalFlip(),
            vision.ToDtype("float32", scale=True),
            vision.Normalize(MEAN, STD),
        ]
    transform = {"image": vision.Compose(steps, channels_last=kind == "uint8")}
    dataset = stoker.StreamingDataset(directory, shuffle=True, transform=transform)
    loader = stoker.StreamingDataLoader(
        dataset, batch_size=BATCH, num_workers=threads, backend="native"
    )
    return lambda: sum(len(batch["label"]) for batch in loader)


def pillow_epochs(files: list[Path]) -> Callable[[], int]:
    """Return the same with Pillow and numpy, as a careful user writes it."""
    blobs = [path.read_bytes() for path in files]
    mean, std = np.float32(MEAN), np.float32(STD)
    generator = np.random.default_rng(0)

    def epoch() -> int:
        import io

        rows = []
        for blob in blobs:
            with Image.open(io.BytesIO(blob)) as image:
                box = random_box(generator, *image.size)
                small = image.convert("RGB").resize((224, 224), Image.Resampling.BILINEAR, box=box)
            if generator.random() < 0.5:
                small = small.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            pixels = (np.asarray(small, np.float32) / 255 - mean) / std
            rows.append(torch.from_numpy(pixels.transpose(2, 0, 1)))
            if len(rows) == BATCH:
                torch.stack(rows)
                rows = []
        return len(blobs)

    return epoch


def random_box(
    generator: np.random.Generator, width: int, height: int
) -> tuple[int, int, int, int]:
    """Return the box of a RandomResizedCrop."""
    for _ in range(10):
        area = width * height * generator.uniform(0.08, 1.0)
        ratio = np.exp(generator.uniform(np.log(3 / 4), np.log(4 / 3)))
        w, h = round(np.sqrt(area * ratio)), round(np.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = generator.integers(width - w + 1), generator.integers(height - h + 1)
            return int(left), int(top), int(left) + w, int(top) + h
    return 0, 0, width, height


def torchvision_epochs(files: list[Path]) -> Callable[[], int]:
    """Return the same with torchvision's decoder and transforms."""
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms import v2

    blobs = [torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8) for path in files]
    transform = v2.Compose(
        [
            v2.RandomResizedCrop(224, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )

    def epoch() -> int:
        rows = []
        for blob in blobs:
            rows.append(transform(decode_jpeg(blob, mode=ImageReadMode.RGB)))
            if len(rows) == BATCH:
                torch.stack(rows)
                rows = []
        return len(blobs)

    return epoch


def arm(name: str, kind: str, place: str, passes: int) -> None:
    """Measure one library."""
    torch.set_num_threads(1)
    if name.startswith("stoker"):
        epoch = stoker_epochs(kind, f"{place}/dataset", int(name.removeprefix("stoker")))
    else:
        files = sorted(Path(place, "photos").glob("*.jpg"))
        epoch = pillow_epochs(files) if name == "pillow" else torchvision_epochs(files)
    epoch()
    best_cpu, best_wall = 1e9, 1e9
    images = 0
    for _ in range(passes):
        start = time.perf_counter()
        cpu, images = cpu_seconds(epoch)
        best_cpu, best_wall = min(best_cpu, cpu), min(best_wall, time.perf_counter() - start)
    emit(images_per_cpu_s=images / best_cpu, wall_s=best_wall)


def measure(kind: str, count: int, rounds: int, passes: int, *, peer: bool) -> None:
    """Make the data, run the arms, record."""
    import stoker
    from data import sized_photos

    width, height, quality = KINDS[kind]
    with tempfile.TemporaryDirectory() as place:
        files = sized_photos(Path(place, "photos"), count, width, height, quality)
        stoker.optimize(
            load, files, f"{place}/dataset", chunk_bytes="8MB", num_workers=1, verbose=False
        )

        def ours(name: str, python: Path | None = None) -> Arm:
            arguments = ("--arm", name, kind, place, str(passes))
            return Arm(name, "stream.py", arguments, python=python)

        arms = [
            Arm("limit", "", ("jpeg", f"{place}/photos", str(passes)), program=LIMITS),
            ours("stoker1"),
            ours("stoker2"),
        ]
        if peer and kind == "rrc":
            arms += [ours("pillow")]
            arms += [ours("torchvision", TORCHVISION_PYTHON)] if torchvision_ready() else []
        measured = alternate(arms, rounds)
    key = "images_per_cpu_s"
    mine, limit = measured["stoker1"].median(key), measured["limit"].median(key)
    figures = {
        key: mine,
        "ratio": mine / limit,
        "wall_2_threads": measured["stoker1"].median("wall_s")
        / measured["stoker2"].median("wall_s"),
    }
    for name in ("pillow", "torchvision"):
        if name in measured:
            figures[f"{name}_ratio"] = mine / measured[name].median(key)
    record(f"stream.{kind}", figures)


def main() -> None:
    """Run both kinds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arm", nargs=4, metavar=("NAME", "KIND", "PLACE", "PASSES"))
    parser.add_argument("--peer", action="store_true", help="also run Pillow and torchvision")
    parser.add_argument("--size", choices=("tiny", "full"), default="full")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.arm:
        name, kind, place, passes = arguments.arm
        arm(name, kind, place, int(passes))
        return
    tiny = arguments.size == "tiny"
    for kind in KINDS:
        measure(
            kind,
            64 if tiny else 1024,
            1 if tiny else arguments.rounds,
            1 if tiny else 3,
            peer=arguments.peer,
        )


if __name__ == "__main__":
    main()
