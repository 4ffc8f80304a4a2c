# SPDX-License-Identifier: Apache-2.0
"""Files as leaves: text, PDF, meshes, NIfTI, TIFF, sound and film. Only read; each through a library that may be missing."""

from __future__ import annotations

import copy
import gzip
import io
import pickle
import sys
import types
from collections.abc import Iterator
from typing import Any

import nibabel
import numpy as np
import pytest
import tifffile
import torch
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

from damage import damaged, error_of
from stoker.exceptions import CorruptDataError, InvalidArgumentError
from stoker.streaming.serializers import (
    AudioSerializer,
    FileSerializer,
    MeshSerializer,
    NiftiSerializer,
    PdfSerializer,
    Serializer,
    TextSerializer,
    TiffSerializer,
    VideoSerializer,
    default_serializers,
    find_serializer,
)

# The same examples every time: the inside of foreign decoders is not ours to explore.
same_examples = settings(max_examples=60, derandomize=True)


def nifti(version: int = 1, dtype: type = np.int16, order: str = "<") -> bytes:
    kind = nibabel.Nifti1Image if version == 1 else nibabel.Nifti2Image
    voxels = np.arange(24).reshape(2, 3, 4).astype(dtype)
    header = kind.header_class(endianness=order)
    return kind(voxels, np.diag([1.0, 2, 3, 1]), header=header, dtype=dtype).to_bytes()


def tiff(*pages: np.ndarray) -> bytes:
    file = io.BytesIO()
    with tifffile.TiffWriter(file) as writer:
        for page in pages:
            writer.write(page)
    return file.getvalue()


def mesh(kind: str) -> bytes:
    data = trimesh.creation.box().export(file_type=kind)
    return data if isinstance(data, bytes) else data.encode()


def pdf(pages: int = 1) -> bytes:
    """Return a PDF of empty pages."""
    kids = " ".join(f"{3 + i} 0 R" for i in range(pages))
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {pages}>>",
        *["<</Type/Page/Parent 2 0 R/MediaBox[0 0 72 36]>>"] * pages,
    ]
    text, places = "%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(text))
        text += f"{number} 0 obj{content}endobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    start = len(text)
    size = len(objects) + 1
    text += f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer<</Size {size}/Root 1 0 R>>\n"
    return (text + f"startxref\n{start}\n%%EOF\n").encode()


def mesh_serializer(kind: str) -> Serializer:
    return find_serializer(f"mesh:{kind}", default_serializers())


DECODED: dict[str, tuple[Serializer, bytes]] = {
    "nifti": (NiftiSerializer(), nifti()),
    "nifti_gz": (NiftiSerializer(), gzip.compress(nifti(), mtime=0)),
    "tiff": (TiffSerializer(), tiff(np.arange(48, dtype=np.uint16).reshape(6, 8))),
    "stl": (mesh_serializer("stl"), mesh("stl")),
    "glb": (mesh_serializer("glb"), mesh("glb")),
    "ply": (mesh_serializer("ply"), mesh("ply")),
    "pdf": (PdfSerializer(), pdf()),
}


# ---- what all have in common

READ_ONLY = ["text", "video", "audio", "nifti", "mesh", "pdf", "tifffile", "tiff", "file"]


@pytest.mark.parametrize("name", READ_ONLY)
def test_only_reads(name: str) -> None:
    serializer = default_serializers()[name]
    for item in (b"bytes", "text", None, np.zeros(2)):
        assert not serializer.can_serialize(item)
    with pytest.raises(TypeError, match="only reads in this version: it cannot write a bytes"):
        serializer.serialize(b"bytes")


