// SPDX-License-Identifier: Apache-2.0
// Building a classic chunk in memory. Layout: cpp/format/FORMAT.md section 1.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/host_buffer.h"

namespace stoker {

/// Offsets in the file are u32, so a chunk file never passes this size, whatever the limits say.
constexpr std::uint64_t kMaxChunkFileBytes = 0xFFFFFFFFull;

/// Exactly one of the first two is set. They are soft in litdata's way: an item that would pass the
/// limit starts the next chunk, and one item larger than the limit gets a chunk of its own. The
/// last one is hard.
struct ChunkLimits {
  std::optional<std::uint64_t> max_bytes;  // sum of item bytes, header not counted
  std::optional<std::uint64_t>
      max_weight;  // sum of item weights: items, or tokens for token chunks
  std::uint64_t max_file_bytes = kMaxChunkFileBytes;  // header included; smaller only in tests
};

/// Collects items until full. Not thread-safe. The body buffer is kept between chunks (`reset`), so
/// a writer allocates once.
class ChunkBuilder {
 public:
  explicit ChunkBuilder(ChunkLimits limits);

  /// Would an item of `bytes` and `weight` start the next chunk? False for an empty builder. Throws
  /// kInvalidArgument when the item alone (with a one-item header) passes max_file_bytes.
  [[nodiscard]] bool must_close_before(std::uint64_t bytes, std::uint64_t weight) const;

  /// Is this item alone above the user's limit (it will be a chunk of its own)?
  [[nodiscard]] bool oversize(std::uint64_t bytes, std::uint64_t weight) const noexcept;

  /// Appends one item made of `parts`. REQUIRES: !must_close_before(sum of sizes, weight).
  void append(std::span<const ByteSpan> parts, std::uint64_t weight);

  [[nodiscard]] std::uint32_t items() const noexcept {
    return static_cast<std::uint32_t>(ends_.size());
  }
  [[nodiscard]] std::uint64_t weight() const noexcept { return weight_; }
  [[nodiscard]] std::uint64_t body_bytes() const noexcept { return body_used_; }
  [[nodiscard]] std::uint64_t file_bytes() const noexcept;

  /// The header for the items so far; the file is header() followed by body(). body() is valid
  /// until append or reset.
  [[nodiscard]] std::vector<std::uint8_t> header() const;
  [[nodiscard]] ByteSpan body() const noexcept;

  /// Forgets the items, keeps the memory.
  void reset() noexcept;

 private:
  ChunkLimits limits_;
  HostBuffer body_;
  std::uint64_t body_used_ = 0;
  std::uint64_t weight_ = 0;
  std::vector<std::uint32_t> ends_;  // end of item i in the body
};

}  // namespace stoker
