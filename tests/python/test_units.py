# SPDX-License-Identifier: Apache-2.0
"""Sizes written by people."""

from __future__ import annotations

import pytest

from stoker.units import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64MB", 64_000_000),
        ("64mb", 64_000_000),
        ("1.5 GB", 1_500_000_000),
        ("10", 10),
        ("3b", 3),
        ("2k", 2000),
        ("1TB", 10**12),
        (7, 7),
    ],
)
def test_sizes(text: int | str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "text", ["1XB", "", "MB", "-1MB", "0", 0, -5, 1.5, True, None, "1 2MB", "1MiB"]
)
def test_what_is_no_size_is_refused_by_name(text: object) -> None:
    with pytest.raises(ValueError, match="chunk_bytes"):
        parse_bytes(text, "chunk_bytes")  # type: ignore[arg-type]


def test_format() -> None:
    assert [format_bytes(n) for n in (1, 1500, 2_000_000, 3e12)] == [
        "1 B",
        "1.5 kB",
        "2.0 MB",
        "3.0 TB",
    ]
