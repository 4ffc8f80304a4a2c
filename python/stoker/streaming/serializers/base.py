# SPDX-License-Identifier: Apache-2.0
"""The contract between a leaf of a sample and its bytes in a chunk.

Owned by `stoker.streaming.serializers`; implemented by the built-in serializers beside this file and by users, who
pass instances through ``serializers={"name": MySerializer()}``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class Serializer(ABC):
    """Turns one kind of leaf into bytes and back.

    A serializer is chosen on writing by the first sample: the registry is walked in order and the first whose
    `can_serialize` says yes keeps the leaf for the whole dataset. On reading it is looked up by the name in the
    dataset's ``data_format`` entry (``name`` or ``name:argument``) and told the whole entry through `setup`.
    Instances must be picklable: they travel to worker processes.
    """

    @abstractmethod
    def serialize(self, item: Any) -> tuple[bytes, str | None]:
        """Return the bytes of ``item`` and the format string to store, or None for the registry name.

        The format string must be the same for every sample of a dataset.
        """

    @abstractmethod
    def deserialize(self, data: bytes) -> Any:
        """Return the leaf for the bytes that `serialize` made."""

    @abstractmethod
    def can_serialize(self, item: Any) -> bool:
        """Say whether this serializer takes ``item``. Called for every sample: keep it cheap."""

    def setup(self, data_format: str) -> None:  # noqa: B027 - overriding it is optional
        """Receive the stored format string (for example ``"image:png"``) once before reading."""
