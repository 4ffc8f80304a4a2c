# SPDX-License-Identifier: Apache-2.0
"""Scrambled images: both backends read, refuse and leave out the same; and a resume after an error."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batches import fingerprint, loader_of
from damage import damaged
from datasets import write_dataset
from pictures import jpeg, opened
from stoker import vision
from stoker.exceptions import CorruptDataError, StokerError
from stoker.streaming.serializers.image import JpegSerializer

GOOD = jpeg(24, 32, 1)
BACKENDS = pytest.mark.parametrize("backend", ["native", "torch"])


class AnyBytes(JpegSerializer):
    """Stores bytes as if they were a JPEG file."""

    def can_serialize(self, item: Any) -> bool:
        return isinstance(item, bytes)

    def serialize(self, item: Any) -> tuple[bytes, str | None]:
        return item, None


def epoch(place: Path, backend: str, on_error: str) -> list[str]:
    """Return the fingerprints of all batches, and the class of the error at which they end."""
    data = {"transform": {"image": vision.Resize((8, 8))}}
    loader = loader_of(place, backend, data, on_error=on_error, batch_size=2)
    found: list[str] = []
    try:
        found.extend(fingerprint(batch) for batch in loader)
    except StokerError as error:
        found.append(type(error).__name__)
    return found


@given(files=st.lists(damaged(GOOD), min_size=3, max_size=3))
def test_both_backends_treat_scrambled_images_alike(files: list[bytes]) -> None:
    samples = [{"image": data, "id": i} for i, data in enumerate([GOOD, *files])]
    with tempfile.TemporaryDirectory() as directory:
        place = write_dataset(
            Path(directory) / "d", samples, chunk_size=2, serializers={"jpeg": AnyBytes()}
        )
        for on_error in ("raise", "skip"):
            assert epoch(place, "native", on_error) == epoch(place, "torch", on_error)


@BACKENDS
def test_a_resume_after_an_error_tells_it_again_and_the_mended_dataset_goes_on(
    tmp_path: Path, backend: str
) -> None:
    samples = [{"image": opened(jpeg(24, 32, i)), "id": i} for i in range(10)]
    place = write_dataset(tmp_path / "d", samples)
    whole = epoch(place, backend, "raise")
    chunk = place / "chunk-0-1.bin"
    good = chunk.read_bytes()
    chunk.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    data = {"transform": {"image": vision.Resize((8, 8))}}
    loader = loader_of(place, backend, data, batch_size=2)
    with pytest.raises(CorruptDataError):
        list(loader)
    state = loader.state_dict()
    assert state["position"] == 4
    for _ in range(2):
        again = loader_of(place, backend, data, batch_size=2)
        again.load_state_dict(state)
        with pytest.raises(CorruptDataError):
            next(iter(again))
    chunk.write_bytes(good)
    mended = loader_of(place, backend, data, batch_size=2)
    mended.load_state_dict(state)
    assert [fingerprint(batch) for batch in mended] == whole[2:]
