# SPDX-License-Identifier: Apache-2.0
"""A job whose ranks, workers and batch size change in the middle of an epoch, again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mixtures import through_json, write
from stoker import (
    CombinedStreamingDataset,
    ParallelStreamingDataset,
    StreamingDataLoader,
    StreamingDataset,
)
from stoker.streaming._epochs import EpochDataset
from worlds import as_rank

SIZES = (97, 53, 38)  # of the members
ALONE = 211  # of the dataset that is no mixture
GLOBAL = 24
EPOCH = 3
BACKENDS = pytest.mark.parametrize("backend", ["torch", "auto"])


class Places(NamedTuple):
    alone: Path
    members: list[Path]


class Phase(NamedTuple):
    """A world and how many global batches it takes; None: all that is left."""

    world: int
    workers: int
    batch_size: int
    steps: int | None = None


# What a job may read. Each is called anew in every phase and rank, as in a job that starts again.
Made = Callable[[Places], EpochDataset]


def alone(places: Places) -> EpochDataset:
    return StreamingDataset(places.alone, shuffle=True, drop_last=False)


def alone_full(places: Places) -> EpochDataset:
    return StreamingDataset(places.alone, shuffle="full", drop_last=False)


def members(places: Places) -> list[StreamingDataset]:
    return [StreamingDataset(place, shuffle=True) for place in places.members]


def stratified(places: Places) -> EpochDataset:
    return CombinedStreamingDataset(members(places), drop_last=False)


def per_stream(places: Places) -> EpochDataset:
    return CombinedStreamingDataset(members(places), batching_method="per_stream", drop_last=False)


def parallel(places: Places) -> EpochDataset:
    """Epochs in which every member goes round."""
    return ParallelStreamingDataset(members(places), length=201, drop_last=False)


KINDS: dict[str, Made] = {
    "alone": alone,
    "full": alone_full,
    "stratified": stratified,
    "per_stream": per_stream,
    "parallel": parallel,
}
EACH = pytest.mark.parametrize("made", KINDS.values(), ids=KINDS)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    folder = tmp_path_factory.mktemp("places")
    return Places(write(folder / "alone", [ALONE], 7)[0], write(folder / "members", SIZES, 5))


def rows_of(batch: Any) -> list[Any]:
    """Return the samples of a batch: numbers, or tuples of them when it has several columns."""
    if isinstance(batch, (list, tuple)):
        return list(zip(*(column.tolist() for column in batch), strict=True))
    rows: list[Any] = batch.tolist()
    return rows


def taken(loader: StreamingDataLoader, steps: int | None) -> Iterator[tuple[int, list[Any]]]:
    """Yield (position after it, samples) of so many batches; then the loop breaks."""
    for batch in islice(loader, steps):
        position = loader.state_dict()["position"]
        if loader.dataset.batched:  # padded, see `Job.run`
            numbers, own = batch
            yield position, rows_of(numbers[own])
        else:
            yield position, rows_of(batch)


class Job:
    """A job that runs phase after phase."""

    def __init__(self, made: Made, places: Places, backend: str, as_rank: Callable[[int, int], None]) -> None:  # fmt: skip
        self._made, self._places, self._backend, self._as_rank = made, places, backend, as_rank
        self.state: dict[str, Any] | None = None
        self.steps: list[tuple[int, Counter[Any]]] = []  # of all ranks: position, samples

    def run(self, phase: Phase) -> None:
        steps: dict[int, Counter[Any]] = {}
        states = []
        for rank in range(phase.world):
            self._as_rank(rank, phase.world)
            dataset = self._made(self._places)
            loader = StreamingDataLoader(
                dataset,
                pad="mask" if dataset.batched else None,  # else a rank could miss a short batch
                batch_size=phase.batch_size,
                num_workers=phase.workers,
                backend=self._backend,  # type: ignore[arg-type]
            )
            if self.state is None:
                loader.set_epoch(EPOCH)
            else:
                loader.load_state_dict(self.state)
            for position, rows in taken(loader, phase.steps):
                steps.setdefault(position, Counter()).update(rows)
            states.append(through_json(loader.state_dict()))
        assert states == [states[0]] * phase.world, "any rank may save the state"
        assert phase.steps is None or len(steps) == phase.steps
        self.steps += sorted(steps.items())
        self.state = states[0]

    def delivered(self) -> Counter[Any]:
        return sum((samples for _, samples in self.steps), Counter())

    def whole(self, epoch: int) -> Counter[Any]:
        """Return the samples of an epoch, read in one go by one rank."""
        self._as_rank(0, 1)
        loader = StreamingDataLoader(self._made(self._places), batch_size=10)
        loader.set_epoch(epoch)
        return Counter(row for batch in loader for row in rows_of(batch))


@pytest.fixture
def job(places: Places, monkeypatch: pytest.MonkeyPatch) -> Callable[[Made, str], Job]:
    return lambda made, backend: Job(
        made, places, backend, lambda rank, world: as_rank(monkeypatch, rank, world)
    )


@EACH
@BACKENDS
def test_ranks_workers_and_batches_change_within_an_epoch(
    job: Callable[[Made, str], Job], made: Made, backend: str
) -> None:
    running = job(made, backend)
    expected = running.whole(EPOCH)
    assert set(expected.values()) == {1}
    for phase in (Phase(1, 0, 4, 3), Phase(2, 5, 8, 2), Phase(4, 2, 6, 2), Phase(3, 0, 5, None)):
        running.run(phase)
        assert running.delivered().total() == running.steps[-1][0], "positions count samples"
    assert running.delivered() == expected
    assert running.state is not None
    assert (running.state["epoch"], running.state["position"]) == (EPOCH, expected.total())
    running.steps.clear()
    running.run(Phase(2, 0, 7, None))
    assert running.delivered() == running.whole(EPOCH + 1), "the next one is whole"


@EACH
@BACKENDS
def test_with_a_constant_global_batch_every_step_stays_the_same(
    job: Callable[[Made, str], Job], made: Made, backend: str
) -> None:
    reference, running = job(made, "auto"), job(made, backend)
    reference.run(Phase(1, 0, GLOBAL))
    assert len(reference.steps) > 7
    for phase in (Phase(1, 2, 24, 2), Phase(2, 0, 12, 2), Phase(4, 2, 6, 2), Phase(3, 0, 8, None)):
        assert phase.world * phase.batch_size == GLOBAL
        running.run(phase)
    assert running.steps == reference.steps
    assert running.state == reference.state


@EACH
def test_a_change_of_world_in_every_step(job: Callable[[Made, str], Job], made: Made) -> None:
    """Also where the new world has more ranks than the old one had samples in a batch."""
    running = job(made, "auto")
    worlds = [Phase(1 + step % 5, step % 2, 1 + step * 5 % 7, 1) for step in range(12)]
    for phase in worlds:
        running.run(phase)
    running.run(Phase(64, 0, 1, None))
    assert running.delivered() == running.whole(EPOCH)
