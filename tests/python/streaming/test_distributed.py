# SPDX-License-Identifier: Apache-2.0
"""Several processes share an epoch: real process groups of torchrun, and launchers that only set variables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from datasets import write_dataset
from stoker import StreamingDataLoader, StreamingDataset, environment
from stoker.config import usable_cpus
from stoker.exceptions import InvalidArgumentError

N = 103
BATCH = 3
PATIENCE = 90  # seconds until processes count as hanging
BACKENDS = ("native", "torch")
BACKEND = pytest.mark.parametrize("backend", BACKENDS)

# Runs the jobs of a JSON file and writes what each delivered. All loaders are made before the process group is.
WORKER = """
import json, os, sys
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

from stoker import StreamingDataLoader, StreamingDataset

out = Path(sys.argv[1])
name = sys.argv[2] if len(sys.argv) > 2 else "process" + os.environ["RANK"]
plan = json.loads((out / "plan.json").read_text())


def make(job):
    dataset = StreamingDataset(job["place"], shuffle=True, drop_last=job["drop_last"])
    return StreamingDataLoader(
        dataset, batch_size=job["batch_size"], num_workers=2, backend=job["backend"]
    )


def epoch(loader, stop):
    batches = []
    for batch in loader if stop != 0 else ():
        batches.append(batch.tolist())
        if len(batches) == stop:
            break
    return batches


hidden = {key: os.environ.pop(key) for key in plan["hidden"]}
loaders = {key: make(job) for key, job in plan["jobs"].items()}
early = [len(loader) for loader in loaders.values()]
os.environ.update(hidden)
rank = int(os.environ.get("RANK", 0))
if plan["group"]:
    size = int(os.environ["WORLD_SIZE"])
    rank = size - 1 - rank if plan["group"] == "reversed" else rank
    store = dist.FileStore(str(out / "store"), size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=60))
result = {"rank": rank, "early": early, "jobs": {}}
for key, job in plan["jobs"].items():
    loader = loaders[key]
    if job["state"] is not None:
        loader.load_state_dict(job["state"])
    epochs = [epoch(loader, stop) for stop in job["stops"]]
    result["jobs"][key] = {
        "epochs": epochs,
        "length": len(loader),
        "state": loader.state_dict(),
        "explain": loader.explain(),
    }
(out / f"{name}.json").write_text(json.dumps(result))
if plan["group"]:
    dist.barrier()
    dist.destroy_process_group()
"""


class Job(NamedTuple):
    """What every rank does with one loader: ``stops`` has the batches to take of each epoch, None for all of them."""

    backend: str
    drop_last: bool | None = None
    stops: tuple[int | None, ...] = (None,)
    state: dict[str, Any] | None = None
    batch_size: int = BATCH


class Delivered(NamedTuple):
    """What one rank did in a job."""

    epochs: list[list[list[int]]]
    length: int
    state: dict[str, Any]
    explain: str

    def ids(self, epoch: int = 0) -> list[int]:
        return [number for batch in self.epochs[epoch] for number in batch]


class Launch(NamedTuple):
    """Results of all ranks, by their rank: of each job, and the lengths seen before there was a process group."""

    jobs: dict[str, list[Delivered]]
    early: list[list[int]]


def state_of(ranks: Sequence[Delivered]) -> dict[str, Any]:
    """Return the state, which must be the same on all ranks."""
    assert [rank.state for rank in ranks] == [ranks[0].state] * len(ranks)
    return ranks[0].state


def ids_of(ranks: Sequence[Delivered], epoch: int = 0) -> list[int]:
    return [number for rank in ranks for number in rank.ids(epoch)]


def clean_environment() -> dict[str, str]:
    """Return the variables of this process without those of any launcher."""
    names = {name for pair in environment._RANK_VARIABLES for name in pair}
    names |= {*environment._LOCAL_SIZE_VARIABLES, "LOCAL_RANK", "GROUP_RANK", "NODE_RANK"}
    kept = {name: value for name, value in os.environ.items() if name not in names}
    return kept | {"OMP_NUM_THREADS": "1"}


def prepare(
    out: Path, place: Path, jobs: dict[str, Job], group: str | None, hidden: Sequence[str] = ()
) -> Path:
    """Write the plan and return the script that follows it."""
    out.mkdir()
    described = {key: {**job._asdict(), "place": str(place)} for key, job in jobs.items()}
    plan = {"jobs": described, "group": group, "hidden": list(hidden)}
    (out / "plan.json").write_text(json.dumps(plan))
    script = out / "worker.py"
    script.write_text(WORKER)
    return script


def results(out: Path, names: Sequence[str], jobs: dict[str, Job]) -> Launch:
    found = [json.loads((out / f"{name}.json").read_text()) for name in names]
    ranks = sorted(found, key=lambda one: int(one["rank"]))
    delivered = {key: [Delivered(**one["jobs"][key]) for one in ranks] for key in jobs}
    return Launch(delivered, [one["early"] for one in ranks])


def finish(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Wait for all, leave none behind, and show what a failed one said."""
    end = time.monotonic() + PATIENCE
    try:
        for process in processes:
            output, _ = process.communicate(timeout=max(end - time.monotonic(), 1))
            assert process.returncode == 0, output
    finally:
        for process in processes:
            process.terminate()  # torchrun ends its workers then
        for process in processes:
            process.wait()


