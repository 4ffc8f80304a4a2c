// SPDX-License-Identifier: Apache-2.0
#include "format/token_block.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "error_of.h"
#include "format/chunk_samples.h"

namespace stoker {
namespace {

using test::Buffer;
using test::chunk_of;
using test::error_of;
using test::to_buffer;

ChunkView view_of(const std::vector<Buffer>& items) {
  return ChunkView::open(Bytes::copy_of(chunk_of(items)), items.size(), "chunk");
}

TEST(TokenBlocksTest, NothingIsNoBlock) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 32;
  const auto expect_refused = [](std::uint64_t tokens, std::uint64_t token_bytes) {
    const Error error = error_of([&] { return TokenBlocks(tokens, token_bytes); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(error.message(), "a block of " + std::to_string(tokens) + " tokens of " +
                                   std::to_string(token_bytes) + " bytes is impossible");
  };
  expect_refused(0, 2);
  expect_refused(4, 0);
  expect_refused(0, 0);
  expect_refused(kHuge, kHuge);
}

TEST(TokenBlocksTest, CountsWholeBlocks) {
  const TokenBlocks blocks(4, 2);
  EXPECT_EQ(blocks.block_bytes(), 8U);
  EXPECT_EQ(blocks.blocks_in(0), 0U);
  EXPECT_EQ(blocks.blocks_in(3), 0U);
  EXPECT_EQ(blocks.blocks_in(4), 1U);
  EXPECT_EQ(blocks.blocks_in(11), 2U);
}

TEST(TokenBlocksTest, BlocksCrossSamplesAndLeaveTheRest) {
  // Samples of 3, 0, 4 and 4 tokens of 2 bytes: 2 blocks of 4 tokens and 3 tokens out of reach.
  const ChunkView view =
      view_of({{1, 1, 2, 2, 3, 3}, {}, {4, 4, 5, 5, 6, 6, 7, 7}, {8, 8, 9, 9, 10, 10, 11, 11}});
  const TokenBlocks blocks(4, 2);
  EXPECT_EQ(to_buffer(blocks.block(view, 0)), (Buffer{1, 1, 2, 2, 3, 3, 4, 4}));
  EXPECT_EQ(to_buffer(blocks.block(view, 1)), (Buffer{5, 5, 6, 6, 7, 7, 8, 8}));
  for (const std::uint64_t past : {std::uint64_t{2}, ~std::uint64_t{0}}) {
    const Error error = error_of([&] { return blocks.block(view, past); });
    EXPECT_EQ(error.code(), ErrorCode::kOutOfRange);
    EXPECT_EQ(error.message(), "block " + std::to_string(past) + " of 2 blocks in the chunk");
  }
}

TEST(TokenBlocksTest, ABlockMayBeLargerThanTheChunk) {
  const ChunkView view = view_of({{1, 2}});
  EXPECT_EQ(error_of([&] { return TokenBlocks(3, 1).block(view, 0); }).code(),
            ErrorCode::kOutOfRange);
  EXPECT_EQ(to_buffer(TokenBlocks(2, 1).block(view, 0)), (Buffer{1, 2}));
  EXPECT_EQ(error_of([&] { return TokenBlocks(1, 1).block(view_of({}), 0); }).code(),
            ErrorCode::kOutOfRange);
}

TEST(TokenBlocksTest, CheckComparesWithTheIndex) {
  const ChunkView view = view_of({{1, 1, 2, 2}, {3, 3}});
  const TokenBlocks blocks(4, 2);
  blocks.check(view, 3, "/set/chunk");
  for (const std::uint64_t wrong :
       {std::uint64_t{2}, std::uint64_t{4}, (std::uint64_t{1} << 63) + 3, ~std::uint64_t{0}}) {
    const Error error = error_of([&] {
      blocks.check(view, wrong, "/set/chunk");
      return 0;
    });
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_EQ(error.context().path, "/set/chunk");
    EXPECT_NE(error.message().find("expected " + std::to_string(wrong) +
                                   " tokens (index.json) of 2 bytes, found 6 bytes of tokens"),
              std::string::npos);
  }
}

TEST(TokenBlocksTest, CheckSeesHalfATokenAndNone) {
  const TokenBlocks blocks(4, 2);
  EXPECT_EQ(error_of([&] {
              blocks.check(view_of({{1, 1, 2}}), 1, "");
              return 0;
            }).code(),
            ErrorCode::kCorrupt);
  blocks.check(view_of({}), 0, "");
  blocks.check(view_of({{}, {}}), 0, "");
}

}  // namespace
}  // namespace stoker
