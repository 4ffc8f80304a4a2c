// SPDX-License-Identifier: Apache-2.0
#include "engine/batch_spec.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "base/coding.h"
#include "base/error.h"
#include "engine/batch_ring.h"

namespace stoker {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;

std::size_t aligned(std::size_t offset, std::size_t to) { return (offset + to - 1) / to * to; }

}  // namespace

void BatchSpec::lay_out() {
  if (batch_rows == 0 || batch_rows > BatchRing::kMaxRows) {
    throw Error(ErrorCode::kInvalidArgument, "batches of " + std::to_string(batch_rows) +
                                                 " samples are not possible: 1 to " +
                                                 std::to_string(BatchRing::kMaxRows));
  }
  if (columns.empty() && !is_tokens()) {
    throw Error(ErrorCode::kInvalidArgument, "samples without leaves cannot be batched");
  }
  std::uint64_t end = 0;
  const auto place = [&](std::size_t row_bytes) -> std::size_t {
    const auto bytes = checked_mul(row_bytes, batch_rows);
    const std::size_t offset = aligned(end, bytes && *bytes >= kPage ? kPage : kLine);
    if (!bytes || *bytes > kMostBytes || offset > kMostBytes - *bytes) {
      throw Error(ErrorCode::kInvalidArgument, "a batch of " + std::to_string(batch_rows) +
                                                   " samples of " + std::to_string(row_bytes) +
                                                   " bytes is too large");
    }
    end = offset + *bytes;
    return offset;
  };
  if (is_tokens()) {
    const std::uint64_t width = tokens.to_int64 ? sizeof(std::int64_t) : tokens.token_bytes;
    if (tokens.to_int64 && (!std::has_single_bit(tokens.token_bytes) || tokens.token_bytes > 8)) {
      throw Error(ErrorCode::kInvalidArgument, "tokens of " + std::to_string(tokens.token_bytes) +
                                                   " bytes cannot become 64-bit integers");
    }
    place(checked_mul(tokens.block_size, width).value_or(kMostBytes + 1));
  }
  for (Column& column : columns) column.offset = place(column.row_bytes);
  slab_bytes = aligned(std::max<std::uint64_t>(end, 1), kLine);
}

}  // namespace stoker
