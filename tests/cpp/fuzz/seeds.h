// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets share: a broken promise ends the process, and seeds are made by the target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stoker::fuzz {

using Seed = std::vector<std::uint8_t>;

/// Inputs to start from. Every target defines it; `<target> --seeds=DIR` writes them and ends.
[[nodiscard]] std::vector<Seed> make_seeds();

/// Ends the process, which libFuzzer reports together with the input, unless `promise` holds.
void require(bool promise);

}  // namespace stoker::fuzz

// Called by libFuzzer.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