def start(command: Sequence[str], variables: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *command],
        env=clean_environment() | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def torchrun(
    out: Path,
    place: Path,
    world: int,
    jobs: dict[str, Job],
    group: str = "plain",
    hidden: Sequence[str] = (),
) -> Launch:
    script = prepare(out, place, jobs, group, hidden)
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"]
    finish([start([*launch, str(script), str(out)], {})])
    names = [f"process{number}" for number in range(world)]
    return results(out, names, jobs)


def launched(
    out: Path, place: Path, ranks: Sequence[dict[str, str]], jobs: dict[str, Job]
) -> Launch:
    """Start one plain process for each rank's variables; there is no process group."""
    script = prepare(out, place, jobs, None)
    names = [f"process{number}" for number in range(len(ranks))]
    finish(
        [
            start([str(script), str(out), name], variables)
            for name, variables in zip(names, ranks, strict=True)
        ]
    )
    return results(out, names, jobs)


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ.keys() - clean_environment().keys():
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("numbers") / "d", range(N), chunk_size=7)


def jobs_of_four() -> dict[str, Job]:
    jobs: dict[str, Job] = {}
    for backend in BACKENDS:
        jobs[f"{backend} all"] = Job(backend, drop_last=False, stops=(None, None))
        jobs[f"{backend} default"] = Job(backend)
        jobs[f"{backend} stopped"] = Job(backend, drop_last=False, stops=(None, 4))
    return jobs


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory, place: Path) -> Launch:
    """A world of four whose process group comes after the loaders, and counts ranks the other way round than torchrun."""
    out = tmp_path_factory.mktemp("four") / "out"
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    return torchrun(out, place, 4, jobs_of_four(), group="reversed", hidden=names)


def continued(job: str, state: dict[str, Any]) -> dict[str, Job]:
    """Go on with a state in both backends: to the end and through the next epoch, or one step only."""
    jobs: dict[str, Job] = {}
    for backend, size in zip(BACKENDS, (2, 5), strict=True):
        jobs[f"{job} {backend} rest"] = Job(backend, False, (None, None), state, size)
        jobs[f"{job} {backend} default"] = Job(backend, None, (None,), state, size)
        jobs[f"{job} {backend} step"] = Job(backend, False, (1,), state, size)
    return jobs


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory, place: Path, four: Launch) -> Launch:
    """A world of three that goes on where the world of four stopped."""
    state = state_of(four.jobs["native stopped"])
    return torchrun(tmp_path_factory.mktemp("three") / "out", place, 3, continued("four", state))


@pytest.fixture(scope="module")
def two(
    tmp_path_factory: pytest.TempPathFactory, place: Path, four: Launch, three: Launch
) -> Launch:
    """A world of two that goes on where those of four and three stopped."""
    jobs = continued("four", state_of(four.jobs["torch stopped"]))
    jobs |= continued("three", state_of(three.jobs["four torch step"]))
    return torchrun(tmp_path_factory.mktemp("two") / "out", place, 2, jobs)


# ---- one world


@BACKEND
def test_without_drop_last_four_ranks_deliver_every_sample_once(four: Launch, backend: str) -> None:
    ranks = four.jobs[f"{backend} all"]
    for epoch in range(2):
        assert sorted(ids_of(ranks, epoch)) == list(range(N))
    assert ids_of(ranks, 0) != ids_of(ranks, 1)
    sizes = [len(rank.ids()) for rank in ranks]
    assert max(sizes) - min(sizes) <= 1, "the last global batch is shared as evenly as can be"
    assert [len(rank.epochs[0]) for rank in ranks] == [rank.length for rank in ranks]
    state = state_of(ranks)
    assert (state["epoch"], state["position"]) == (2, N)


