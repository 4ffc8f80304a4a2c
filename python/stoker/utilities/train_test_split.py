# SPDX-License-Identifier: Apache-2.0
"""Compatibility path for `stoker.train_test_split`."""

from stoker.streaming.splits import train_test_split

__all__ = ["train_test_split"]