@pytest.mark.parametrize("name", ["nifti", "mesh", "pdf", "tiff", "audio", "video"])
def test_bytes_of_the_file_need_no_library(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("nibabel", "trimesh", "pdfplumber", "tifffile", "torchcodec"):
        monkeypatch.setitem(sys.modules, library, None)
    kind = type(default_serializers()[name])
    serializer = kind(decode="bytes") if name in ("audio", "video") else kind(decode=False)
    serializer.setup(f"{name}:ext")
    assert serializer.deserialize(b"anything") == b"anything"


@pytest.mark.parametrize(
    ("data_format", "library"),
    [
        ("nifti:nii", "nibabel"),
        ("mesh:stl", "trimesh"),
        ("pdf", "pdfplumber"),
        ("tiff", "tifffile"),
        ("tifffile", "tifffile"),
        ("audio:wav", "torchcodec"),
        ("video:mp4", "torchcodec"),
    ],
)
def test_missing_library(data_format: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    serializer = find_serializer(data_format, default_serializers())
    with pytest.raises(ModuleNotFoundError, match=rf"need {library} .*Run: pip install {library}"):
        serializer.deserialize(b"anything")


@pytest.mark.parametrize("name", DECODED)
def test_good_bytes_decode(name: str) -> None:
    serializer, data = DECODED[name]
    assert serializer.deserialize(data) is not None


@pytest.mark.parametrize("data", [b"", b"\x00", b"no such file", bytes(1000)], ids=len)
@pytest.mark.parametrize("name", DECODED)
def test_foreign_bytes(name: str, data: bytes) -> None:
    with pytest.raises(CorruptDataError, match=f"expected a .*, found {len(data)} bytes"):
        DECODED[name][0].deserialize(data)


@pytest.mark.parametrize("part", [0.05, 0.5, 0.7])
@pytest.mark.parametrize("name", DECODED)
def test_cut_file(name: str, part: float) -> None:
    serializer, data = DECODED[name]
    with pytest.raises(CorruptDataError):
        serializer.deserialize(data[: int(len(data) * part)])


@pytest.mark.parametrize("name", ["nifti", "nifti_gz", "tiff", "stl", "glb", "ply"])
def test_last_byte_is_missing(name: str) -> None:
    serializer, data = DECODED[name]
    with pytest.raises(CorruptDataError):
        serializer.deserialize(data[:-1])


@same_examples
@given(data=st.data(), name=st.sampled_from(sorted(DECODED)))
def test_mutations_raise_one_kind_of_error(data: st.DataObject, name: str) -> None:
    serializer, good = DECODED[name]
    error = error_of(serializer.deserialize, data.draw(damaged(good)))
    if error is not None:
        assert type(error) is CorruptDataError
        assert "that cannot be decoded" in str(error)
        assert error.__cause__ is not None


# ---- text, file


@given(st.text())
def test_text(text: str) -> None:
    assert TextSerializer().deserialize(text.encode()) == text


@pytest.mark.parametrize("data", [b"\xff", b"caf\xe9", "ab".encode("utf-16")])
def test_text_that_is_no_utf8(data: bytes) -> None:
    with pytest.raises(CorruptDataError, match="text leaf, byte 0: expected text in UTF-8"):
        TextSerializer().deserialize(data)


@pytest.mark.parametrize("data_format", ["file", "file:bin", "file:tar.gz"])
def test_file(data_format: str) -> None:
    serializer = find_serializer(data_format, default_serializers())
    assert type(serializer) is FileSerializer
    assert serializer.deserialize(b"\x00\xff") == b"\x00\xff"


# ---- NIfTI, TIFF, meshes, PDF


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("version", [1, 2])
def test_nifti(version: int, order: str, packed: bool) -> None:
    file = nifti(version, np.float32, order)
    image = NiftiSerializer().deserialize(gzip.compress(file) if packed else file)
    assert type(image).__name__ == f"Nifti{version}Image"
    assert np.array_equal(image.get_fdata(), np.arange(24).reshape(2, 3, 4))
    assert np.array_equal(image.affine, np.diag([1, 2, 3, 1]))


def test_nifti_says_how_much_is_missing() -> None:
    file = nifti()
    message = rf"{len(file)} bytes announced, {len(file) - 8} there"
    with pytest.raises(CorruptDataError, match=message):
        NiftiSerializer().deserialize(file[:-8])


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.float32, np.float64])
def test_tiff(dtype: type) -> None:
    page = np.arange(48).reshape(6, 8).astype(dtype)
    read = TiffSerializer().deserialize(tiff(page))
    assert type(read) is np.ndarray
    assert read.dtype == dtype
    assert np.array_equal(read, page)


def test_tiff_of_several_pages_and_colours() -> None:
    stack = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    file = io.BytesIO()
    tifffile.imwrite(file, stack, photometric="rgb")
    assert np.array_equal(TiffSerializer().deserialize(file.getvalue()), stack)


@pytest.mark.parametrize("kind", ["stl", "ply", "obj", "off"])
def test_mesh(kind: str) -> None:
    read = mesh_serializer(kind).deserialize(mesh(kind))
    assert type(read) is trimesh.Trimesh
    assert (len(read.vertices), len(read.faces)) == (8, 12)
    assert read.bounds.tolist() == [[-0.5] * 3, [0.5] * 3]


@pytest.mark.parametrize("data_format", ["mesh", "mesh:glb"])
def test_mesh_is_glb_unless_it_says_otherwise(data_format: str) -> None:
    scene = find_serializer(data_format, default_serializers()).deserialize(mesh("glb"))
    assert len(scene.geometry) == 1


@pytest.mark.parametrize("pages", [1, 3])
def test_pdf(pages: int) -> None:
    read = PdfSerializer().deserialize(pdf(pages))
    assert [(page.width, page.height) for page in read.pages] == [(72, 36)] * pages