@BACKEND
def test_by_default_all_ranks_have_the_same_number_of_full_batches(
    four: Launch, backend: str
) -> None:
    ranks = four.jobs[f"{backend} default"]
    steps = N // (4 * BATCH)
    for rank in ranks:
        assert [len(batch) for batch in rank.epochs[0]] == [BATCH] * steps
        assert rank.length == steps
    delivered = ids_of(ranks)
    assert len(set(delivered)) == len(delivered) == steps * 4 * BATCH
    assert set(delivered) <= set(range(N))
    state = state_of(ranks)
    assert (state["epoch"], state["position"]) == (1, N), "what drop_last left out is not owed"


def test_both_backends_deliver_the_same_on_every_rank(four: Launch) -> None:
    for job in ("all", "default", "stopped"):
        native, torch = (four.jobs[f"{backend} {job}"] for backend in BACKENDS)
        assert [rank.epochs for rank in native] == [rank.epochs for rank in torch]
        assert state_of(native) == state_of(torch)
        assert all(rank.explain.startswith("native:") for rank in native)
        assert all(rank.explain.startswith("torch: 2 worker processes") for rank in torch)


def test_a_process_group_that_comes_after_the_loaders_is_honoured(
    four: Launch, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = -(-N // BATCH)
    assert four.early == [[whole] * len(jobs_of_four())] * 4, "before it there is one rank"
    monkeypatch.setenv("WORLD_SIZE", "4")
    for rank, delivered in enumerate(four.jobs["native all"]):
        monkeypatch.setenv("RANK", str(rank))  # torchrun's was another: that of the group counts
        dataset = StreamingDataset(place, shuffle=True, drop_last=False)
        loader = StreamingDataLoader(dataset, batch_size=BATCH)
        assert [batch.tolist() for batch in loader] == delivered.epochs[0]


# ---- a state goes on in another world


@BACKEND
def test_a_state_in_the_middle_counts_what_all_ranks_delivered(four: Launch, backend: str) -> None:
    ranks = four.jobs[f"{backend} stopped"]
    state = state_of(ranks)
    delivered = ids_of(ranks, 1)
    assert (state["epoch"], state["position"]) == (2, len(delivered)) == (2, 4 * 4 * BATCH)
    assert len(set(delivered)) == len(delivered)


def rest_is_exact(before: list[int], ranks: Sequence[Delivered]) -> None:
    assert sorted(before + ids_of(ranks)) == list(range(N))
    assert sorted(ids_of(ranks, 1)) == list(range(N)), "only the continued epoch is short"
    state = state_of(ranks)
    assert (state["epoch"], state["position"]) == (3, N)


def rest_is_full(before: list[int], ranks: Sequence[Delivered], batch_size: int) -> None:
    """Check what drop_last, the default of several ranks, leaves of the rest."""
    steps = (N - len(before)) // (len(ranks) * batch_size)
    assert [[len(b) for b in rank.epochs[0]] for rank in ranks] == [
        [batch_size] * steps for _ in ranks
    ]
    delivered = ids_of(ranks)
    assert len(set(delivered + before)) == len(delivered) + len(before)


@pytest.mark.parametrize("world", [3, 2])
@pytest.mark.parametrize(("backend", "size"), [("native", 2), ("torch", 5)])
def test_a_state_of_four_ranks_goes_on_in_other_worlds(
    four: Launch, three: Launch, two: Launch, world: int, backend: str, size: int
) -> None:
    before = ids_of(four.jobs["native stopped"], 1)
    jobs = (three if world == 3 else two).jobs
    rest_is_exact(before, jobs[f"four {backend} rest"])
    rest_is_full(before, jobs[f"four {backend} default"], size)


@pytest.mark.parametrize(("backend", "size"), [("native", 2), ("torch", 5)])
def test_a_state_of_a_continued_world_goes_on_in_a_third(
    four: Launch, three: Launch, two: Launch, backend: str, size: int
) -> None:
    before = ids_of(four.jobs["native stopped"], 1) + ids_of(three.jobs["four torch step"])
    assert state_of(three.jobs["four torch step"])["position"] == len(before)
    rest_is_exact(before, two.jobs[f"three {backend} rest"])
    rest_is_full(before, two.jobs[f"three {backend} default"], size)


@BACKEND
@pytest.mark.parametrize("drop_last", [None, False])
def test_a_state_of_several_ranks_goes_on_in_one_process(
    four: Launch, three: Launch, place: Path, backend: Any, drop_last: bool | None
) -> None:
    stopped = ids_of(four.jobs["torch stopped"], 1)
    step = ids_of(three.jobs["four native step"])
    for before, state in (
        (stopped, state_of(four.jobs["torch stopped"])),
        (stopped + step, state_of(three.jobs["four native step"])),
    ):
        dataset = StreamingDataset(place, shuffle=True, drop_last=drop_last)
        loader = StreamingDataLoader(dataset, batch_size=4, num_workers=2, backend=backend)
        loader.load_state_dict(state)
        assert sorted(before + numbers(loader)) == list(range(N))
        assert sorted(numbers(loader)) == list(range(N))


def numbers(loader: StreamingDataLoader) -> list[int]:
    return [int(number) for batch in loader for number in batch]


# ---- launchers without a process group


def nodes(count: int, per_node: int) -> list[dict[str, str]]:
    """Return the variables torchrun gives each process of some nodes."""
    return [
        {
            "RANK": str(rank),
            "WORLD_SIZE": str(count * per_node),
            "LOCAL_RANK": str(rank % per_node),
            "LOCAL_WORLD_SIZE": str(per_node),
            "GROUP_RANK": str(rank // per_node),
            "NODE_RANK": str(rank // per_node),
        }
        for rank in range(count * per_node)
    ]


def slurm(count: int) -> list[dict[str, str]]:
    return [{"SLURM_PROCID": str(rank), "SLURM_NTASKS": str(count)} for rank in range(count)]


def open_mpi(count: int) -> list[dict[str, str]]:
    return [
        {
            "OMPI_COMM_WORLD_RANK": str(rank),
            "OMPI_COMM_WORLD_SIZE": str(count),
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(count),
        }
        for rank in range(count)
    ]


@pytest.mark.parametrize(
    "ranks", [nodes(2, 2), slurm(3), open_mpi(2)], ids=["two nodes", "slurm", "open mpi"]
)
def test_variables_of_a_launcher_are_enough(
    place: Path, tmp_path: Path, ranks: list[dict[str, str]]
) -> None:
    jobs = {
        "all": Job("native", drop_last=False, stops=(None, None)),
        "torch": Job("torch", drop_last=False, stops=(None, None)),
        "default": Job("native"),
    }
    launch = launched(tmp_path / "out", place, ranks, jobs)
    delivered = launch.jobs["all"]
    for epoch in range(2):
        assert sorted(ids_of(delivered, epoch)) == list(range(N))
    state_of(delivered)
    assert [rank.epochs for rank in launch.jobs["torch"]] == [rank.epochs for rank in delivered]
    full = launch.jobs["default"]
    steps = N // (len(ranks) * BATCH)
    assert len(set(ids_of(full))) == steps * len(ranks) * BATCH
    assert [len(rank.epochs[0]) for rank in full] == [steps] * len(ranks)
    state_of(full)


def test_threads_are_shared_by_the_ranks_of_a_machine(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in nodes(2, 2)[3].items():
        monkeypatch.setenv(name, value)
    explained = StreamingDataLoader(StreamingDataset(place), batch_size=BATCH).explain()
    threads = max(usable_cpus() // 2, 1)
    assert explained.startswith(f"native: {threads} thread{'s' if threads > 1 else ''} in C++")


# ---- bad variables


SUPERSCRIPT = {"RANK": "²", "WORLD_SIZE": "4"}


@pytest.mark.parametrize(
    "variables",
    [
        {"RANK": "5", "WORLD_SIZE": "4"},
        {"RANK": "4", "WORLD_SIZE": "4"},
        {"RANK": "-1", "WORLD_SIZE": "4"},
        {"RANK": "first", "WORLD_SIZE": "4"},
        {"RANK": "0", "WORLD_SIZE": "four"},
        {"RANK": "0", "WORLD_SIZE": "0"},
        {"RANK": "1.0", "WORLD_SIZE": "4"},
        {"RANK": "", "WORLD_SIZE": ""},
        {"SLURM_PROCID": "2", "SLURM_NTASKS": "2"},
        {"OMPI_COMM_WORLD_RANK": "x", "OMPI_COMM_WORLD_SIZE": "2"},
        SUPERSCRIPT,
    ],
    ids=lambda variables: ",".join(f"{name}={value}" for name, value in variables.items()),
)
def test_variables_that_describe_no_rank_are_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    dataset = StreamingDataset(place)
    loaders = [StreamingDataLoader(dataset, batch_size=BATCH, backend=b) for b in ("auto", "torch")]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    message = " and ".join(f"{name}={value!r}" for name, value in variables.items())
    for loader in loaders:
        with pytest.raises(InvalidArgumentError, match=message):
            iter(loader)
        with pytest.raises(InvalidArgumentError, match=message):
            len(loader)
    with pytest.raises(InvalidArgumentError, match=message):
        next(iter(dataset))
