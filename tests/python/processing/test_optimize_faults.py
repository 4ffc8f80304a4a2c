# SPDX-License-Identifier: Apache-2.0
"""optimize when things go wrong: nothing is published, nothing is left behind, and the message says what happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoker
from datasets import write_dataset
from stoker import StreamingDataset
from stoker.exceptions import OptimizeError, SampleStructureError, WorkerDiedError

START_METHODS = pytest.mark.parametrize("start_method", ["spawn", "fork"])


def fail(
    fn: Callable[[int], Any], directory: Path, start_method: str, workers: int = 2
) -> BaseException:
    """Run optimize over 12 inputs, expect an error, and check that the directory is as if nothing had run."""
    start = time.monotonic()
    with pytest.raises(Exception) as info:  # noqa: PT011 - the caller looks at it
        stoker.optimize(
            fn,
            range(12),
            directory,
            chunk_size=2,
            num_workers=workers,
            start_method=start_method,
            verbose=False,
        )
    assert time.monotonic() - start < 30
    assert not directory.exists()
    return info.value


@START_METHODS
def test_an_exception_of_fn_arrives_with_traceback_and_input(
    tmp_path: Path, start_method: str
) -> None:
    def fn(i: int) -> int:
        if i == 8:
            raise_deep_inside(i)
        return i

    def raise_deep_inside(i: int) -> None:
        msg = f"bad file {i}"
        raise FileNotFoundError(msg)

    error = fail(fn, tmp_path / "d", start_method)
    assert type(error) is FileNotFoundError
    assert str(error) == "bad file 8"
    assert any("worker 1 of 2 at input 8: 8" in note for note in error.__notes__)
    assert "raise_deep_inside(i)" in str(error.__cause__)


class UnpicklableError(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")
        self.handle = lambda: None


@START_METHODS
def test_an_exception_that_cannot_travel_still_says_everything(
    tmp_path: Path, start_method: str
) -> None:
    def fn(i: int) -> int:
        if i == 3:
            raise UnpicklableError("this", "that")
        return i

    error = fail(fn, tmp_path / "d", start_method)
    assert isinstance(error, OptimizeError)
    assert "this and that" in str(error)
    assert "input 3" in str(error)
    assert 'raise UnpicklableError("this", "that")' in str(error.__cause__)


@START_METHODS
@pytest.mark.parametrize(
    ("end", "words"),
    [
        (lambda: os._exit(3), ["exit code 3"]),
        (lambda: os._exit(0), ["exit code 0"]),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), ["SIGKILL", "out-of-memory"]),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), ["SIGSEGV"]),
    ],
    ids=["exit3", "exit0", "kill", "segv"],
)
def test_a_worker_that_dies(
    tmp_path: Path, start_method: str, end: Callable[[], None], words: list[str]
) -> None:
    def fn(i: int) -> int:
        if i == 7:
            end()
        return i

    error = fail(fn, tmp_path / "d", start_method)
    assert isinstance(error, WorkerDiedError)
    for word in [*words, "worker 1 of 2", "input 7: 7"]:
        assert word in str(error)


@START_METHODS
def test_sys_exit_in_fn_is_an_error(tmp_path: Path, start_method: str) -> None:
    error = fail(lambda i: sys.exit(f"no {i}") if i == 4 else i, tmp_path / "d", start_method)
    assert isinstance(error, OptimizeError)
    assert "SystemExit: no 4" in str(error)


def test_a_failure_is_reported_at_once_and_ends_the_others(tmp_path: Path) -> None:
    """The other worker would need a minute; optimize must not wait for it, and must not leave it running."""

    def fn(i: int) -> int:
        if i == 0:
            (tmp_path / "pid").write_text(str(os.getpid()))
            time.sleep(60)
        if i == 6:
            while not (tmp_path / "pid").exists():
                time.sleep(0.01)
            msg = "early"
            raise ValueError(msg)
        return i

    start = time.monotonic()
    error = fail(fn, tmp_path / "d", "fork")
    assert str(error) == "early"
    assert time.monotonic() - start < 5
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_samples_of_two_workers_that_do_not_fit(tmp_path: Path) -> None:
    error = fail(lambda i: {"a": i} if i < 6 else {"b": i}, tmp_path / "d", "fork")
    assert isinstance(error, SampleStructureError)
    assert "data_spec" in str(error)
    assert "worker 1 had inputs 6 to 11" in str(error)


def test_a_sample_that_differs_names_its_input(tmp_path: Path) -> None:
    error = fail(lambda i: {"a": [0] * (2 if i != 9 else 3)}, tmp_path / "d", "fork")
    assert isinstance(error, SampleStructureError)
    assert "length 3" in str(error)
    assert any("input 9" in note for note in error.__notes__)


def run_script(folder: Path, body: str) -> subprocess.Popen[bytes]:
    script = folder / "script.py"
    # A shell that runs things in the background lets them ignore Ctrl-C.
    ctrl_c = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    script.write_text(ctrl_c + textwrap.dedent(body))
    return subprocess.Popen([sys.executable, str(script)], cwd=folder, start_new_session=True)


def wait_for(condition: Callable[[], Any], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Say whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


SLOW = """
    import os, pathlib, time
    import stoker
    def fn(i):
        pathlib.Path(f"pid-{os.getpid()}").touch()
        if i == 5:
            time.sleep(600)
        return {"i": i}
    stoker.optimize(fn, range(8), "out", chunk_size=1, num_workers=2, verbose=False)
