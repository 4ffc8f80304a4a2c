# SPDX-License-Identifier: Apache-2.0
"""Item loaders: how a sample lies in a chunk."""

from stoker.streaming.item_loader.base import BaseItemLoader, Interval
from stoker.streaming.item_loader.pytree import PyTreeLoader
from stoker.streaming.item_loader.tokens import TokensLoader

__all__ = ["BaseItemLoader", "Interval", "PyTreeLoader", "TokensLoader"]
