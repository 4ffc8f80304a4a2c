# SPDX-License-Identifier: Apache-2.0
"""Compatibility path for modules that live elsewhere."""
