# SPDX-License-Identifier: Apache-2.0
"""Compare two result files of one machine: ``python bench/report.py old.jsonl new.jsonl [--limit 0.15]``.

Prints every figure that both hold (the last line of each question counts) with new/old, and ends with 1 when one got
worse by more than ``--limit``. For figures named in ``HIGHER_IS_BETTER`` worse means lower, else higher. Absolute figures of
different machines are not comparable; ratios within one run are.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

HIGHER_IS_BETTER = ("ratio", "mb_per_cpu_s", "per_s")


def last_lines(path: Path) -> dict[str, dict[str, Any]]:
    """Return the newest line of each question."""
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return {line["question"]: line for line in lines}


def compare(old: dict[str, Any], new: dict[str, Any], limit: float) -> list[str]:
    """Print the figures of one question; return those that got worse."""
    worse = []
    for key, value in new.items():
        before = old.get(key)
        if key.startswith(("peer_us", "peer_mb", "peer_s", "limit_")) or key in (
            "load",
            "rounds",
            "reads",
        ):
            continue
        if (
            not isinstance(value, (int, float))
            or not isinstance(before, (int, float))
            or before == 0
        ):
            continue
        change = value / before
        better_up = any(part in key for part in HIGHER_IS_BETTER)
        bad = change < 1 - limit if better_up else change > 1 + limit
        name = f"{new['question']}.{key}"
        print(f"{name:<44}{before:>12.4g}{value:>12.4g}{change:>8.2f}x{'  worse' if bad else ''}")
        if bad:
            worse.append(name)
    return worse


def main() -> None:
    """Compare two files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--limit", type=float, default=0.15)
    arguments = parser.parse_args()
    old, new = last_lines(arguments.old), last_lines(arguments.new)
    machines = {line["machine"] for line in (*old.values(), *new.values())}
    if len(machines) > 1:
        print(f"note: results of different machines: {sorted(machines)}")
    worse = [name for q in new if q in old for name in compare(old[q], new[q], arguments.limit)]
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
