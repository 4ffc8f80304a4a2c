// SPDX-License-Identifier: Apache-2.0
// XXH3-64: about 20 GB/s when the bytes are in cache.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace stoker {

/// XXH3 with 64-bit result, seed 0.
[[nodiscard]] std::uint64_t xxh3_64(ByteSpan data) noexcept;

/// XXH3-64 of `head` followed by `body`, without joining them.
[[nodiscard]] std::uint64_t xxh3_64(ByteSpan head, ByteSpan body);

}  // namespace stoker
