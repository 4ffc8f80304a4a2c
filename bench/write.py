# SPDX-License-Identifier: Apache-2.0
"""Question: how fast are chunks written?

``write.builder``: 100 kB samples through ChunkBuilder (copy, checksum, write, publish), as a ratio to memcpy + write of
the same bytes in the same process, alternating; CPU time. ``write.optimize``: 15 kB samples through `optimize` with a
trivial fn, one worker: MB per CPU-second of the worker, beside litdata with ``--peer``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import statistics
import tempfile
from pathlib import Path

from harness import PEER_PYTHON, Arm, alternate, cpu_seconds, emit, peer_ready, record

SAMPLE = 15_000


def constant_blob(i: int) -> dict[str, object]:
    """Return a sample of SAMPLE bytes; making it costs next to nothing."""
    return {"i": i, "b": _BLOB}


_BLOB = bytes(range(250)) * (SAMPLE // 250)


def copy_and_write(blob: bytes, count: int, per_chunk: int, folder: Path) -> None:
    """Copy each sample to a buffer and write the buffer: what no chunk writer can avoid."""
    buffer = bytearray(per_chunk * len(blob))
    view = memoryview(buffer)
    for chunk in range(count // per_chunk):
        for i in range(per_chunk):
            view[i * len(blob) : (i + 1) * len(blob)] = blob
        path = folder / f"limit-{chunk}"
        fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL)
        os.write(fd, view)
        os.close(fd)
        path.unlink()


def build_and_write(blob: bytes, count: int, per_chunk: int, folder: Path) -> None:
    """Write the same samples as chunks."""
    from stoker import _core

    builder = _core.ChunkBuilder(None, per_chunk)
    for chunk in range(count // per_chunk):
        for _ in range(per_chunk):
            builder.append([blob], 1, with_sizes=True)
        path = folder / f"chunk-{chunk}.bin"
        builder.write(str(path), zstd_level=None, sync=False)
        path.unlink()


def builder_ratio(count: int, rounds: int) -> None:
    """Record the builder beside its limit."""
    blob, per_chunk = bytes(range(250)) * 400, 640  # 100 kB samples, 64 MB chunks
    limits, ours = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(rounds + 1):
            limits.append(cpu_seconds(lambda: copy_and_write(blob, count, per_chunk, folder))[0])
            ours.append(cpu_seconds(lambda: build_and_write(blob, count, per_chunk, folder))[0])
    limit, mine = statistics.median(limits[1:]), statistics.median(ours[1:])
    size = count // per_chunk * per_chunk * len(blob) / 1e6
    record(
        "write.builder",
        {
            "ratio_to_memcpy_write": limit / mine,
            "mb_per_cpu_s": size / mine,
            "limit_mb_per_cpu_s": size / limit,
        },
    )


def optimize_arm(lib: str, count: int) -> None:
    """Write ``count`` samples with one worker and print the CPU time of the worker processes."""
    with tempfile.TemporaryDirectory() as folder:
        optimize = importlib.import_module(lib).optimize
        optimize(
            constant_blob,
            list(range(count)),
            str(Path(folder) / "out"),
            chunk_bytes="64MB",
            num_workers=1,
            start_method="fork",
        )
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    emit(cpu=usage.ru_utime + usage.ru_stime)


def optimize_rate(count: int, rounds: int, *, peer: bool) -> None:
    """Record `optimize`: the time of ``count`` samples less that of a run with few, so that start-up cancels."""
    few = max(count // 10, 10)
    arms = [Arm(f"stoker-{n}", "write.py", ("--arm", "stoker", str(n))) for n in (few, count)]
    if peer:
        arms += [
            Arm(f"litdata-{n}", "write.py", ("--arm", "litdata", str(n)), python=PEER_PYTHON)
            for n in (few, count)
        ]
    measured = alternate(arms, rounds)
    size = (count - few) * SAMPLE / 1e6

    def rate(lib: str) -> float:
        differences = [
            big["cpu"] - small["cpu"]
            for big, small in zip(
                measured[f"{lib}-{count}"].rounds, measured[f"{lib}-{few}"].rounds, strict=True
            )
        ]
        return size / max(statistics.median(differences), 1e-6)

    figures = {"mb_per_cpu_s": rate("stoker")}
    if peer:
        figures["peer_mb_per_cpu_s"] = rate("litdata")
        figures["peer_ratio"] = figures["mb_per_cpu_s"] / figures["peer_mb_per_cpu_s"]
    record("write.optimize", figures)


def main() -> None:
    """Run both questions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arm", nargs=2, metavar=("LIB", "COUNT"))
    parser.add_argument("--peer", action="store_true", help="also run litdata 0.2.76")
    parser.add_argument("--size", choices=("tiny", "full"), default="full")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.arm:
        optimize_arm(arguments.arm[0], int(arguments.arm[1]))
        return
    tiny = arguments.size == "tiny"
    builder_ratio(640 if tiny else 640 * 8, 1 if tiny else arguments.rounds)
    optimize_rate(
        200 if tiny else 40_000,
        1 if tiny else arguments.rounds,
        peer=arguments.peer and peer_ready(),
    )


if __name__ == "__main__":
    main()
