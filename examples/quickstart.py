# SPDX-License-Identifier: Apache-2.0
"""The main job, end to end: photos -> optimize -> two shuffled epochs -> stop, resume in a new process -> speed.

Run it with ``make demo``, or ``python examples/quickstart.py --data FOLDER_OF_JPEGS``.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import stoker
from photos import cut_photos
from stoker import vision

BATCH = 64
SIDE = 224
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def load(numbered: tuple[int, Path]) -> dict[str, Any]:
    """Make a sample: the JPEG bytes are stored as they are."""
    number, path = numbered
    return {"id": number, "image": Image.open(path), "name": path.stem}


AUGMENT = [
    vision.RandomResizedCrop(SIDE),
    vision.RandomHorizontalFlip(),
    vision.ToDtype(torch.float32, scale=True),
    vision.Normalize(mean=MEAN, std=STD),
]


def make_loader(
    directory: str, num_workers: int | None = None, backend: Any = "auto"
) -> stoker.StreamingDataLoader:
    """Return shuffled training batches of the optimized photos."""
    dataset = stoker.StreamingDataset(
        directory, shuffle=True, transform={"image": vision.Compose(AUGMENT)}
    )
    return stoker.StreamingDataLoader(
        dataset, batch_size=BATCH, num_workers=num_workers, backend=backend
    )


def take_ids(loader: stoker.StreamingDataLoader, batches: int | None = None) -> list[int]:
    """Return the ids of an epoch's samples, or of its first batches."""
    ids: list[int] = []
    for number, batch in enumerate(loader, 1):
        ids += batch["id"].tolist()
        if number == batches:
            break
    return ids


def resume(directory: str, state_file: str) -> None:
    """Finish the epoch in this (new) process, with another number of workers, and print the ids."""
    loader = make_loader(directory, num_workers=1)
    loader.load_state_dict(json.loads(Path(state_file).read_text()))
    sys.stdout.write(json.dumps(take_ids(loader)))


def prove_resume(directory: str, work: Path, total: int) -> None:
    """Stop in the middle of an epoch, go on in a new process, and compare the ids."""
    loader = make_loader(directory)
    before = take_ids(loader, batches=max(total // BATCH // 3, 1))
    state_file = work / "state.json"
    state_file.write_text(json.dumps(loader.state_dict()))
    command = [sys.executable, __file__, "--resume", directory, str(state_file)]
    after = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    if sorted(before + after) != list(range(total)):
        sys.exit(
            f"FAILED: {len(before)} + {len(after)} samples are not the {total} of the dataset, each once"
        )
    say(
        f"4. Stopped after {len(before)} samples, resumed in a new process: {len(after)} more, none lost, none repeated."
    )


def say(text: str) -> None:
    """Print one step."""
    print(text, flush=True)


def pillow_loop(files: list[Path]) -> int:
    """Do the same to every file with Pillow and NumPy, one after another."""
    mean, std = np.float32(MEAN), np.float32(STD)
    for path in files:
        with Image.open(path) as image:
            box = random_box(*image.size)
            small = image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=box)
        if random.random() < 0.5:
            small = small.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = (np.asarray(small, np.float32) / 255 - mean) / std
        torch.from_numpy(pixels.transpose(2, 0, 1).copy())
    return len(files)


def random_box(width: int, height: int) -> tuple[int, int, int, int]:
    """Return a random crop of 8 % of the image or more."""
    scale = math.sqrt(random.uniform(0.08, 1.0))
    w, h = max(int(width * scale), 1), max(int(height * scale), 1)
    left, top = random.randint(0, width - w), random.randint(0, height - h)
    return left, top, left + w, top + h


def speed(name: str, work: Any) -> None:
    """Print the images per second of ``work()``, which returns how many it handled."""
    start = time.perf_counter()
    count = work()
    print(f"   {name:<42}{count / (time.perf_counter() - start):>8.0f} images/s", flush=True)


def main() -> None:
    """Run all steps in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, help="a folder of JPEG files (default: about 2,000 are made)"
    )
    parser.add_argument(
        "--count", type=int, default=2000, help="how many files to make without --data"
    )
    parser.add_argument("--resume", nargs=2, metavar=("DATASET", "STATE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.resume:
        resume(*arguments.resume)
        return
    torch.set_num_threads(1)  # one process means one core in the table at the end
    with tempfile.TemporaryDirectory(prefix="stoker-quickstart-") as folder:
        run(Path(folder), arguments.data, arguments.count)


def run(work: Path, data: Path | None, count: int) -> None:
    """Show every step on the photos of ``data``, or on ``count`` that are made."""
    if data is None:
        files = cut_photos(work / "photos", count)
    else:
        files = sorted(p for p in data.rglob("*") if p.suffix.lower() in {".jpg", ".jpeg"})
    if not files:
        sys.exit(f"no JPEG files in {data}")
    size = sum(path.stat().st_size for path in files)
    say(f"1. {len(files)} photos, {size / 1e6:.0f} MB.")

    directory = str(work / "dataset")
    start = time.perf_counter()
    stoker.optimize(
        load,
        list(enumerate(files)),
        directory,
        chunk_bytes="8MB",
        num_workers=2,
        verbose=sys.stderr.isatty(),
    )
    chunks = len(list(Path(directory).glob("*.bin")))
    say(f"2. Optimized into {chunks} chunks in {time.perf_counter() - start:.1f} s with 2 workers.")

    loader = make_loader(directory)
    epochs = [take_ids(loader) for _ in range(2)]
    if any(sorted(ids) != list(range(len(files))) for ids in epochs) or epochs[0] == epochs[1]:
        sys.exit("FAILED: an epoch is not every sample once in a new order")
    say(
        f"3. Two shuffled epochs: every sample once, in another order; epoch 1 starts {epochs[0][:5]}, 2 {epochs[1][:5]}."
    )

    prove_resume(directory, work, len(files))

    say("5. Speed: decode, random crop to 224 x 224, flip, normalise.")
    say(f"   {loader.explain()}")
    speed("plain loop, Pillow, 1 process", lambda: pillow_loop(files))
    for name, workers, backend in (
        ("StreamingDataLoader, 2 torch workers", 2, "torch"),
        ("StreamingDataLoader, 1 thread", 1, "native"),
        ("StreamingDataLoader, 2 threads", 2, "native"),
    ):
        speed(name, lambda w=workers, b=backend: len(take_ids(make_loader(directory, w, b))))
    say("Done.")


if __name__ == "__main__":
    main()