# ---- sound and film, through a stand-in for torchcodec


class _Samples:
    def __init__(self, data: torch.Tensor, sample_rate: float) -> None:
        self.data, self.sample_rate = data, sample_rate


class AudioDecoder:
    """Stands in for torchcodec's: a "file" is the number of its channels."""

    def __init__(self, source: bytes, **options: Any) -> None:
        self.channels = int(source)
        self.options = options
        self.decoded = 0

    def get_all_samples(self) -> _Samples:
        self.decoded += 1
        return _Samples(torch.ones(self.channels, 5), 8000.0)


class VideoDecoder:
    """Stands in for torchcodec's: a "file" is the number of its frames."""

    def __init__(self, source: bytes, **options: Any) -> None:
        self.frames = int(source)
        self.options = options

    def __getitem__(self, key: slice) -> torch.Tensor:
        return torch.zeros(self.frames, 3, 2, 2, dtype=torch.uint8)[key]


@pytest.fixture
def torchcodec(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    package, decoders = types.ModuleType("torchcodec"), types.ModuleType("torchcodec.decoders")
    decoders.AudioDecoder, decoders.VideoDecoder = AudioDecoder, VideoDecoder  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchcodec", package)
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", decoders)
    return


def test_audio_decoder(torchcodec: None) -> None:
    mono = AudioSerializer().deserialize(b"1")
    assert mono.decoded == 0, "nothing is decoded before it is asked for"
    assert mono["array"].shape == (5,)
    assert mono["sampling_rate"] == 8000
    assert type(mono["sampling_rate"]) is int
    assert mono.decoded == 1, "once is enough"
    assert mono.options == {"sample_rate": None, "num_channels": None, "stream_index": None}
    assert AudioSerializer().deserialize(b"2")["array"].shape == (2, 5)
    with pytest.raises(KeyError, match="audio has 'array' and 'sampling_rate', not 'path'"):
        mono["path"]
    with pytest.raises(AttributeError):
        _ = mono.nothing


def test_decoded_audio_can_be_copied(torchcodec: None) -> None:
    mono = AudioSerializer().deserialize(b"1")
    assert copy.copy(mono).channels == 1
    assert pickle.loads(pickle.dumps(mono))["array"].shape == (5,)


def test_audio_samples_and_options(torchcodec: None) -> None:
    serializer = AudioSerializer("samples", sampling_rate=16000, num_channels=1, stream_index=2)
    assert serializer.deserialize(b"2").data.shape == (2, 5)
    decoder = AudioSerializer(sampling_rate=16000, num_channels=1, stream_index=2).deserialize(b"1")
    assert decoder.options == {"sample_rate": 16000, "num_channels": 1, "stream_index": 2}


def test_video(torchcodec: None) -> None:
    decoder = VideoSerializer(device="cuda", seek_mode="exact").deserialize(b"4")
    assert type(decoder) is VideoDecoder
    assert decoder.options == {
        "device": "cuda",
        "seek_mode": "exact",
        "num_ffmpeg_threads": 1,
        "dimension_order": "NCHW",
        "stream_index": None,
    }
    for decode in ("all", "samples"):
        assert VideoSerializer(decode).deserialize(b"4").shape == (4, 3, 2, 2)


def test_video_in_workers_is_decoded_by_the_cpu(
    torchcodec: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.streaming.serializers.media.get_worker_info", object)
    assert VideoSerializer(device="cuda").deserialize(b"4").options["device"] == "cpu"


@pytest.mark.parametrize(
    ("serializer", "what"), [(AudioSerializer(), "an audio"), (VideoSerializer(), "a video")]
)
def test_damaged_sound_and_film(serializer: Serializer, what: str, torchcodec: None) -> None:
    with pytest.raises(CorruptDataError, match=f"expected {what} file, found 7 bytes beginning 6e"):
        serializer.deserialize(b"nothing")


@pytest.mark.parametrize("kind", [AudioSerializer, VideoSerializer])
def test_unknown_decode(kind: Any) -> None:
    with pytest.raises(
        InvalidArgumentError, match="decode='mp3' is unknown; use one of 'decoder', 'samples'"
    ):
        kind(decode="mp3")


@pytest.mark.parametrize("name", READ_ONLY)
def test_serializers_travel(name: str) -> None:
    assert type(pickle.loads(pickle.dumps(default_serializers()[name]))).__name__.endswith(
        "Serializer"
    )
    mesh_copy = pickle.loads(pickle.dumps(mesh_serializer("stl")))
    assert type(mesh_copy) is MeshSerializer
    assert mesh_copy._file_type == "stl"
