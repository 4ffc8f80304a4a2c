# SPDX-License-Identifier: Apache-2.0
"""How a number is taken: arms in fresh processes, in alternating rounds, CPU seconds, one JSON line per number.

An *arm* is one library doing one job; it runs in a process of its own and prints one JSON object. Arms of a question run
in turn (A B A B ...), so drift of the machine hits all of them; the figure is the median over rounds, and what counts is
the ratio between arms of the same run.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(os.environ.get("STOKER_BENCH_RESULTS", ROOT / "bench" / "results"))
PEER_PYTHON = ROOT / "tests" / "compat" / ".venv-0.2.76" / "bin" / "python"
LIMITS = ROOT / "build" / "cpp" / "bench" / "cpp" / "limits"
TORCHVISION_PYTHON = ROOT / "tests" / "compat" / ".venv-torchvision" / "bin" / "python"


@dataclass(frozen=True, slots=True)
class Arm:
    """One library doing one job.

    Attributes:
        name: for the table.
        script: file in bench/.
        arguments: of the script; it must print one JSON object as its last line.
        python: the interpreter; None = this one. PEER_PYTHON has litdata, TORCHVISION_PYTHON also torchvision.
        program: what to run instead of a script, with ``arguments``.
    """

    name: str
    script: str
    arguments: tuple[str, ...]
    python: Path | None = None
    program: Path | None = None

    def run(self) -> dict[str, Any]:
        """Run the arm once and return what it printed."""
        script = [str(self.python or sys.executable), str(ROOT / "bench" / self.script)]
        command = [*([str(self.program)] if self.program else script), *self.arguments]
        # Compiled modules are kept, as in an installed package, whatever this shell prefers.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT / "bench",
            env={**environment, "PYTHONPYCACHEPREFIX": str(ROOT / "build" / "pycache")},
        )
        if done.returncode != 0:
            sys.exit(f"arm {self.name} failed:\n{done.stdout}\n{done.stderr}")
        result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return result


@dataclass(slots=True)
class Measured:
    """All rounds of one arm."""

    arm: Arm
    rounds: list[dict[str, Any]] = field(default_factory=list)

    def median(self, key: str) -> float:
        """Return the median of one figure over the rounds."""
        return float(statistics.median(r[key] for r in self.rounds))


def alternate(arms: list[Arm], rounds: int) -> dict[str, Measured]:
    """Run all arms in turn, ``rounds`` times."""
    measured = {arm.name: Measured(arm) for arm in arms}
    for _ in range(rounds):
        for arm in arms:
            measured[arm.name].rounds.append(arm.run())
    return measured


def peer_ready() -> bool:
    """Say whether litdata's venv is there (``make compat-venvs`` makes it)."""
    return PEER_PYTHON.exists()


def torchvision_ready() -> bool:
    """Say whether the venv with litdata and torchvision is there (``make torchvision-venv`` makes it)."""
    return TORCHVISION_PYTHON.exists()


def cpu_seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of this process (user + system, all threads) that ``work`` took, and its result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def emit(**figures: Any) -> None:
    """Print an arm's figures as the last line of its output."""
    print(json.dumps(figures))


def record(question: str, figures: dict[str, Any]) -> None:
    """Append one line to bench/results/<question>.jsonl and print it for people."""
    RESULTS.mkdir(exist_ok=True)
    line = {
        "question": question,
        **{k: round(v, 4) if isinstance(v, float) else v for k, v in figures.items()},
        "commit": _git("rev-parse", "--short", "HEAD")
        + ("+" if _git("status", "--porcelain") else ""),
        "machine": f"{_cpu_name()} x{os.cpu_count()}, {platform.release()}",
        "load": round(os.getloadavg()[0], 2),
        "time": time.strftime("%Y-%m-%dT%H:%M:%S"),
    }
    with (RESULTS / f"{question.split('.', maxsplit=1)[0]}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    text = ", ".join(f"{k} {v}" for k, v in line.items() if k in figures)
    print(f"{question}: {text}", flush=True)


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], capture_output=True, text=True, check=False, cwd=ROOT
    )
    return done.stdout.strip()


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def resident_bytes() -> int:
    """Return the resident set size of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