"""


@pytest.mark.parametrize("who", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_leaves_no_process_and_nothing_that_stops_the_next(
    tmp_path: Path, who: signal.Signals
) -> None:
    process = run_script(tmp_path, SLOW)
    wait_for(
        lambda: (
            len(list(tmp_path.glob("pid-*"))) == 2
            and len(list(tmp_path.glob("out/.stoker-*/chunk-*"))) >= 4
        )
    )
    pids = [int(p.name.removeprefix("pid-")) for p in tmp_path.glob("pid-*")]
    assert not (tmp_path / "out" / "index.json").exists()
    if who is signal.SIGINT:
        os.killpg(process.pid, who)
    else:
        process.send_signal(who)
    process.wait(20)
    wait_for(lambda: not any(alive(pid) for pid in pids))
    if who is signal.SIGINT:
        assert not (tmp_path / "out").exists(), "an interrupted run cleans up"
    stoker.optimize(
        lambda i: {"i": i},
        range(8),
        tmp_path / "out",
        chunk_size=1,
        num_workers=2,
        start_method="fork",
        verbose=False,
    )
    assert [s["i"] for s in StreamingDataset(tmp_path / "out")] == list(range(8))
    assert not list((tmp_path / "out").glob(".stoker-*"))


def test_two_runs_into_one_directory(tmp_path: Path) -> None:
    process = run_script(tmp_path, SLOW)
    try:
        wait_for(lambda: list(tmp_path.glob("pid-*")))
        with pytest.raises(OptimizeError, match="Another optimize run"):
            stoker.optimize(
                int, range(8), tmp_path / "out", chunk_size=1, num_workers=1, verbose=False
            )
        assert process.poll() is None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("moved", [0, 1, 3])
def test_a_run_killed_while_committing_is_taken_back(tmp_path: Path, moved: int) -> None:
    """Rebuild the state a SIGKILL leaves between two renames of the commit: a list, and some chunks already moved."""
    staging = tmp_path / "out" / ".stoker-staging-dead"
    write_dataset(staging, range(15))
    names = sorted(p.name for p in staging.glob("*.bin"))
    inodes = {name: (staging / name).stat().st_ino for name in names}
    (staging / "commit.json").write_text(json.dumps(inodes))
    for name in names[:moved]:
        (staging / name).rename(tmp_path / "out" / name)
    (tmp_path / "out" / "keep.txt").write_text("mine")
    stoker.optimize(
        int,
        range(4),
        tmp_path / "out",
        chunk_size=3,
        num_workers=1,
        start_method="fork",
        verbose=False,
    )
    assert list(StreamingDataset(tmp_path / "out")) == list(range(4))
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "chunk-0-0.bin",
        "chunk-0-1.bin",
        "index.json",
        "keep.txt",
    ]


@pytest.mark.parametrize("record", ["", "[", '["chunk-0-9.bin"]', '{"chunk-0-9.bin": 1}'])
def test_a_list_of_moves_never_costs_somebody_elses_file(tmp_path: Path, record: str) -> None:
    staging = tmp_path / "out" / ".stoker-staging-dead"
    staging.mkdir(parents=True)
    (staging / "commit.json").write_text(record)
    stranger = tmp_path / "out" / "chunk-0-9.bin"
    stranger.write_text("mine")
    with pytest.raises(FileExistsError, match="chunk-0-9"):
        stoker.optimize(int, range(4), tmp_path / "out", chunk_size=3, verbose=False)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["chunk-0-9.bin"]
    assert stranger.read_text() == "mine"


def test_workers_do_not_outlive_a_parent_killed_while_they_start(tmp_path: Path) -> None:
    process = run_script(tmp_path, SLOW)
    out = tmp_path / "out"
    wait_for(lambda: list(out.glob(".stoker-staging-*/task-*.pickle")))
    process.kill()  # the parent alone: its workers are still importing
    process.wait()
    pattern = f"{out}/.stoker-staging-"
    wait_for(lambda: not _processes_with(pattern))
    assert not list(tmp_path.glob("pid-*"))


def _processes_with(text: str) -> list[str]:
    """Return the running processes that have ``text`` in an argument."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = place.read_bytes()
        except OSError:
            continue
        if text.encode() in arguments:
            found.append(place.parent.name)
    return found


def test_a_full_disk(tmp_path: Path) -> None:
    """A 1 MB file system: the error is the system's, and the directory is left as it was."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    mount = tmp_path / "small"
    mount.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(mount)],
        check=False,
        capture_output=True,
    ).returncode:
        pytest.skip("no permission to mount here")
    try:
        with warnings.catch_warnings(), pytest.raises(OSError, match="No space left"):
            stoker.optimize(
                lambda _: bytes(300_000),
                range(8),
                mount / "d",
                chunk_size=1,
                num_workers=1,
                verbose=False,
            )
        assert list(mount.iterdir()) == []
    finally:
        subprocess.run(["umount", str(mount)], check=True)
