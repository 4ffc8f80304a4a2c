// SPDX-License-Identifier: Apache-2.0
#include "format/item_layout.h"

#include <limits>
#include <string>

#include "base/coding.h"
#include "base/error.h"

namespace stoker {
namespace {

[[noreturn]] void throw_bad_item(std::size_t item, std::size_t leaves, std::uint64_t expected) {
  throw Error(ErrorCode::kCorrupt, "the item has " + std::to_string(item) + " bytes, but its " +
                                       std::to_string(leaves) + " leaf sizes ask for " +
                                       std::to_string(expected));
}

}  // namespace

void split_item(ByteSpan item, std::span<ByteSpan> leaves) {
  std::size_t at = 4 * leaves.size();
  if (item.size() < at) [[unlikely]]
    throw_bad_item(item.size(), leaves.size(), at);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::size_t size = load_u32(item.data() + 4 * i);
    if (size > item.size() - at) [[unlikely]] {
      throw_bad_item(item.size(), leaves.size(), at + size);
    }
    leaves[i] = item.subspan(at, size);
    at += size;
  }
  if (at != item.size()) [[unlikely]]
    throw_bad_item(item.size(), leaves.size(), at);
}

void write_leaf_sizes(std::span<const ByteSpan> leaves, std::uint8_t* out) {
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].size() > std::numeric_limits<std::uint32_t>::max()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "leaf " + std::to_string(i) + " takes " + std::to_string(leaves[i].size()) +
                      " bytes, but a leaf cannot pass 4 GiB: split it");
    }
    store_u32(out + 4 * i, static_cast<std::uint32_t>(leaves[i].size()));
  }
}

}  // namespace stoker
