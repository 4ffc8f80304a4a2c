# SPDX-License-Identifier: Apache-2.0
"""Settings for all Python tests."""

from __future__ import annotations

import os

from hypothesis import settings

# In CI the same examples every time, so that a red build is about the change; at a desk new ones.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")
