// SPDX-License-Identifier: Apache-2.0
// Places and windows of plan/epoch_plan.h: the same order as item numbers, seen from the intervals.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "error_of.h"
#include "plan/epoch_plan.h"

namespace stoker {
namespace {

using test::error_of;
using Intervals = std::vector<Interval>;

Intervals random_intervals(std::mt19937_64& random, std::uint64_t most, std::uint64_t longest) {
  Intervals intervals(random() % (most + 1));
  std::uint64_t at = random() % 100;
  for (Interval& interval : intervals) {
    interval.begin = at + random() % 3;
    at = interval.end = interval.begin + (random() % 4 == 0 ? 0 : random() % (longest + 1));
  }
  std::ranges::shuffle(intervals, random);
  return intervals;
}

PlanOptions random_options(std::mt19937_64& random) {
  return {.shuffle = random() % 3 != 0,
          .seed = random(),
          .epoch = random() % 9,
          .window = static_cast<std::uint32_t>(1 + random() % 12)};
}

EpochPlan plan_of(const Intervals& intervals, const PlanOptions& options) {
  return {std::make_shared<const IntervalSet>(intervals), options};
}

std::vector<std::uint64_t> items_of(const EpochPlan& plan, const std::vector<ItemPlace>& places) {
  std::vector<std::uint64_t> items;
  for (const ItemPlace& place : places) {
    const Interval& interval = plan.set().intervals()[place.interval];
    EXPECT_LT(place.offset, interval.size());
    items.push_back(interval.begin + place.offset);
  }
  return items;
}

TEST(EpochPlacesTest, AreTheItemsOfFill) {
  std::mt19937_64 random(77);
  for (int round = 0; round < 300; ++round) {
    const Intervals intervals = random_intervals(random, 40, 60);
    const PlanOptions options = random_options(random);
    EpochPlan plan = plan_of(intervals, options);
    std::vector<std::uint64_t> items(plan.size());
    plan.fill(0, items);
    std::vector<ItemPlace> places(plan.size());
    plan.fill_places(0, places);
    ASSERT_EQ(items_of(plan, places), items);
  }
}

TEST(EpochPlacesTest, PiecesGiveWhatTheWholeGives) {
  std::mt19937_64 random(78);
  for (int round = 0; round < 100; ++round) {
    const Intervals intervals = random_intervals(random, 30, 40);
    const PlanOptions options = random_options(random);
    EpochPlan plan = plan_of(intervals, options);
    std::vector<ItemPlace> whole(plan.size());
    plan.fill_places(0, whole);
    for (int jump = 0; jump < 30 && !whole.empty(); ++jump) {
      const std::size_t at = random() % whole.size();
      std::vector<ItemPlace> piece(random() % (whole.size() - at + 1));
      plan.fill_places(at, piece);
      ASSERT_TRUE(std::ranges::equal(piece, std::span(whole).subspan(at, piece.size())));
      std::vector<std::uint64_t> items(piece.size());  // both calls of one plan
      plan.fill(at, items);
      ASSERT_EQ(items_of(plan, piece), items);
    }
  }
}

TEST(EpochPlacesTest, PositionsPastTheEndAreRefused) {
  for (const bool shuffle : {false, true}) {
    EpochPlan plan = plan_of({{0, 6}, {9, 13}}, {.shuffle = shuffle});
    plan.fill_places(10, {});
    const auto fill = [&](std::uint64_t position, std::size_t count) {
      std::vector<ItemPlace> out(count);
      return error_of([&] {
        plan.fill_places(position, out);
        return 0;
      });
    };
    EXPECT_EQ(fill(0, 11).message(), "11 positions from 0 on, of 10");
    EXPECT_EQ(fill(10, 1).code(), ErrorCode::kOutOfRange);
    EXPECT_EQ(fill(~std::uint64_t{0}, 2).code(), ErrorCode::kOutOfRange);
    for (const std::uint64_t position : {std::uint64_t{10}, ~std::uint64_t{0}}) {
      EXPECT_EQ(error_of([&] { return plan.window_at(position); }).code(), ErrorCode::kOutOfRange);
    }
  }
}

TEST(EpochPlacesTest, AnOffsetOfMoreThan32BitsHasNoPlace) {
  constexpr std::uint64_t kMost = 0xFFFFFFFFULL;
  EpochPlan plan = plan_of({{0, 3}, {5, 5 + kMost + 2}}, {});
  std::vector<ItemPlace> last(1);
  plan.fill_places(3 + kMost, last);
  EXPECT_EQ(last[0], (ItemPlace{1, 0xFFFFFFFF}));
  const Error error = error_of([&] {
    plan.fill_places(3 + kMost + 1, last);
    return 0;
  });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
}

/// Windows lie one after another, and their items are those of their intervals.
void check_windows(EpochPlan& plan) {
  std::vector<ItemPlace> places(plan.size());
  plan.fill_places(0, places);
  std::vector<int> seen(plan.set().intervals().size());
  ASSERT_EQ(plan.window_start(0), 0U);
  for (std::size_t w = 0; w < plan.windows(); ++w) {
    const std::uint64_t begin = plan.window_start(w);
    const std::uint64_t end = plan.window_start(w + 1);
    ASSERT_LT(begin, end);
    std::vector<std::uint64_t> left(seen.size());
    for (const std::uint32_t interval : plan.window_intervals(w)) {
      ++seen.at(interval);
      left[interval] = plan.set().intervals()[interval].size();
    }
    for (std::uint64_t p = begin; p < end; ++p) {
      ASSERT_EQ(plan.window_at(p), w);
      ASSERT_GT(left[places[p].interval]--, 0U);
    }
    ASSERT_EQ(std::ranges::count(left, 0U), static_cast<std::ptrdiff_t>(left.size()));
  }
  ASSERT_EQ(plan.window_start(plan.windows()), plan.size());
  ASSERT_EQ(seen, std::vector<int>(seen.size(), 1));
}

TEST(EpochWindowsTest, CoverAllPositionsAndIntervalsOnce) {
  std::mt19937_64 random(79);
  for (int round = 0; round < 200; ++round) {
    const Intervals intervals = random_intervals(random, 40, 30);
    EpochPlan plan = plan_of(intervals, random_options(random));
    check_windows(plan);
  }
}

TEST(EpochWindowsTest, WithoutShuffleEachIntervalIsOne) {
  const EpochPlan plan = plan_of({{7, 9}, {3, 3}, {0, 5}}, {.shuffle = false, .window = 9});
  EXPECT_EQ(plan.windows(), 2U);
  EXPECT_EQ(plan.window_intervals(1), std::vector<std::uint32_t>{1});
  EXPECT_EQ(plan.window_at(1), 0U);
  EXPECT_EQ(plan.window_at(2), 1U);
}

TEST(EpochWindowsTest, NoIntervalsNoWindows) {
  for (const bool shuffle : {false, true}) {
    const EpochPlan plan = plan_of({{4, 4}}, {.shuffle = shuffle});
    EXPECT_EQ(plan.windows(), 0U);
    EXPECT_EQ(plan.window_start(0), 0U);
  }
}

}  // namespace
}  // namespace stoker
