// SPDX-License-Identifier: Apache-2.0
// One stream: how its pieces are cut in windows, and what comes at each of its offsets.
#include "plan/window_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "error_of.h"
#include "plan/plan_samples.h"

namespace stoker {
namespace {

using internal::cut_windows;
using test::error_of;
using test::Items;
using Firsts = std::vector<std::size_t>;

constexpr std::uint64_t kMax = ~std::uint64_t{0};
constexpr std::uint64_t kMaxWindowItems = 0xFFFFFFFFULL;

/// With as many pieces in the first window as in the others.
Firsts cut(const Items& sizes, std::uint32_t window, std::uint64_t max_items = kMaxWindowItems) {
  return cut_windows(sizes, window, window, max_items);
}

TEST(CutWindowsTest, EveryWindowPiecesOne) {
  EXPECT_EQ(cut({}, 3), Firsts{});
  EXPECT_EQ(cut({1}, 3), Firsts{0});
  EXPECT_EQ(cut({1, 1, 1}, 3), Firsts{0});
  EXPECT_EQ(cut({1, 1, 1, 1}, 3), (Firsts{0, 3}));
  EXPECT_EQ(cut({1, 1, 1, 1, 1, 1, 1}, 3), (Firsts{0, 3, 6}));
  EXPECT_EQ(cut({5, 5, 5}, 1), (Firsts{0, 1, 2}));
  EXPECT_EQ(cut({5, 5, 5}, 0xFFFFFFFF), Firsts{0});
}

TEST(CutWindowsTest, TheFirstHasASizeOfItsOwn) {
  const Items sizes(7, 1);
  EXPECT_EQ(cut_windows(sizes, 1, 3), (Firsts{0, 1, 4}));
  EXPECT_EQ(cut_windows(sizes, 2, 3), (Firsts{0, 2, 5}));
  EXPECT_EQ(cut_windows(sizes, 3, 3), (Firsts{0, 3, 6}));
  EXPECT_EQ(cut_windows(sizes, 5, 3), (Firsts{0, 5}));
  EXPECT_EQ(cut_windows(sizes, 9, 3), Firsts{0});
  EXPECT_EQ(cut_windows(sizes, 0xFFFFFFFF, 1), Firsts{0});
  EXPECT_EQ(cut_windows({}, 1, 3), Firsts{});
}

TEST(CutWindowsTest, AWindowEndsBeforeItWouldPassTheMaximum) {
  EXPECT_EQ(cut({4, 6}, 5, 10), Firsts{0});  // 10 exactly
  EXPECT_EQ(cut({4, 7}, 5, 10), (Firsts{0, 1}));
  EXPECT_EQ(cut({10, 1, 10, 1, 1}, 5, 10), (Firsts{0, 1, 2, 3}));
  EXPECT_EQ(cut({10, 10, 10}, 5, 10), (Firsts{0, 1, 2}));
  // The count of pieces starts again with such a window.
  EXPECT_EQ(cut({9, 2, 2, 2, 2}, 3, 10), (Firsts{0, 1, 4}));
  EXPECT_EQ(cut({kMaxWindowItems, 1, kMaxWindowItems - 1, 1}, 4), (Firsts{0, 1, 3}));
  // A first window that ends early is the first all the same.
  EXPECT_EQ(cut_windows(Items{9, 2, 2, 2, 2}, 2, 3, 10), (Firsts{0, 1, 4}));
}

TEST(CutWindowsTest, OnePieceAboveTheMaximumIsRefused) {
  EXPECT_EQ(error_of([] { return cut({1, 11}, 5, 10); }).code(), ErrorCode::kUnsupported);
  EXPECT_EQ(error_of([] { return cut({kMaxWindowItems + 1}, 5); }).code(), ErrorCode::kUnsupported);
  const Error error = error_of([] { return cut({1, kMax}, 5); });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_EQ(error.message(),
            "a chunk of 18446744073709551615 items cannot be shuffled: at most 4294967295 are "
            "possible");
}

/// Pieces of a set, windows of them, and a key.
struct Stream {
  std::shared_ptr<const IntervalSet> set;
  std::vector<Piece> pieces;
  Firsts firsts;
  Items key;

