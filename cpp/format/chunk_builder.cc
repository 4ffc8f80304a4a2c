// SPDX-License-Identifier: Apache-2.0
#include "format/chunk_builder.h"

#include <cstring>
#include <string>

#include "base/coding.h"
#include "base/error.h"
#include "format/chunk_view.h"

namespace stoker {

ChunkBuilder::ChunkBuilder(ChunkLimits limits) : limits_(limits) {
  if (limits_.max_bytes.has_value() == limits_.max_weight.has_value()) {
    throw Error(ErrorCode::kInvalidArgument, "exactly one chunk limit must be given");
  }
}

bool ChunkBuilder::oversize(std::uint64_t bytes, std::uint64_t weight) const noexcept {
  return (limits_.max_bytes && bytes > *limits_.max_bytes) ||
         (limits_.max_weight && weight > *limits_.max_weight);
}

bool ChunkBuilder::must_close_before(std::uint64_t bytes, std::uint64_t weight) const {
  if (bytes > limits_.max_file_bytes - chunk_header_size(1)) {
    throw Error(ErrorCode::kInvalidArgument,
                "one sample takes " + std::to_string(bytes) +
                    " bytes, but a chunk file cannot pass 4 GiB (its offsets have 32 bits): split "
                    "the sample");
  }
  if (ends_.empty()) return false;
  return oversize(body_used_ + bytes, weight_ + weight) ||
         chunk_header_size(ends_.size() + 1) + body_used_ + bytes > limits_.max_file_bytes;
}

void ChunkBuilder::append(std::span<const ByteSpan> parts, std::uint64_t weight) {
  std::uint64_t total = 0;
  for (const ByteSpan& part : parts) total += part.size();
  body_.grow(body_used_ + total, body_used_);
  ends_.push_back(static_cast<std::uint32_t>(body_used_ + total));  // nothing below can fail
  for (const ByteSpan& part : parts) {
    if (!part.empty()) std::memcpy(body_.data() + body_used_, part.data(), part.size());
    body_used_ += part.size();
  }
  weight_ += weight;
}

std::uint64_t ChunkBuilder::file_bytes() const noexcept {
  return chunk_header_size(ends_.size()) + body_used_;
}

std::vector<std::uint8_t> ChunkBuilder::header() const {
  const auto size = static_cast<std::uint32_t>(chunk_header_size(ends_.size()));
  std::vector<std::uint8_t> bytes(size);
  store_u32(bytes.data(), items());
  store_u32(bytes.data() + 4, size);
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    store_u32(bytes.data() + 8 + 4 * i, size + ends_[i]);
  }
  return bytes;
}

ByteSpan ChunkBuilder::body() const noexcept { return body_.span().first(body_used_); }

void ChunkBuilder::reset() noexcept {
  body_used_ = 0;
  weight_ = 0;
  ends_.clear();
}

}  // namespace stoker
