# SPDX-License-Identifier: Apache-2.0
"""stoker: optimize a dataset into chunks and stream it into PyTorch."""

from stoker.processing.complete import complete_dataset, is_complete_dataset
from stoker.processing.functions import optimize
from stoker.streaming.combined import CombinedStreamingDataset
from stoker.streaming.dataloader import StreamingDataLoader
from stoker.streaming.dataset import StreamingDataset
from stoker.streaming.item_loader import TokensLoader
from stoker.streaming.parallel import ParallelStreamingDataset
from stoker.streaming.splits import train_test_split

__version__ = "0.1.0"

__all__ = [
    "CombinedStreamingDataset",
    "ParallelStreamingDataset",
    "StreamingDataLoader",
    "StreamingDataset",
    "TokensLoader",
    "__version__",
    "complete_dataset",
    "is_complete_dataset",
    "optimize",
    "train_test_split",
]
