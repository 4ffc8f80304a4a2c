// SPDX-License-Identifier: Apache-2.0
// One item = u32 size per leaf, then the leaves. Layout: cpp/format/FORMAT.md section 2.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace stoker {

/// Splits `item` into `leaves.size()` spans. Throws kCorrupt (expected and found bytes) when the
/// sizes do not add up to the item exactly.
void split_item(ByteSpan item, std::span<ByteSpan> leaves);

/// Writes the u32 sizes of `leaves` to `out` (4 * leaves.size() bytes). Throws kInvalidArgument for
/// a leaf over 4 GiB.
void write_leaf_sizes(std::span<const ByteSpan> leaves, std::uint8_t* out);

}  // namespace stoker
