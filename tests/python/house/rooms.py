# SPDX-License-Identifier: Apache-2.0
"""The tables of the architecture: which room may use which. A new file or room gets its line here first."""

from __future__ import annotations

# --- Python -----------------------------------------------------------------------------------------------------

FOUNDATION = {
    "_optional",
    "config",
    "encryption",
    "environment",
    "exceptions",
    "pytree",
    "tracing",
    "types",
    "units",
    "vision",
}

# room -> rooms it may import besides itself. "top" is stoker/__init__.py, "core" the extension module.
PYTHON_ROOMS: dict[str, set[str]] = {
    "foundation": {"core"},
    "storage": {"core", "foundation"},
    "integrations": {"foundation", "storage"},
    "streaming": {"core", "foundation", "storage", "integrations"},
    "processing": {"core", "foundation", "storage", "streaming"},
    "raw": {"core", "foundation", "storage", "streaming"},
    "cli": {"top"},
    "top": {"core", "foundation", "storage", "integrations", "streaming", "processing", "raw"},
}

# Inside `streaming`: a module may import only modules of earlier lines.
STREAMING_ORDER: list[set[str]] = [
    {"_types", "collate", "compression", "resolver", "serializers"},
    {"item_loader"},
    {"index"},
    {
        "_assignment",
        "_loader_stats",
        "_mixing",
        "_ranks",
        "_split",
        "_transformed",
        "_transforms",
        "keys",
        "shuffle",
        "writer",
    },
    {"_order", "_rows", "_selection", "_skipping", "reader"},
    {"_answers_file", "_native_batch", "_progress", "_questions", "_steps", "cache"},
    {"_filter", "_handed", "_mixed_progress", "_native_run", "_per_stream"},
    {"_epochs"},
    {"dataset"},
    {"_bucket_keys", "_engines", "_members", "_planned", "splits"},
    {"_buckets"},
    {"_loader_options"},
    {"dataloader"},
    {"combined", "parallel"},
]

# Compatibility path -> the modules it may point to.
FACADES: dict[str, set[str]] = {
    "stoker.debugger": {"stoker.tracing"},
    "stoker.processing.data_processor": {
        "stoker.processing._runner",
        "stoker.processing._worker",
        "stoker.processing.recipes",
    },
    "stoker.processing.utilities": {"stoker.processing._helpers"},
    "stoker.streaming.downloader": {"stoker.storage"},
    "stoker.streaming.sampler": {"stoker.streaming._types"},
    "stoker.utilities": set(),
    "stoker.utilities.breakpoint": {"stoker.tracing"},
    "stoker.utilities.encryption": {"stoker.encryption"},
    "stoker.utilities.env": {"stoker.environment"},
    "stoker.utilities.format": {"stoker.units"},
    "stoker.utilities.keys_index": {"stoker.streaming.keys"},
    "stoker.utilities.train_test_split": {"stoker.streaming.splits"},
}

# Packages of the foundation's modules at import time, besides the standard library. torch comes later, in functions.
FOUNDATION_PACKAGES = {"numpy"}


def room_of(module: str) -> str | None:
    """Return the room of a Python module, "facade", or None when no table knows it."""
    if module in FACADES:
        return "facade"
    parts = module.split(".")
    if len(parts) == 1:
        return "top"
    if parts[1] == "_core":
        return "core"
    if parts[1] == "__main__":
        return "cli"
    if parts[1] in FOUNDATION:
        return "foundation"
    return parts[1] if parts[1] in PYTHON_ROOMS else None


# --- C++ --------------------------------------------------------------------------------------------------------

# room -> rooms whose headers it may include besides its own.
CPP_ROOMS: dict[str, set[str]] = {
    "base": set(),
    "concurrency": {"base"},
    "io": {"base"},
    "codec": {"base"},
    "format": {"base"},
    "plan": {"base"},
    "reader": {"base", "concurrency", "io", "codec", "format"},
    "vision": {"base", "codec", "plan"},
    "storage": {"base", "concurrency", "io"},
    "cache": {"base", "concurrency", "io"},
    "fetch": {"base", "concurrency", "io", "codec", "storage", "cache"},
    "engine": {
        "base",
        "concurrency",
        "codec",
        "format",
        "plan",
        "reader",
        "vision",
        "cache",
        "fetch",
    },
    "fuzz": {"base", "codec", "format", "vision"},  # tests/cpp/fuzz
}

# header prefix -> path prefixes that may include it.
THIRD_PARTY_HEADERS: dict[str, tuple[str, ...]] = {
    "zstd": ("cpp/codec/", "tests/cpp/codec/", "bench/cpp/"),
    "jpeglib.h": ("cpp/codec/", "tests/cpp/codec/", "tests/cpp/jpeg_samples.h", "bench/cpp/"),
    "jerror.h": ("cpp/codec/",),
    "turbojpeg.h": ("cpp/codec/", "tests/cpp/codec/", "bench/cpp/"),
    "xxhash.h": ("cpp/codec/", "tests/cpp/codec/", "bench/cpp/"),
    "curl/": ("cpp/storage/curl_transport.cc", "cpp/storage/http/curl_transport.cc"),
    "nanobind/": ("python/bindings/",),
    "numpy/": ("python/bindings/",),
    "Python.h": ("python/bindings/",),
    "gtest/": ("tests/cpp/",),
    "gmock/": ("tests/cpp/",),
    "benchmark/": ("bench/cpp/",),
}
