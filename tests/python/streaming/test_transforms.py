# SPDX-License-Identifier: Apache-2.0
"""What a user does with samples and single leaves: functions by key, image transforms, their dice."""

from __future__ import annotations

import pickle
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from batches import fingerprint
from datasets import write_dataset
from pictures import jpeg, opened
from stoker import StreamingDataset, TokensLoader, _core, vision
from stoker.exceptions import CorruptDataError, InvalidArgumentError

N = 12
CROP = vision.RandomResizedCrop((8, 10))


def sample(i: int) -> dict[str, Any]:
    return {
        "image": opened(jpeg(20, 24, i)),
        "label": i,
        "nested": (i, [f"t{i}", {"deep": np.arange(3) + i}]),
        3: OrderedDict([("x", float(i))]),
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("transforms") / "d"
    return write_dataset(directory, map(sample, range(N)))


def plus(amount: int) -> Any:
    return lambda value: value + amount


def decoded(i: int) -> torch.Tensor:
    return torch.from_numpy(_core.decode_jpeg(jpeg(20, 24, i)))


# ---- by key


def test_functions_of_leaves_by_key_and_by_path(place: Path) -> None:
    dataset = StreamingDataset(
        place,
        transform={
            "label": plus(100),
            ("nested", 0): plus(200),
            ("nested", 1, 0): str.upper,
            ("nested", 1, 1, "deep"): lambda a: a.sum(),
            (3, "x"): lambda x: x / 2,
        },
    )
    for got in (dataset[5], dataset[-7], dataset[5:6][0], list(dataset)[5]):
        assert got["label"] == 105
        assert got["nested"] == (205, ["T5", {"deep": 18}])
        assert type(got["nested"]) is tuple
        assert got[3] == OrderedDict([("x", 2.5)])
        assert type(got[3]) is OrderedDict
        assert list(got) == ["image", "label", "nested", 3]
        assert torch.equal(got["image"], decoded(5)), "leaves without a function are as ever"


def test_a_key_that_is_no_tuple_is_a_path_of_one(place: Path) -> None:
    one = StreamingDataset(place, transform={"label": plus(1)})[0]
    other = StreamingDataset(place, transform={("label",): plus(1)})[0]
    assert one["label"] == other["label"] == 1


@pytest.mark.parametrize(
    ("transform", "text"),
    [
        ({"lable": plus(1)}, r"no leaf 'lable' .*Leaves: 'image', 'label', \('nested', 0\)"),
        ({("nested", 2): plus(1)}, r"no leaf \('nested', 2\)"),
        ({"nested": plus(1)}, "no leaf 'nested'"),
        ({("label", 0): plus(1)}, r"no leaf \('label', 0\)"),
        ({"3": plus(1)}, "no leaf '3'"),
        ({"label": 5}, r"the value for \('label',\) must be a callable, found 5"),
        ({"label": None}, "must be a callable, found None"),
        (vision.Resize(4), r"Give it by key: transform=\{key: ...\}"),
        (5, "a callable, a list of callables, or a dict of them by key of the sample, found 5"),
        ([plus(1), "f"], "a list of callables"),
        ("resize", "found 'resize'"),
    ],
)
def test_what_cannot_work_is_refused_at_once(place: Path, transform: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        StreamingDataset(place, transform=transform)


def test_a_sample_that_is_one_leaf(tmp_path: Path) -> None:
    numbers = write_dataset(tmp_path / "n", range(N))
    assert StreamingDataset(numbers, transform={(): plus(1)})[3] == 4
    with pytest.raises(InvalidArgumentError, match=r"no leaf 'x' .*Leaves: \(\)"):
        StreamingDataset(numbers, transform={"x": plus(1)})
    images = write_dataset(tmp_path / "i", (opened(jpeg(20, 24, i)) for i in range(N)))
    for transform in (vision.Resize((4, 5)), vision.Compose([vision.Resize((4, 5))])):
        got = StreamingDataset(images, transform=transform)[2]
        assert torch.equal(got, vision.Resize((4, 5))(decoded(2)))


def test_containers_at_the_top(tmp_path: Path) -> None:
    pairs = write_dataset(tmp_path / "t", ((i, [i, f"{i}"]) for i in range(N)))
    got = StreamingDataset(pairs, transform={0: plus(1), (1, 1): plus_text})[4]
    assert got == (5, [4, "4!"])
    triples = write_dataset(tmp_path / "l", ([i, (i, i)] for i in range(N)))
    assert StreamingDataset(triples, transform={(1, 1): plus(1)})[4] == [4, (4, 5)]
    counts = write_dataset(tmp_path / "d", (defaultdict(int, {"a": i}) for i in range(N)))
    got = StreamingDataset(counts, transform={"a": plus(1)})[4]
    assert type(got) is defaultdict
    assert got["a"] == 5


def plus_text(text: str) -> str:
    return text + "!"


def test_token_datasets_take_functions_of_the_sample(tmp_path: Path) -> None:
    rows = [np.arange(64)] * 4
    tokens = write_dataset(tmp_path / "t", rows, chunk_size=128, item_loader=TokensLoader())
    loader = TokensLoader(block_size=8)
    with pytest.raises(InvalidArgumentError, match="need a dataset of PyTreeLoader"):
        StreamingDataset(tokens, item_loader=loader, transform={0: plus(1)})
    got = StreamingDataset(tokens, item_loader=loader, transform=plus(1))[0]
    assert got.tolist() == list(range(1, 9))


# ---- functions of the sample


def test_functions_of_the_sample_one_after_another(place: Path) -> None:
    def label(s: Any) -> Any:
        return s["label"]

    assert StreamingDataset(place, transform=label)[4] == 4
    assert StreamingDataset(place, transform=[label, plus(1), str])[4] == "5"
    assert StreamingDataset(place, transform=(label, plus(1)))[4] == 5
    assert StreamingDataset(place, transform=[])[4]["label"] == 4
    assert list(StreamingDataset(place, transform=label)) == list(range(N))


def test_an_error_of_a_function_reaches_the_user(place: Path) -> None:
    dataset = StreamingDataset(place, transform={"label": lambda x: 1 // (x - 3)})
    assert dataset[4]["label"] == 1
    with pytest.raises(ZeroDivisionError):
        dataset[3]
    with pytest.raises(ZeroDivisionError):
        list(dataset)


# ---- images


def test_images_by_number_have_dice_of_torchs_generator(place: Path) -> None:
    dataset = StreamingDataset(place, transform={"image": CROP})
    torch.manual_seed(1)
    first = [dataset[2]["image"] for _ in range(3)]
    torch.manual_seed(1)
    assert all(torch.equal(dataset[2]["image"], image) for image in first)
    assert len({fingerprint(image) for image in first}) == 3
    assert first[0].shape == (3, 8, 10)


def test_images_of_an_epoch_have_dice_of_seed_epoch_position_and_leaf(place: Path) -> None:
    dataset = StreamingDataset(place, shuffle=True, seed=11, transform={"image": CROP})
    for epoch in (1, 2):
        torch.manual_seed(epoch)
        for position, got in enumerate(dataset):
            wanted = CROP(decoded(got["label"]), key=(11, epoch, position, 0))
            assert torch.equal(got["image"], wanted)
    again = StreamingDataset(place, shuffle=True, seed=11, transform={"image": CROP})
    again.set_epoch(2)
    state = again.state_dict()
    parts = [fingerprint(s["image"]) for s in again]
    rest = StreamingDataset(place, shuffle=True, seed=11, transform={"image": CROP})
    rest.load_state_dict({**state, "position": 5})
    assert [fingerprint(s["image"]) for s in rest] == parts[5:]
    other = StreamingDataset(place, shuffle=True, seed=12, transform={"image": CROP})
    assert not {fingerprint(s["image"]) for s in other} & set(parts)


def test_workers_throw_the_same_dice(place: Path) -> None:
    dataset = StreamingDataset(place, transform={"image": CROP, "label": plus_one})
    alone = {s["label"]: fingerprint(s["image"]) for s in dataset}
    dataset.set_epoch(1)
    loader = DataLoader(dataset, batch_size=None, num_workers=2)
    assert {s["label"]: fingerprint(s["image"]) for s in loader} == alone


def plus_one(value: int) -> int:
    return value + 1


def test_datasets_with_transforms_can_be_pickled(place: Path) -> None:
    dataset = StreamingDataset(place, transform={"image": CROP, "label": plus_one})
    twin = pickle.loads(pickle.dumps(dataset))
    assert [fingerprint(s["image"]) for s in twin] == [fingerprint(s["image"]) for s in dataset]
    assert twin[3]["label"] == 4


def test_image_transforms_of_leaves_that_are_no_jpegs(tmp_path: Path) -> None:
    tensor, array = decoded(1), decoded(2).permute(1, 2, 0).contiguous().numpy()
    samples = [{"t": tensor, "a": array, "p": Image.fromarray(array), "n": 5}] * 3
    place = write_dataset(tmp_path / "d", samples)
    compose = vision.Compose([vision.CenterCrop(9), vision.ToDtype(torch.float32, scale=True)])
    dataset = StreamingDataset(place, transform=dict.fromkeys("tap", compose))
    for got in (dataset[1], list(dataset)[1]):
        assert torch.equal(got["t"], compose(tensor))
        assert torch.equal(got["a"], compose(decoded(2)))
        assert torch.equal(got["p"], compose(decoded(2)))
    random = StreamingDataset(place, transform={"p": CROP})
    assert torch.equal(list(random)[2]["p"], CROP(decoded(2), key=(42, 1, 2, 2)))
    with pytest.raises(InvalidArgumentError, match="expected a JPEG file"):
        StreamingDataset(place, transform={"n": compose})[0]


def test_python_functions_get_decoded_images(place: Path) -> None:
    dataset = StreamingDataset(place, transform={"image": lambda image: image[:, :2, :2]})
    assert torch.equal(dataset[3]["image"], decoded(3)[:, :2, :2])
    shapes = StreamingDataset(place, transform=lambda s: tuple(s["image"].shape))
    assert shapes[0] == (3, 20, 24)


def test_a_damaged_image_under_transforms(tmp_path: Path) -> None:
    data = jpeg(20, 24)
    cut = opened(data[: data.index(b"\xff\xda") + 20])
    place = write_dataset(tmp_path / "d", [{"image": cut}])
    dataset = StreamingDataset(place, transform={"image": CROP})
    with pytest.raises(CorruptDataError):
        dataset[0]
    with pytest.raises(CorruptDataError):
        list(dataset)
