# SPDX-License-Identifier: Apache-2.0
"""Reading datasets, and the writer beneath `optimize`."""

from stoker.streaming.combined import CombinedStreamingDataset
from stoker.streaming.dataloader import StreamingDataLoader
from stoker.streaming.dataset import StreamingDataset
from stoker.streaming.item_loader import PyTreeLoader, TokensLoader
from stoker.streaming.resolver import Dir
from stoker.streaming.writer import BinaryWriter

__all__ = [
    "BinaryWriter",
    "CombinedStreamingDataset",
    "Dir",
    "PyTreeLoader",
    "StreamingDataLoader",
    "StreamingDataset",
    "TokensLoader",
]
