# SPDX-License-Identifier: Apache-2.0
"""States in the hands of others: torch.distributed.checkpoint, torchdata's StatefulDataLoader, Lightning's Trainer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
import torchdata.stateful_dataloader as torchdata
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import distributed
from torch.distributed import checkpoint
from torch.distributed.checkpoint.stateful import Stateful

from mixtures import WEIGHTS, mix, write
from stoker import StreamingDataLoader, StreamingDataset
from stoker.exceptions import StateMismatchError

N = 42
BATCH = 4
STEPS = 11  # the last batch is short
# How the loaders of this file are made: (kind of dataset, backend, workers).
KINDS = [
    ("one", "native", 2),
    ("one", "torch", 0),
    ("one", "torch", 2),
    ("all", "auto", 0),
    ("weighted", "auto", 2),
]
LOADERS = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind)))
# torchdata calls a function of torch that is deprecated.
SET_VITAL = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
# It advises to use more workers, and calls a function of torch that is deprecated.
LIGHTNING = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning:lightning")

Batches = list[list[int]]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write(tmp_path_factory.mktemp("numbers"), (N, 28, 14), 5)


def dataset_of(kind: str, places: list[Path]) -> Any:
    if kind == "one":
        return StreamingDataset(places[0], shuffle=True)
    return mix(places[1:] if kind == "all" else places, None if kind == "all" else WEIGHTS)


def make(kind: tuple[str, Any, int], places: list[Path]) -> StreamingDataLoader:
    what, backend, workers = kind
    dataset = dataset_of(what, places)
    return StreamingDataLoader(dataset, batch_size=BATCH, num_workers=workers, backend=backend)


def batches(loader: Any, count: int | None = None) -> Batches:
    return [batch.tolist() for batch in islice(loader, count)]


# ---- torch.distributed.checkpoint


@LOADERS
def test_loaders_and_datasets_are_stateful(places: list[Path], kind: Any) -> None:
    loader = make(kind, places)
    for thing in (loader, loader.dataset):
        assert isinstance(thing, Stateful)
        assert isinstance(thing, torchdata.stateful_dataloader.Stateful)


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    store = distributed.FileStore(str(tmp_path / "store"), 1)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def save_and_load(saved: dict[str, Any], loaded: dict[str, Any], place: Path, **options: Any) -> None:  # fmt: skip
    checkpoint.save(saved, checkpoint_id=place, **options)
    checkpoint.load(loaded, checkpoint_id=place, **options)


@LOADERS
@pytest.mark.parametrize("taken", [0, 3, STEPS])
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
def test_a_loader_in_a_checkpoint_of_torch_goes_on_exactly(
    places: list[Path], tmp_path: Path, kind: Any, taken: int
) -> None:
    whole = make(kind, places)
    expected = batches(whole) + batches(whole)
    loader, other = make(kind, places), make(kind, places)
    running = iter(loader)
    delivered = batches(running, taken)
    weights = torch.arange(5.0)
    copy = torch.zeros(5)
    saved = {"model": {"weights": weights}, "loader": loader}
    loaded = {"model": {"weights": copy}, "loader": other}
    save_and_load(saved, loaded, tmp_path / "saved", no_dist=True)
    assert copy.tolist() == weights.tolist()
    assert other.state_dict()["epoch"] == (2 if taken == len(whole) else 1)
    delivered += batches(other)
    delivered += batches(other)
    assert delivered[: len(expected)] == expected


@pytest.mark.parametrize("kind", ["one", "all", "weighted"])
@pytest.mark.usefixtures("group")
def test_a_dataset_in_a_checkpoint_of_a_process_group_goes_on_exactly(
    places: list[Path], tmp_path: Path, kind: str
) -> None:
    whole = list(dataset_of(kind, places))
    dataset, other = dataset_of(kind, places), dataset_of(kind, places)
    delivered = list(islice(dataset, 17))
    save_and_load({"data": dataset}, {"data": other}, tmp_path / "saved")
    assert other.state_dict() == dataset.state_dict()
    assert delivered + list(other) == whole


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
def test_a_checkpoint_of_another_dataset_is_refused(places: list[Path], tmp_path: Path) -> None:
    saved, other = StreamingDataset(places[0]), StreamingDataset(places[1])
    with pytest.raises((StateMismatchError, checkpoint.api.CheckpointException), match="dataset"):
        save_and_load({"data": saved}, {"data": other}, tmp_path / "saved", no_dist=True)
    assert list(other) == list(StreamingDataset(places[1]))


# ---- torchdata


def drive(make_loader: Callable[[], Any], taken: int) -> tuple[dict[str, Any], list[Batches]]:
    """Take some batches, save, load in a fresh loader and read two loops; return the state and all three parts."""
    loader, fresh = make_loader(), make_loader()
    running = iter(loader) if taken else None
    parts = [] if running is None else batches(running, taken)
    if taken == STEPS:
        assert running is not None
        assert next(running, None) is None
    state = loader.state_dict()
    fresh.load_state_dict(state)
    return state, [parts, batches(fresh), batches(fresh)]


def stateful(dataset: Any, **options: Any) -> Any:
    return torchdata.StatefulDataLoader(dataset, batch_size=BATCH, **options)


@SET_VITAL
@pytest.mark.parametrize("kind", KINDS[:3], ids=lambda kind: "-".join(map(str, kind)))
@pytest.mark.parametrize("taken", [0, 1, 3, STEPS - 1, STEPS])
def test_states_mean_what_those_of_a_stateful_dataloader_mean(
    places: list[Path], kind: Any, taken: int
) -> None:
    def unshuffled() -> StreamingDataLoader:
        loader = make(kind, places)
        loader.dataset.set_shuffle(False)
        return loader

    _, expected = drive(lambda: stateful(list(range(N))), taken)
    state, parts = drive(unshuffled, taken)
    assert parts == expected
    assert state["position"] == min(taken * BATCH, N)


@SET_VITAL
@LOADERS
def test_a_state_taken_in_a_loop_counts_the_batches_of_the_loop(
    places: list[Path], kind: Any
) -> None:
    whole = batches(make(kind, places))
    loader = make(kind, places)
    delivered: Batches = []
    states = [loader.state_dict()]
    for batch in loader:
        delivered.append(batch.tolist())
        states.append(loader.state_dict())
    assert delivered == whole
    assert states[0]["position"] == 0, "before the first iteration"
    for taken in (0, 1, 5, len(whole) - 1):
        other = make(kind, places)
        other.load_state_dict(states[taken])
        assert batches(other) == whole[taken:]
    loader.load_state_dict(states[2])  # of a loader in use too, before the next loop
    assert batches(loader) == whole[2:]


@SET_VITAL
@pytest.mark.parametrize("kind", ["one", "all"])
@pytest.mark.parametrize("taken", [0, 3, STEPS - 1, STEPS])
def test_a_stateful_dataloader_of_our_dataset_resumes_exactly(
    places: list[Path], kind: str, taken: int
) -> None:
    dataset = dataset_of(kind, places)
    epochs = [list(dataset) for _ in range(3)]
    _, parts = drive(lambda: stateful(dataset_of(kind, places)), taken)
    first, second, third = [[number for batch in part for number in batch] for part in parts]
    if taken == STEPS:
        assert [first, second, third] == epochs
    else:
        assert [first + second, third] == epochs[:2]


@SET_VITAL
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # torchdata's __del__
def test_a_stateful_dataloader_with_workers_says_that_they_do_not_know(places: list[Path]) -> None:
    loader = stateful(StreamingDataset(places[0]), num_workers=1)
    with pytest.raises(RuntimeError, match="must be called in the main process"):
        next(iter(loader))


# ---- Lightning


class Recorder(LightningModule):
    """A model of one weight that keeps the batches it saw and fails before step ``fails_at``."""

    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen: Batches = []
        self.fails_at = fails_at

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        if len(self.seen) == self.fails_at:
            msg = "the machine fails"
            raise RuntimeError(msg)
        self.seen.append(batch.tolist())
        return (self.weight * batch).sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1e-9)


def trainer(directory: Path, *callbacks: Any) -> Trainer:
    return Trainer(
        max_epochs=2,
        accelerator="cpu",
        callbacks=list(callbacks),
        default_root_dir=directory,
        enable_checkpointing=bool(callbacks),
        enable_model_summary=False,
        enable_progress_bar=False,
        logger=False,
    )


@LOADERS
@pytest.mark.parametrize(("fails_at", "saved_at"), [(8, 6), (11, 9), (17, 15), (12, 11)])
@LIGHTNING
def test_a_lightning_run_resumes_from_its_checkpoint_exactly(
    places: list[Path], tmp_path: Path, caplog: Any, kind: Any, fails_at: int, saved_at: int
) -> None:
    reference = make(kind, places)
    whole = batches(reference) + batches(reference)
    every = saved_at if saved_at == STEPS else 3
    saver = ModelCheckpoint(dirpath=tmp_path, every_n_train_steps=every, save_top_k=-1)
    broken = Recorder(fails_at)
    with caplog.at_level(logging.ERROR), pytest.raises(RuntimeError, match="the machine fails"):
        trainer(tmp_path, saver).fit(broken, make(kind, places))
    assert broken.seen == whole[:fails_at]
    (file,) = tmp_path.glob(f"*step={saved_at}.ckpt")
    resumed, loader = Recorder(), make(kind, places)
    trainer(tmp_path).fit(resumed, loader, ckpt_path=file)
    assert whole[:saved_at] + resumed.seen == whole
    assert (loader.state_dict()["epoch"], len(resumed.seen)) == (2, len(whole) - saved_at)
