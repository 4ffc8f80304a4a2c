# SPDX-License-Identifier: Apache-2.0
"""Making datasets: `optimize` and its processes."""