  [[nodiscard]] WindowOrder order() const { return {set, pieces, firsts, key}; }
  /// The items in the order that the comment of WindowOrder gives them.
  [[nodiscard]] Items documented() const {
    Items items;
    for (std::size_t w = 0; w < firsts.size(); ++w) {
      Items joined;
      const std::size_t end = w + 1 < firsts.size() ? firsts[w + 1] : pieces.size();
      for (std::size_t k = firsts[w]; k < end; ++k) {
        for (std::uint64_t p = pieces[k].begin; p < pieces[k].end; ++p) {
          joined.push_back(set->item_at(p));
        }
      }
      Items parts = key;
      parts.push_back(w);
      for (const std::uint32_t i : test::permuted(joined.size(), parts)) {
        items.push_back(joined[i]);
      }
    }
    return items;
  }
};

/// Pieces that begin and end anywhere in the intervals, in any order, in windows of any sizes.
Stream random_stream(std::mt19937_64& random) {
  Stream stream{test::random_set(random).set(), {}, {}, {random(), random()}};
  for (std::uint64_t at = random() % 5; at < stream.set->size(); at += random() % 3) {
    const std::uint64_t size = 1 + random() % (random() % 4 == 0 ? 200 : 9);
    const std::uint64_t end = std::min(stream.set->size(), at + size);
    stream.pieces.push_back({at, end});
    at = end;
  }
  std::ranges::shuffle(stream.pieces, random);
  for (std::size_t k = 0; k < stream.pieces.size(); k += 1 + random() % 6) {
    stream.firsts.push_back(k);
  }
  return stream;
}

TEST(WindowOrderTest, IsWhatTheTextSays) {
  std::mt19937_64 random(41);
  for (int round = 0; round < 300; ++round) {
    const Stream stream = random_stream(random);
    WindowOrder order = stream.order();
    const Items items = stream.documented();
    for (std::uint64_t offset = 0; offset < items.size(); ++offset) {
      ASSERT_EQ(order.item_at(offset), items[offset]);
    }
  }
}

TEST(WindowOrderTest, AnyOffsetAtAnyTimeAsItemOrAsPlace) {
  std::mt19937_64 random(42);
  for (int round = 0; round < 100; ++round) {
    const Stream stream = random_stream(random);
    const Items items = stream.documented();
    WindowOrder order = stream.order();
    for (int jump = 0; jump < 50 && !items.empty(); ++jump) {
      const std::uint64_t offset = random() % items.size();
      if (jump % 2 == 0) {
        ASSERT_EQ(order.item_at(offset), items[offset]);
      } else {
        const ItemPlace place = order.place_at(offset);
        const Interval interval = stream.set->intervals()[place.interval];
        ASSERT_LT(place.offset, interval.size());
        ASSERT_EQ(interval.begin + place.offset, items[offset]);
      }
    }
  }
}

TEST(WindowOrderTest, WindowsLieOneAfterAnotherAndNameTheirPieces) {
  std::mt19937_64 random(43);
  for (int round = 0; round < 100; ++round) {
    const Stream stream = random_stream(random);
    const WindowOrder order = stream.order();
    ASSERT_EQ(order.windows(), stream.firsts.size());
    std::size_t piece = 0;
    std::uint64_t offset = 0;
    for (std::size_t w = 0; w < order.windows(); ++w) {
      ASSERT_EQ(order.start(w), offset);
      ASSERT_EQ(piece, stream.firsts[w]);
      for (const Piece& p : order.pieces(w)) {
        ASSERT_EQ(p.begin, stream.pieces[piece].begin);
        ASSERT_EQ(p.end, stream.pieces[piece].end);
        offset += p.end - p.begin;
        ++piece;
      }
    }
    ASSERT_EQ(piece, stream.pieces.size());
    ASSERT_EQ(order.start(order.windows()), offset);
  }
}

TEST(WindowOrderTest, OfNothing) {
  const WindowOrder order(std::make_shared<const IntervalSet>(), {}, {}, {});
  EXPECT_EQ(order.windows(), 0U);
  EXPECT_EQ(order.start(0), 0U);
}

// Very uneven intervals: the look-up of an offset's interval has many borders in one place.
TEST(WindowOrderTest, UnevenIntervals) {
  test::Intervals intervals{{0, 100'000}};
  for (std::uint64_t i = 0; i < 3000; ++i) intervals.push_back({200'000 + 2 * i, 200'001 + 2 * i});
  intervals.push_back({1'000'000, 1'005'000});
  const auto set = std::make_shared<const IntervalSet>(intervals);
  const Stream stream{set, {{0, set->size()}}, {0}, {1}};
  WindowOrder order = stream.order();
  const Items items = stream.documented();
  for (std::uint64_t offset = 0; offset < items.size(); ++offset) {
    ASSERT_EQ(order.item_at(offset), items[offset]);
  }
}

}  // namespace
}  // namespace stoker
