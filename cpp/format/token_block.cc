// SPDX-License-Identifier: Apache-2.0
#include "format/token_block.h"

#include <string>

#include "base/coding.h"
#include "base/error.h"

namespace stoker {

TokenBlocks::TokenBlocks(std::uint64_t block_size, std::uint64_t token_bytes)
    : block_size_(block_size), token_bytes_(token_bytes) {
  if (block_size == 0 || token_bytes == 0 || !checked_mul(block_size, token_bytes)) {
    throw Error(ErrorCode::kInvalidArgument, "a block of " + std::to_string(block_size) +
                                                 " tokens of " + std::to_string(token_bytes) +
                                                 " bytes is impossible");
  }
}

ByteSpan TokenBlocks::block(const ChunkView& chunk, std::uint64_t block) const {
  const ByteSpan payload = chunk.payload();
  const std::uint64_t blocks = payload.size() / block_bytes();
  if (block >= blocks) {
    throw Error(ErrorCode::kOutOfRange, "block " + std::to_string(block) + " of " +
                                            std::to_string(blocks) + " blocks in the chunk");
  }
  return payload.subspan(block * block_bytes(), block_bytes());
}

void TokenBlocks::check(const ChunkView& chunk, std::uint64_t tokens,
                        const std::string& path) const {
  const std::uint64_t found = chunk.payload().size();
  const auto expected = checked_mul(tokens, token_bytes_);
  if (expected && *expected == found) return;
  throw Error(ErrorCode::kCorrupt,
              "expected " + std::to_string(tokens) + " tokens (index.json) of " +
                  std::to_string(token_bytes_) + " bytes, found " + std::to_string(found) +
                  " bytes of tokens. The file or the index was altered: restore it, or write the "
                  "dataset again",
              {path, {}});
}

}  // namespace stoker
