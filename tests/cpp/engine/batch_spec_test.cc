// SPDX-License-Identifier: Apache-2.0
#include "engine/batch_spec.h"

#include <gtest/gtest.h>

#include "engine/batch_ring.h"
#include "error_of.h"

namespace stoker {
namespace {

using test::error_of;

BatchSpec spec_of(std::uint32_t rows, const std::vector<std::size_t>& row_bytes) {
  BatchSpec spec;
  spec.batch_rows = rows;
  for (const std::size_t bytes : row_bytes) {
    Column column;
    column.row_bytes = bytes;
    spec.columns.push_back(column);
  }
  return spec;
}

Error refusal_of(BatchSpec spec) {
  return error_of([&] {
    spec.lay_out();
    return 0;
  });
}

TEST(BatchSpecTest, ColumnsLieOneAfterAnotherAligned) {
  BatchSpec spec = spec_of(10, {3, 8, 0, 1000, 500, 1});
  spec.lay_out();
  std::size_t end = 0;
  for (const Column& column : spec.columns) {
    EXPECT_GE(column.offset, end);
    EXPECT_LT(column.offset, end + 4096);
    const std::size_t bytes = 10 * column.row_bytes;
    EXPECT_EQ(column.offset % (bytes >= 4096 ? 4096 : 64), 0U);
    end = column.offset + bytes;
  }
  EXPECT_GE(spec.slab_bytes, end);
  EXPECT_EQ(spec.slab_bytes % 64, 0U);
}

TEST(BatchSpecTest, TwiceIsTheSame) {
  BatchSpec spec = spec_of(7, {3, 8000, 5});
  spec.lay_out();
  const std::size_t bytes = spec.slab_bytes;
  spec.lay_out();
  EXPECT_EQ(spec.slab_bytes, bytes);
}

TEST(BatchSpecTest, ColumnsWithoutBytesNeedALittleAllTheSame) {
  BatchSpec spec = spec_of(4, {0, 0});  // objects only
  spec.lay_out();
  EXPECT_EQ(spec.slab_bytes, 64U);
}

TEST(BatchSpecTest, Tokens) {
  BatchSpec spec = spec_of(3, {});
  spec.tokens = {.block_size = 100, .token_bytes = 2};
  EXPECT_TRUE(spec.is_tokens());
  spec.lay_out();
  EXPECT_EQ(spec.slab_bytes, 640U);
  spec.tokens.to_int64 = true;
  spec.lay_out();
  EXPECT_EQ(spec.slab_bytes, 2432U);
}

TEST(BatchSpecTest, NothingToDoIsRefused) {
  EXPECT_EQ(refusal_of(spec_of(4, {})).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal_of(spec_of(0, {8})).code(), ErrorCode::kInvalidArgument);
}

TEST(BatchSpecTest, AsManyRowsAsTheRingTakes) {
  spec_of(BatchRing::kMaxRows, {8}).lay_out();
  const Error error = refusal_of(spec_of(BatchRing::kMaxRows + 1, {8}));
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.message(), "batches of 8388609 samples are not possible: 1 to 8388608");
}

TEST(BatchSpecTest, ABatchHasAtMost2To40Bytes) {
  constexpr std::size_t kMost = std::size_t{1} << 40;
  BatchSpec largest = spec_of(4, {kMost / 8, kMost / 8});
  largest.lay_out();
  EXPECT_EQ(largest.slab_bytes, kMost);
  EXPECT_EQ(refusal_of(spec_of(4, {kMost / 8, kMost / 8, 1})).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal_of(spec_of(4, {kMost / 8, kMost / 8 + 1})).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal_of(spec_of(4, {kMost / 4 + 1})).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal_of(spec_of(4, {~std::size_t{0}})).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal_of(spec_of(4, {std::size_t{1} << 62})).code(), ErrorCode::kInvalidArgument);
}

TEST(BatchSpecTest, ImpossibleTokensAreRefused) {
  for (const bool to_int64 : {false, true}) {
    BatchSpec spec = spec_of(1, {});
    spec.tokens = {.block_size = std::uint64_t{1} << 61, .token_bytes = 8, .to_int64 = to_int64};
    EXPECT_EQ(refusal_of(spec).code(), ErrorCode::kInvalidArgument);
  }
  for (const std::uint64_t width : {0U, 3U, 6U, 16U}) {
    BatchSpec spec = spec_of(1, {});
    spec.tokens = {.block_size = 4, .token_bytes = width, .to_int64 = true};
    EXPECT_EQ(refusal_of(spec).code(), ErrorCode::kInvalidArgument) << width;
  }
}

}  // namespace
}  // namespace stoker
