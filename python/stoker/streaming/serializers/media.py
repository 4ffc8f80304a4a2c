# SPDX-License-Identifier: Apache-2.0
"""Sound and film: the encoded files, decoded by torchcodec. Only read."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Literal, get_args

import torch
from torch.utils.data import get_worker_info

from stoker._optional import require
from stoker.exceptions import InvalidArgumentError
from stoker.streaming.serializers._read_only import ReadOnlySerializer, decoding

AudioDecode = Literal["decoder", "samples", "bytes"]
VideoDecode = Literal["decoder", "samples", "all", "bytes"]


class DecodedAudio:
    """A ``torchcodec.decoders.AudioDecoder`` that also answers ``["array"]`` and ``["sampling_rate"]``.

    ``["array"]`` is a float32 tensor of values from -1 to 1, (samples,) for mono, else (channels, samples);
    ``["sampling_rate"]`` is samples per second. All attributes of the decoder are attributes of this object. Nothing
    is decoded before it is asked for.
    """

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self._samples: Any = None

    def __getitem__(self, key: str) -> Any:
        if key not in ("array", "sampling_rate"):
            msg = f"audio has 'array' and 'sampling_rate', not {key!r}"
            raise KeyError(msg)
        if self._samples is None:
            self._samples = self._decoder.get_all_samples()
        if key == "sampling_rate":
            return int(self._samples.sample_rate)
        array: torch.Tensor = self._samples.data
        return array.squeeze(0) if array.shape[0] == 1 else array

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copy and pickle ask before `_decoder` is there
            msg = f"'DecodedAudio' object has no attribute {name!r}"
            raise AttributeError(msg, name=name, obj=self)
        return getattr(self._decoder, name)


class AudioSerializer(ReadOnlySerializer):
    """``audio:<ext>``.

    Args:
        decode: "decoder": a `DecodedAudio`; "samples": all samples at once, a ``torchcodec.AudioSamples``; "bytes":
            the file.
        sampling_rate: samples per second to convert to; None: as stored.
        num_channels: channels to convert to; None: as stored.
        stream_index: which stream of the file; None: the best.

    Raises:
        InvalidArgumentError: an unknown ``decode``.
    """

    def __init__(
        self,
        decode: AudioDecode = "decoder",
        sampling_rate: int | None = None,
        num_channels: int | None = None,
        stream_index: int | None = None,
    ) -> None:
        _check_decode(decode, get_args(AudioDecode))
        self._decode = decode
        self._options = {
            "sample_rate": sampling_rate,
            "num_channels": num_channels,
            "stream_index": stream_index,
        }

    def deserialize(self, data: bytes) -> Any:
        """Return what ``decode`` says.

        Raises:
            ModuleNotFoundError: torchcodec is not installed.
            CorruptDataError: torchcodec cannot decode the file.
        """
        if self._decode == "bytes":
            return data
        decoders = _decoders("audio leaves")
        with decoding("an audio file", data):
            decoder = decoders.AudioDecoder(data, **self._options)
            return DecodedAudio(decoder) if self._decode == "decoder" else decoder.get_all_samples()


class VideoSerializer(ReadOnlySerializer):
    """``video:<ext>``.

    Args:
        decode: "decoder": a ``torchcodec.decoders.VideoDecoder``; "all" (or "samples"): all frames, a uint8 tensor
            (frames, 3, height, width); "bytes": the file.
        seek_mode: "approximate" or "exact".
        device: where to decode; in DataLoader workers always the CPU.
        num_ffmpeg_threads: per decoder.
        dimension_order: "NCHW" or "NHWC".
        stream_index: which stream of the file; None: the best.

    Raises:
        InvalidArgumentError: an unknown ``decode``.
    """

    def __init__(
        self,
        decode: VideoDecode = "decoder",
        seek_mode: str = "approximate",
        device: str = "cpu",
        num_ffmpeg_threads: int = 1,
        dimension_order: str = "NCHW",
        stream_index: int | None = None,
    ) -> None:
        _check_decode(decode, get_args(VideoDecode))
        self._decode = decode
        self._device = device
        self._options = {
            "seek_mode": seek_mode,
            "num_ffmpeg_threads": num_ffmpeg_threads,
            "dimension_order": dimension_order,
            "stream_index": stream_index,
        }

    def deserialize(self, data: bytes) -> Any:
        """Return what ``decode`` says.

        Raises:
            ModuleNotFoundError: torchcodec is not installed.
            CorruptDataError: torchcodec cannot decode the file.
        """
        if self._decode == "bytes":
            return data
        decoders = _decoders("video leaves")
        device = self._device if get_worker_info() is None else "cpu"
        with decoding("a video file", data):
            decoder = decoders.VideoDecoder(data, device=device, **self._options)
            return decoder if self._decode == "decoder" else decoder[:]


def _check_decode(decode: str, known: tuple[str, ...]) -> None:
    if decode not in known:
        msg = f"decode={decode!r} is unknown; use one of {', '.join(map(repr, known))}."
        raise InvalidArgumentError(msg)


def _decoders(purpose: str) -> ModuleType:
    return require("torchcodec.decoders", "torchcodec", purpose)
