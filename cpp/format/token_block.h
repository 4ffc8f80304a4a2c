// SPDX-License-Identifier: Apache-2.0
// Fixed windows over the token run of a chunk. Layout: cpp/format/FORMAT.md section 3.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "format/chunk_view.h"

namespace stoker {

/// Blocks of `block_size` tokens of `token_bytes` each. Blocks cross sample boundaries, never chunk
/// ends; what remains at the end of a chunk (fewer than block_size tokens) is not reachable.
class TokenBlocks {
 public:
  /// Throws kInvalidArgument when block_size or token_bytes is 0.
  TokenBlocks(std::uint64_t block_size, std::uint64_t token_bytes);

  [[nodiscard]] std::uint64_t blocks_in(std::uint64_t tokens) const noexcept {
    return tokens / block_size_;
  }
  [[nodiscard]] std::uint64_t block_bytes() const noexcept { return block_size_ * token_bytes_; }

  /// Block `block` of the chunk. Throws kOutOfRange past the last whole block.
  [[nodiscard]] ByteSpan block(const ChunkView& chunk, std::uint64_t block) const;

  /// Throws kCorrupt when the chunk's payload is not `tokens` (the index's dim) tokens.
  void check(const ChunkView& chunk, std::uint64_t tokens, const std::string& path) const;

 private:
  std::uint64_t block_size_;
  std::uint64_t token_bytes_;
};

}  // namespace stoker
