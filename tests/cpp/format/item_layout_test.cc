// SPDX-License-Identifier: Apache-2.0
#include "format/item_layout.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "error_of.h"
#include "format/chunk_samples.h"

namespace stoker {
namespace {

using test::Buffer;
using test::error_of;
using test::random_items;
using test::to_buffer;

Buffer item_of(const std::vector<Buffer>& leaves) {
  const std::vector<ByteSpan> spans(leaves.begin(), leaves.end());
  Buffer item(4 * leaves.size());
  write_leaf_sizes(spans, item.data());
  for (const Buffer& leaf : leaves) item.insert(item.end(), leaf.begin(), leaf.end());
  return item;
}

// In a buffer of exactly its size, so that a sanitizer sees any read past it.
std::vector<Buffer> split(const Buffer& item, std::size_t leaves) {
  const Buffer exact = item;
  std::vector<ByteSpan> spans(leaves);
  split_item(exact, spans);
  std::vector<Buffer> copies;
  for (const ByteSpan& span : spans) copies.push_back(to_buffer(span));
  return copies;
}

std::string refusal(const Buffer& item, std::size_t leaves) {
  const Error error = error_of([&] { return split(item, leaves); });
  EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
  return error.message();
}

TEST(ItemLayoutTest, TheDocumentedExample) {
  const Buffer one{1, 0, 0, 0, 0, 0, 0, 0};
  const Buffer two_and_a_half{0, 0, 0, 0, 0, 0, 4, 0x40};
  EXPECT_EQ(item_of({one, two_and_a_half}),
            (Buffer{8, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0x40}));
}

TEST(ItemLayoutTest, SizesAreLittleEndian) {
  EXPECT_EQ(Buffer(item_of({Buffer(0x010203)})).at(2), 1);
  const Buffer item = item_of({Buffer(300), {}});
  EXPECT_EQ(Buffer(item.begin(), item.begin() + 8), (Buffer{44, 1, 0, 0, 0, 0, 0, 0}));
}

TEST(ItemLayoutTest, RoundTrip) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    const auto leaves = random_items(random() % 12, 1 + random() % 50, random());
    EXPECT_EQ(split(item_of(leaves), leaves.size()), leaves);
  }
}

TEST(ItemLayoutTest, LeavesLieInTheItem) {
  const Buffer item = item_of({{1, 2}, {}, {3}});
  std::vector<ByteSpan> leaves(3);
  split_item(item, leaves);
  EXPECT_EQ(leaves[0].data(), item.data() + 12);
  EXPECT_EQ(leaves[2].data(), item.data() + 14);
}

TEST(ItemLayoutTest, NoLeavesAreNoBytes) {
  split_item({}, {});
  write_leaf_sizes({}, nullptr);
  EXPECT_EQ(refusal({0}, 0), "the item has 1 bytes, but its 0 leaf sizes ask for 0");
}

TEST(ItemLayoutTest, EveryTruncationAndExcessIsNoticed) {
  Buffer item = item_of({{1, 2, 3}, {}, {4}});
  for (std::size_t size = 0; size < item.size(); ++size) {
    const Buffer part(item.begin(), item.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_NE(refusal(part, 3).find("has " + std::to_string(size) + " bytes, but its 3 leaf sizes"),
              std::string::npos);
  }
  item.push_back(0);
  EXPECT_EQ(refusal(item, 3), "the item has 17 bytes, but its 3 leaf sizes ask for 16");
}

TEST(ItemLayoutTest, EveryFlippedBitOfASizeIsNoticed) {
  const Buffer good = item_of({{1, 2, 3}, {}, {4}});
  for (std::size_t bit = 0; bit < 8 * 12; ++bit) {
    Buffer item = good;
    item[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
    refusal(item, 3);
  }
}

// 3 + 0xFFFFFFFE + 3 is 4 in 32 bits: the sum must not wrap.
TEST(ItemLayoutTest, SizesThatWrapAreNoticed) {
  Buffer item(12);
  store_u32(item.data(), 3);
  store_u32(item.data() + 4, 0xFFFFFFFEU);
  store_u32(item.data() + 8, 3);
  item.resize(12 + 4);
  EXPECT_EQ(refusal(item, 3), "the item has 16 bytes, but its 3 leaf sizes ask for 4294967309");
}

TEST(ItemLayoutTest, AnotherNumberOfLeavesIsNoticed) {
  const Buffer item = item_of({{9, 9, 9, 9}, {9, 9, 9, 9}});
  for (const std::size_t leaves : {0U, 1U, 3U, 4U, 5U, 100U}) refusal(item, leaves);
}

TEST(ItemLayoutTest, ALeafOver4GiBIsRefused) {
  // The length alone is looked at: the bytes are never touched.
  const std::uint8_t byte = 0;
  const std::vector<ByteSpan> leaves{{}, ByteSpan(&byte, std::size_t{1} << 32)};
  std::uint8_t out[8];
  const Error error = error_of([&] {
    write_leaf_sizes(leaves, out);
    return 0;
  });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message().find("leaf 1 takes 4294967296 bytes"), std::string::npos);

  const ByteSpan largest(&byte, 0xFFFFFFFFU);
  write_leaf_sizes({&largest, 1}, out);
  EXPECT_EQ(load_u32(out), 0xFFFFFFFFU);
}

}  // namespace
}  // namespace stoker
