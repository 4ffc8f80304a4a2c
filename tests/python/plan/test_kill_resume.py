# SPDX-License-Identifier: Apache-2.0
"""A few of the kills that tests/kill_resume.py does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "kill_resume.py"
KINDS = ("plain", "mixed", "batches_mixed", "zipped", "filtered", "bucketed")
KILLS = 5


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_lives_of_a_killed_process_deliver_one_epoch_together(backend: str) -> None:
    command = [sys.executable, str(SCRIPT), "--kills", str(KILLS), "--backends", backend]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.findall(rf"(\w+) {backend}: {KILLS} kills, every batch once", ran.stdout) == list(KINDS)  # fmt: skip
