// SPDX-License-Identifier: Apache-2.0
#include "format/chunk_view.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "error_of.h"
#include "format/chunk_samples.h"

namespace stoker {
namespace {

using test::Buffer;
using test::chunk_of;
using test::error_of;
using test::random_items;
using test::to_buffer;

const std::string kPath = "/data/set/chunk-0-3.bin";

// Exactly as long as the file, so that a sanitizer sees any read past it.
Bytes exact(ByteSpan bytes) { return Bytes::copy_of(bytes); }

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

using Open = ChunkView (*)(Bytes, std::uint64_t, const std::string&);
class ChunkViewTest : public ::testing::TestWithParam<Open> {
 protected:
  ChunkView open(const Buffer& file, std::uint64_t items) {
    return GetParam()(exact(file), items, kPath);
  }
  // Every kCorrupt names the file, what was expected and found, and what to do.
  Error refusal(const Buffer& file, std::uint64_t items) {
    const Error error = error_of([&] { return open(file, items); });
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_EQ(error.context().path, kPath);
    EXPECT_TRUE(error.context().offset.has_value());
    EXPECT_TRUE(contains(error.message(), "restore it from its source")) << error.what();
    return error;
  }
};
INSTANTIATE_TEST_SUITE_P(BothWays, ChunkViewTest,
                         ::testing::Values(&ChunkView::open, &ChunkView::open_lazy),
                         [](const auto& way) { return way.index == 0 ? "open" : "open_lazy"; });

TEST_P(ChunkViewTest, GivesTheItems) {
  const std::vector<Buffer> items{{1, 2, 3}, {}, {4}, {5, 6}, {}};
  const Buffer file = chunk_of(items);
  const ChunkView view = open(file, 5);
  ASSERT_EQ(view.size(), 5U);
  EXPECT_EQ(view.file().size(), file.size());
  for (std::uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(to_buffer(view.item_span(i)), items[i]);
    EXPECT_EQ(to_buffer(view.item(i).span()), items[i]);
  }
  EXPECT_EQ(to_buffer(view.payload()), (Buffer{1, 2, 3, 4, 5, 6}));
}

TEST_P(ChunkViewTest, ManyItems) {
  const auto items = random_items(3000, 40, 5);
  const ChunkView view = open(chunk_of(items), items.size());
  for (std::uint32_t i = 0; i < view.size(); ++i) {
    ASSERT_EQ(to_buffer(view.item_span(i)), items[i]);
  }
}

TEST_P(ChunkViewTest, AChunkOfNoItems) {
  const ChunkView view = open(chunk_of({}), 0);
  EXPECT_EQ(view.size(), 0U);
  EXPECT_TRUE(view.payload().empty());
  EXPECT_EQ(error_of([&] { return view.item(0); }).code(), ErrorCode::kOutOfRange);
}

TEST_P(ChunkViewTest, OutOfRange) {
  const ChunkView view = open(chunk_of({{1}, {2}}), 2);
  for (const std::uint32_t i : {2U, 3U, 0x3FFFFFFFU, 0xFFFFFFFFU}) {
    const Error error = error_of([&] { return view.item(i); });
    EXPECT_EQ(error.code(), ErrorCode::kOutOfRange);
    EXPECT_EQ(error.message(), "item " + std::to_string(i) + " of 2");
    EXPECT_EQ(error.context().path, kPath);
    EXPECT_EQ(error_of([&] { return view.item_span(i); }).code(), ErrorCode::kOutOfRange);
  }
}

TEST_P(ChunkViewTest, AnItemKeepsTheFileAlive) {
  auto owner = std::make_shared<const Buffer>(chunk_of({{1, 2}, {3}}));
  const std::weak_ptr<const Buffer> watch = owner;
  std::optional<ChunkView> view = GetParam()(Bytes(*owner, owner), 2, kPath);
  owner.reset();
  std::optional<Bytes> item = view->item(0);
  const ChunkView copy = *view;
  view.reset();
  EXPECT_EQ(to_buffer(copy.item_span(1)), (Buffer{3}));
  const_cast<ChunkView&>(copy) = ChunkView();
  ASSERT_FALSE(watch.expired());
  EXPECT_EQ(to_buffer(item->span()), (Buffer{1, 2}));
  item.reset();
  EXPECT_TRUE(watch.expired());
}

TEST_P(ChunkViewTest, TheIndexKnowsTheCount) {
  const Buffer file = chunk_of({{1}, {2}});
  for (const std::uint64_t wrong : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{3},
                                    std::uint64_t{1} << 32 | 2, ~std::uint64_t{0}}) {
    const Error error = refusal(file, wrong);
    EXPECT_TRUE(contains(error.message(), "expected " + std::to_string(wrong) +
                                              " items (index.json), found 2 in the header"));
    EXPECT_EQ(error.context().offset, 0U);
  }
}

TEST_P(ChunkViewTest, EveryTruncationIsNoticed) {
  const Buffer file = chunk_of({{1, 2, 3}, {}, {4, 5}});
  for (std::size_t size = 0; size < file.size(); ++size) {
    const Error error = refusal(Buffer(file.begin(), file.begin() + std::ptrdiff_t(size)), 3);
    EXPECT_TRUE(contains(error.message(), "expected ")) << error.what();
    EXPECT_TRUE(contains(error.message(), std::to_string(size)) || size == 0) << error.what();
  }
}

TEST_P(ChunkViewTest, ALongerFileIsNoticed) {
  Buffer file = chunk_of({{1, 2, 3}});
  file.push_back(0);
  const Error error = refusal(file, 1);
  EXPECT_TRUE(contains(error.message(), "expected 16 as offset, found 15")) << error.what();
  EXPECT_EQ(error.context().offset, 8U);
}

// A flip that nobody notices must leave every item where it was, but for open_lazy(), which
// promises less: the item lies inside the file.
TEST_P(ChunkViewTest, EveryFlippedBitOfTheHeader) {
  const std::vector<Buffer> items{{1, 2, 3}, {}, {4, 5}, {6}};
  const Buffer good = chunk_of(items);
  const std::size_t header = chunk_header_size(items.size());
  for (std::size_t bit = 0; bit < 8 * header; ++bit) {
    Buffer file = good;
    file[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
    const bool ends = bit / 8 < 8 || bit / 8 >= header - 4;  // count, first and last offset
    if (ends) {
      const Error error = refusal(file, items.size());
      EXPECT_TRUE(contains(error.message(), "expected ")) << error.what();
      EXPECT_TRUE(contains(error.message(), "found ")) << error.what();
      continue;
    }
    try {
      const ChunkView view = open(file, items.size());
      for (std::uint32_t i = 0; i < view.size(); ++i) {
        const ByteSpan item = view.item_span(i);
        EXPECT_GE(item.data(), view.file().data() + header);
        EXPECT_LE(item.data() + item.size(), view.file().data() + file.size());
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      EXPECT_EQ(error.context().path, kPath);
      EXPECT_TRUE(contains(error.message(), " lies at [")) << error.what();
      EXPECT_TRUE(contains(error.message(), "of " + std::to_string(file.size()) + " bytes"));
    }
  }
}

TEST_P(ChunkViewTest, AHeaderThatAsksForMoreThanMemoryHas) {
  const Buffer file{0xFF, 0xFF, 0xFF, 0xFF, 8, 0, 0, 0};
  const Error error = refusal(file, 0xFFFFFFFF);
  EXPECT_TRUE(contains(error.message(), "expected 17179869188 bytes or more, found 8"))
      << error.what();
}

TEST(ChunkViewOpenTest, NamesTheFirstItemOutOfOrder) {
  Buffer file = chunk_of({{1, 2, 3}, {4, 5}, {6}});
  store_u32(file.data() + 8, 26);  // end of item 0, inside the file but above the end of item 1
  const Error error = error_of([&] { return ChunkView::open(exact(file), 3, kPath); });
  EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
  EXPECT_TRUE(contains(error.message(), "item 1 lies at [26, 25) of 26 bytes")) << error.what();
  EXPECT_EQ(error.context().offset, 8U);
}

TEST(ChunkViewOpenTest, OpenLazyLeavesDamageInsideToTheItem) {
  Buffer file = chunk_of({{1, 2, 3}, {4, 5}, {6}});
  store_u32(file.data() + 8, 0x80000000U);
  const ChunkView view = ChunkView::open_lazy(exact(file), 3, kPath);
  EXPECT_EQ(to_buffer(view.item_span(2)), (Buffer{6}));
  const Error before = error_of([&] { return view.item(0); });
  EXPECT_EQ(before.code(), ErrorCode::kCorrupt);
  EXPECT_TRUE(contains(before.message(), "item 0 lies at [20, 2147483648) of 26 bytes"));
  EXPECT_EQ(before.context().offset, 4U);
  const Error after = error_of([&] { return view.item_span(1); });
  EXPECT_EQ(after.code(), ErrorCode::kCorrupt);
  EXPECT_EQ(after.context().offset, 8U);
  EXPECT_EQ(error_of([&] { return ChunkView::open(exact(file), 3, kPath); }).code(),
            ErrorCode::kCorrupt);
}

TEST(ChunkViewOpenTest, AnItemNeverBeginsInTheHeader) {
  Buffer file = chunk_of({{1, 2}, {3}, {4}});
  store_u32(file.data() + 8, 4);
  const ChunkView view = ChunkView::open_lazy(exact(file), 3, kPath);
  EXPECT_EQ(error_of([&] { return view.item(1); }).code(), ErrorCode::kCorrupt);
}

TEST(ChunkViewOpenTest, ADefaultViewHoldsNothing) {
  const ChunkView view;
  EXPECT_EQ(view.size(), 0U);
  EXPECT_TRUE(view.payload().empty());
  EXPECT_TRUE(view.file().empty());
  EXPECT_EQ(error_of([&] { return view.item(0); }).code(), ErrorCode::kOutOfRange);
}

TEST(ChunkHeaderSizeTest, CountsNAndAllOffsets) {
  EXPECT_EQ(chunk_header_size(0), 8U);
  EXPECT_EQ(chunk_header_size(1), 12U);
  EXPECT_EQ(chunk_header_size(0xFFFFFFFFULL), 4 + 4 * 0x100000000ULL);
}

TEST(ForeignLayoutTest, KnowsTheOthersByTheirMarks) {
  const std::string framed("LDFZ01\0\0", 8);
  const std::string arrow("LDARW01\0", 8);
  const std::string text = "anything";
  const auto of = [](const std::string& file) { return foreign_layout(as_bytes(file)); };
  EXPECT_EQ(of(framed), "framed zstd");
  EXPECT_EQ(of(framed + text), "framed zstd");
  EXPECT_EQ(of(arrow), "Arrow-footer");
  EXPECT_EQ(of(text + arrow), "Arrow-footer");
  EXPECT_EQ(of(text + framed), "");
  EXPECT_EQ(of(arrow + text), "");
  EXPECT_EQ(of(framed.substr(0, 7)), "");
  EXPECT_EQ(of(arrow.substr(1)), "");
  EXPECT_EQ(of(""), "");
  EXPECT_EQ(foreign_layout({}), "");
  EXPECT_EQ(foreign_layout(chunk_of({{1, 2, 3}})), "");
}

}  // namespace
}  // namespace stoker
