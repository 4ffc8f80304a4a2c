// SPDX-License-Identifier: Apache-2.0
// Items and chunks for tests, put together by hand from cpp/format/FORMAT.md section 1.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "base/bytes.h"
#include "base/coding.h"

namespace stoker::test {

using Buffer = std::vector<std::uint8_t>;

inline void append_u32(Buffer& to, std::uint32_t value) {
  std::uint8_t bytes[4];
  store_u32(bytes, value);
  to.insert(to.end(), bytes, bytes + 4);
}

/// The file that holds `items`.
[[nodiscard]] inline Buffer chunk_of(const std::vector<Buffer>& items) {
  Buffer file;
  auto offset = static_cast<std::uint32_t>(4 + 4 * (items.size() + 1));
  append_u32(file, static_cast<std::uint32_t>(items.size()));
  append_u32(file, offset);
  for (const Buffer& item : items) {
    append_u32(file, offset += static_cast<std::uint32_t>(item.size()));
  }
  for (const Buffer& item : items) file.insert(file.end(), item.begin(), item.end());
  return file;
}

/// `count` items of 0 to `max_size` bytes, always the same for one seed.
[[nodiscard]] inline std::vector<Buffer> random_items(std::size_t count, std::size_t max_size,
                                                      std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Buffer> items(count);
  for (Buffer& item : items) {
    item.resize(random() % (max_size + 1));
    for (std::uint8_t& byte : item) byte = static_cast<std::uint8_t>(random());
  }
  return items;
}

[[nodiscard]] inline Buffer to_buffer(ByteSpan bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace stoker::test
