// SPDX-License-Identifier: Apache-2.0
#include "format/chunk_builder.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "error_of.h"
#include "format/chunk_samples.h"
#include "format/chunk_view.h"

namespace stoker {
namespace {

using test::Buffer;
using test::chunk_of;
using test::error_of;
using test::random_items;
using test::to_buffer;

ChunkLimits by_bytes(std::uint64_t limit) { return {.max_bytes = limit, .max_weight = {}}; }
ChunkLimits by_weight(std::uint64_t limit) { return {.max_bytes = {}, .max_weight = limit}; }

void append_item(ChunkBuilder& builder, const Buffer& item, std::uint64_t weight = 1) {
  const ByteSpan part(item);
  builder.append({&part, 1}, weight);
}

Buffer file_of(const ChunkBuilder& builder) {
  Buffer file = builder.header();
  const ByteSpan body = builder.body();
  file.insert(file.end(), body.begin(), body.end());
  return file;
}

TEST(ChunkBuilderTest, WantsExactlyOneLimit) {
  for (const ChunkLimits& limits : {ChunkLimits{}, ChunkLimits{.max_bytes = 1, .max_weight = 1}}) {
    const Error error = error_of([&] { return ChunkBuilder(limits); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(error.message(), "exactly one chunk limit must be given");
  }
}

TEST(ChunkBuilderTest, StartsEmpty) {
  const ChunkBuilder builder(by_bytes(10));
  EXPECT_EQ(builder.items(), 0U);
  EXPECT_EQ(builder.weight(), 0U);
  EXPECT_EQ(builder.body_bytes(), 0U);
  EXPECT_EQ(builder.file_bytes(), 8U);
  EXPECT_TRUE(builder.body().empty());
  EXPECT_EQ(builder.header(), (Buffer{0, 0, 0, 0, 8, 0, 0, 0}));
}

TEST(ChunkBuilderTest, HeaderBytesAreAsDocumented) {
  ChunkBuilder builder(by_weight(300));
  append_item(builder, {0xAA, 0xBB});
  append_item(builder, {});
  append_item(builder, Buffer(300, 7));
  EXPECT_EQ(builder.header(), (Buffer{3,    0, 0, 0,     // N
                                      20,   0, 0, 0,     // offset[0] = 4 + 4 * (3 + 1)
                                      22,   0, 0, 0,     //
                                      22,   0, 0, 0,     // an item of 0 bytes
                                      0x42, 1, 0, 0}));  // 322 = end of the file
  EXPECT_EQ(builder.items(), 3U);
  EXPECT_EQ(builder.body_bytes(), 302U);
  EXPECT_EQ(builder.file_bytes(), 322U);
  EXPECT_EQ(builder.body().size(), 302U);
  EXPECT_EQ(builder.body()[1], 0xBB);
}

TEST(ChunkBuilderTest, ByteLimitIsTheSumOfItemBytes) {
  ChunkBuilder builder(by_bytes(100));
  append_item(builder, Buffer(60));
  EXPECT_FALSE(builder.must_close_before(40, 1'000'000));  // 100 exactly; weights do not count
  EXPECT_TRUE(builder.must_close_before(41, 0));
  append_item(builder, Buffer(40));
  EXPECT_FALSE(builder.must_close_before(0, 1));  // an item of no bytes always fits
  EXPECT_TRUE(builder.must_close_before(1, 1));
}

TEST(ChunkBuilderTest, WeightLimitCountsWeights) {
  ChunkBuilder builder(by_weight(10));
  append_item(builder, Buffer(1000), 7);
  EXPECT_EQ(builder.weight(), 7U);
  EXPECT_FALSE(builder.must_close_before(1'000'000, 3));
  EXPECT_TRUE(builder.must_close_before(0, 4));
  append_item(builder, {}, 3);
  EXPECT_EQ(builder.weight(), 10U);
  EXPECT_FALSE(builder.must_close_before(5, 0));
  EXPECT_TRUE(builder.must_close_before(5, 1));
}

TEST(ChunkBuilderTest, TheFirstItemAlwaysFits) {
  EXPECT_FALSE(ChunkBuilder(by_bytes(10)).must_close_before(11, 1));
  EXPECT_FALSE(ChunkBuilder(by_weight(10)).must_close_before(1, 11));
  EXPECT_FALSE(ChunkBuilder(by_bytes(0)).must_close_before(1, 1));
}

TEST(ChunkBuilderTest, OversizeLooksAtTheItemAlone) {
  ChunkBuilder bytes(by_bytes(10));
  EXPECT_FALSE(bytes.oversize(10, 99));
  EXPECT_TRUE(bytes.oversize(11, 0));
  append_item(bytes, Buffer(9));
  EXPECT_FALSE(bytes.oversize(10, 99));
  const ChunkBuilder weights(by_weight(10));
  EXPECT_FALSE(weights.oversize(99, 10));
  EXPECT_TRUE(weights.oversize(0, 11));
}

TEST(ChunkBuilderTest, AnOversizeItemGetsAChunkOfItsOwn) {
  ChunkBuilder builder(by_bytes(10));
  append_item(builder, Buffer(3));
  EXPECT_TRUE(builder.must_close_before(50, 1));
  builder.reset();
  EXPECT_FALSE(builder.must_close_before(50, 1));
  append_item(builder, Buffer(50));
  EXPECT_TRUE(builder.must_close_before(1, 1));
  EXPECT_EQ(file_of(builder), chunk_of({Buffer(50)}));
}

TEST(ChunkBuilderTest, TheFileNeverPassesItsMaximum) {
  // Header of two items 16 bytes, bodies 40 + 44: 100 exactly.
  ChunkBuilder builder({.max_bytes = 1'000'000, .max_weight = {}, .max_file_bytes = 100});
  append_item(builder, Buffer(40));
  EXPECT_FALSE(builder.must_close_before(44, 1));
  EXPECT_TRUE(builder.must_close_before(45, 1));
  append_item(builder, Buffer(44));
  EXPECT_EQ(builder.file_bytes(), 100U);
  EXPECT_TRUE(builder.must_close_before(0, 0));  // its offset has no room
}

TEST(ChunkBuilderTest, AnItemThatFitsNoFileIsRefused) {
  const ChunkLimits limits{.max_bytes = {}, .max_weight = 5, .max_file_bytes = 100};
  ChunkBuilder builder(limits);
  EXPECT_FALSE(builder.must_close_before(88, 1));  // 88 + 12 bytes of header
  for (int filled = 0; filled < 2; ++filled) {
    const Error error = error_of([&] { return builder.must_close_before(89, 1); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(error.message().find("one sample takes 89 bytes"), std::string::npos);
    append_item(builder, Buffer(1));
  }
}

TEST(ChunkBuilderTest, TheDefaultMaximumIsWhatOffsetsCanSay) {
  const ChunkBuilder builder(by_weight(1'000'000));
  EXPECT_FALSE(builder.must_close_before(0xFFFFFFFFULL - 12, 1));
  EXPECT_EQ(error_of([&] { return builder.must_close_before(0xFFFFFFFFULL - 11, 1); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] { return builder.must_close_before(~std::uint64_t{0}, 1); }).code(),
            ErrorCode::kInvalidArgument);
}

TEST(ChunkBuilderTest, PartsAreJoined) {
  ChunkBuilder builder(by_bytes(100));
  const Buffer first{1, 2, 3};
  const Buffer last{4};
  const std::vector<ByteSpan> parts{first, {}, last};
  builder.append(parts, 2);
  builder.append({}, 1);                             // no leaves at all
  builder.append(std::vector<ByteSpan>{{}, {}}, 1);  // leaves of no bytes
  EXPECT_EQ(file_of(builder), chunk_of({{1, 2, 3, 4}, {}, {}}));
  EXPECT_EQ(builder.weight(), 4U);
}

TEST(ChunkBuilderTest, OnlyEmptyItems) {
  ChunkBuilder builder(by_bytes(0));
  for (int i = 0; i < 5; ++i) {
    ASSERT_FALSE(builder.must_close_before(0, 1));
    builder.append({}, 1);
  }
  EXPECT_EQ(file_of(builder), chunk_of(std::vector<Buffer>(5)));
}

TEST(ChunkBuilderTest, ResetForgetsTheItemsAndKeepsTheMemory) {
  ChunkBuilder builder(by_bytes(1000));
  append_item(builder, Buffer(700, 1), 5);
  const std::uint8_t* memory = builder.body().data();
  builder.reset();
  EXPECT_EQ(builder.items(), 0U);
  EXPECT_EQ(builder.weight(), 0U);
  EXPECT_EQ(file_of(builder), chunk_of({}));
  append_item(builder, {9, 8});
  EXPECT_EQ(builder.body().data(), memory);
  EXPECT_EQ(file_of(builder), chunk_of({{9, 8}}));
}

// What ChunkView gives back is what went in, whatever the sizes, and no chunk passes the limit
// unless it holds one item.
TEST(ChunkBuilderTest, RoundTrip) {
  std::mt19937_64 random(20240611);
  for (int round = 0; round < 60; ++round) {
    const std::uint64_t limit = 1 + random() % 3000;
    const auto items = random_items(random() % 200, 1 + random() % 400, random());
    ChunkBuilder builder(by_bytes(limit));
    std::size_t read = 0;
    const auto close = [&] {
      const Bytes file = Bytes::copy_of(file_of(builder));
      ASSERT_EQ(file.size(), builder.file_bytes());
      const ChunkView view = ChunkView::open(file, builder.items(), "chunk");
      for (std::uint32_t i = 0; i < view.size(); ++i) {
        ASSERT_EQ(to_buffer(view.item_span(i)), items[read++]);
      }
      ASSERT_TRUE(builder.items() <= 1 || builder.body_bytes() <= limit);
      builder.reset();
    };
    for (const Buffer& item : items) {
      if (builder.must_close_before(item.size(), 1)) close();
      append_item(builder, item);
    }
    close();
    ASSERT_EQ(read, items.size());
  }
}

}  // namespace
}  // namespace stoker
