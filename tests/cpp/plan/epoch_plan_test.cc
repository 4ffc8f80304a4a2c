// SPDX-License-Identifier: Apache-2.0
// The pinned orders come from a program of its own that follows the text of plan/epoch_plan.h. They
// never change while kOrderVersion is 1.
#include "plan/epoch_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "error_of.h"
#include "plan/rng.h"

namespace stoker {
namespace {

using internal::cut_windows;
using test::error_of;
using Items = std::vector<std::uint64_t>;
using Intervals = std::vector<Interval>;

constexpr std::uint64_t kMax = ~std::uint64_t{0};
constexpr std::uint64_t kMaxWindowItems = 0xFFFFFFFFULL;

EpochPlan plan_of(const Intervals& intervals, const PlanOptions& options) {
  return {std::make_shared<const IntervalSet>(intervals), options};
}

Items all_of(EpochPlan& plan) {
  Items items(plan.size());
  plan.fill(0, items);
  return items;
}

Items all_of(const Intervals& intervals, const PlanOptions& options) {
  EpochPlan plan = plan_of(intervals, options);
  return all_of(plan);
}

PlanOptions shuffled(std::uint64_t seed = 42, std::uint64_t epoch = 1, std::uint64_t window = 16) {
  return {
      .shuffle = true, .seed = seed, .epoch = epoch, .window = static_cast<std::uint32_t>(window)};
}

// Steps 1 to 3 of epoch_plan.h, word for word, with nothing in common with the code but rng.h
// (which has numbers of its own in rng_test.cc).
Items documented_order(const Intervals& all, const PlanOptions& options) {
  Intervals intervals;
  for (const Interval& interval : all) {
    if (interval.begin != interval.end) intervals.push_back(interval);
  }
  const auto permuted = [&](std::size_t count, std::uint64_t purpose, std::uint64_t number) {
    std::vector<std::uint32_t> values(count);
    std::iota(values.begin(), values.end(), 0U);
    const Items parts{1, options.seed, options.epoch, purpose, number};
    Rng rng(derive_key(parts));
    shuffle(values, rng);
    return values;
  };
  const auto order = permuted(intervals.size(), 1, 0);
  Items result;
  for (std::size_t first = 0, w = 0; first < order.size(); first += options.window, ++w) {
    Items joined;
    for (std::size_t k = first; k < std::min(first + options.window, order.size()); ++k) {
      const Interval& interval = intervals[order[k]];
      for (std::uint64_t i = interval.begin; i < interval.end; ++i) joined.push_back(i);
    }
    for (const std::uint32_t offset : permuted(joined.size(), 2, w)) {
      result.push_back(joined[offset]);
    }
  }
  return result;
}

// Up to `most` intervals of up to `longest` items, some empty, none sharing an item.
Intervals random_intervals(std::mt19937_64& random, std::uint64_t most, std::uint64_t longest) {
  Intervals intervals(random() % (most + 1));
  std::uint64_t at = random() % 5 == 0 ? std::uint64_t{1} << 62 : random() % 100;
  for (Interval& interval : intervals) {
    interval.begin = at + random() % 3;
    at = interval.end = interval.begin + (random() % 4 == 0 ? 0 : random() % (longest + 1));
  }
  std::ranges::shuffle(intervals, random);
  return intervals;
}

const Intervals kSmall{{0, 3}, {10, 14}, {20, 25}, {30, 30}, {40, 42}, {50, 56}};

TEST(EpochPlanTest, PinnedOrders) {
  EXPECT_EQ(kOrderVersion, 1U);
  EXPECT_EQ(all_of(kSmall, shuffled(42, 1, 2)),
            (Items{41, 11, 12, 40, 10, 13, 51, 50, 54, 55, 1, 2, 52, 53, 0, 21, 22, 24, 20, 23}));
  EXPECT_EQ(all_of(kSmall, shuffled(42, 2, 2)),
            (Items{50, 0, 1, 52, 54, 55, 51, 2, 53, 10, 11, 21, 24, 22, 13, 23, 12, 20, 40, 41}));
  EXPECT_EQ(all_of(kSmall, shuffled(7, 1, 2)),
            (Items{24, 2, 20, 1, 23, 0, 22, 21, 11, 10, 12, 50, 55, 13, 53, 51, 52, 54, 40, 41}));
  EXPECT_EQ(all_of(kSmall, shuffled(42, 1, 16)),
            (Items{54, 12, 22, 53, 1, 41, 51, 2, 11, 0, 10, 24, 52, 55, 20, 13, 21, 40, 50, 23}));
  EXPECT_EQ(all_of(kSmall, shuffled(42, 1, 1)),
            (Items{40, 41, 13, 11, 12, 10, 2, 0, 1, 52, 53, 50, 51, 54, 55, 24, 20, 21, 23, 22}));
}

TEST(EpochPlanTest, PinnedOrderOfALargerSet) {
  Intervals intervals;
  for (std::uint64_t c = 0; c < 20; ++c) intervals.push_back({1000 * c, 1000 * c + 100});
  const Items order = all_of(intervals, shuffled(42, 1, 4));
  ASSERT_EQ(order.size(), 2000U);
  EXPECT_EQ(Items(order.begin(), order.begin() + 12),
            (Items{38, 19028, 4069, 19029, 96, 4052, 2019, 73, 19088, 4063, 94, 44}));
  EXPECT_EQ(Items(order.begin() + 1000, order.begin() + 1004), (Items{13080, 5035, 13014, 6082}));
  EXPECT_EQ(Items(order.end() - 4, order.end()), (Items{3046, 3071, 10061, 3070}));
  EXPECT_EQ(derive_key(order), 0xE6BD18148E05CA2DULL);  // of all 2000
}

TEST(EpochPlanTest, ThePlainOptionsArePartOfTheOrder) {
  const PlanOptions options;
  EXPECT_FALSE(options.shuffle);
  EXPECT_EQ(options.seed, 42U);
  EXPECT_EQ(options.epoch, 1U);
  EXPECT_EQ(options.window, 16U);
}

TEST(EpochPlanTest, WithoutShuffleTheIntervalsInOrder) {
  for (const std::uint32_t window : {1U, 2U, 100U}) {
    const PlanOptions options{.shuffle = false, .seed = 9, .epoch = 3, .window = window};
    EXPECT_EQ(all_of({{7, 9}, {0, 2}, {5, 5}, {7, 8}}, options), (Items{7, 8, 0, 1, 7}));
  }
}

TEST(EpochPlanTest, FollowsTheDocumentedSteps) {
  std::mt19937_64 random(2024);
  for (int round = 0; round < 400; ++round) {
    const std::uint64_t longest = std::uint64_t{1} << (random() % 9);
    const Intervals intervals = random_intervals(random, 50, longest);
    const PlanOptions options = shuffled(random(), random() % 5, 1 + random() % 20);
    ASSERT_EQ(all_of(intervals, options), documented_order(intervals, options)) << round;
  }
}

// Very uneven intervals: the look-up of an offset's interval has many borders in one place.
TEST(EpochPlanTest, UnevenIntervals) {
  Intervals intervals{{0, 100'000}};
  for (std::uint64_t i = 0; i < 300; ++i) intervals.push_back({200'000 + 2 * i, 200'001 + 2 * i});
  intervals.push_back({1'000'000, 1'005'000});
  for (const std::uint32_t window : {2U, 16U, 1000U}) {
    const PlanOptions options = shuffled(5, 1, window);
    ASSERT_EQ(all_of(intervals, options), documented_order(intervals, options)) << window;
  }
}

TEST(EpochPlanTest, PiecesGiveWhatTheWholeGives) {
  std::mt19937_64 random(31);
  for (int round = 0; round < 100; ++round) {
    const Intervals intervals = random_intervals(random, 30, 40);
    PlanOptions options = shuffled(random(), 1, 1 + random() % 8);
    options.shuffle = round % 4 != 0;
    const Items whole = all_of(intervals, options);
    EpochPlan plan = plan_of(intervals, options);
    Items pieces(whole.size());
    for (std::size_t at = 0; at < pieces.size();) {  // one after another
      const std::size_t size = std::min<std::size_t>(1 + random() % 60, pieces.size() - at);
      plan.fill(at, std::span(pieces).subspan(at, size));
      at += size;
    }
    ASSERT_EQ(pieces, whole);
    for (int jump = 0; jump < 30 && !whole.empty(); ++jump) {  // anywhere
      const std::size_t at = random() % whole.size();
      Items piece(random() % (whole.size() - at + 1));
      plan.fill(at, piece);
      ASSERT_TRUE(std::ranges::equal(piece, std::span(whole).subspan(at, piece.size())));
    }
  }
}

TEST(EpochPlanTest, EachItemExactlyOnce) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 50; ++round) {
    const Intervals intervals = random_intervals(random, 60, 100);
    Items expected = all_of(intervals, {});
    Items found = all_of(intervals, shuffled(random(), random(), 1 + random() % 70));
    std::ranges::sort(expected);
    std::ranges::sort(found);
    ASSERT_EQ(found, expected);
  }
}

TEST(EpochPlanTest, RepeatedIntervalsComeThatOften) {
  Items found = all_of({{1, 3}, {1, 3}, {2, 3}}, shuffled());
  std::ranges::sort(found);
  EXPECT_EQ(found, (Items{1, 1, 2, 2, 2}));
}

TEST(EpochPlanTest, EmptyIntervalsDoNotCount) {
  const Intervals without{{0, 5}, {9, 12}, {20, 29}};
  const Intervals with{{3, 3}, {0, 5}, {9, 12}, {0, 0}, {20, 29}, {7, 7}};
  EXPECT_EQ(all_of(with, shuffled(1, 1, 2)), all_of(without, shuffled(1, 1, 2)));
}

TEST(EpochPlanTest, SeedEpochAndWindowEachChangeTheOrder) {
  const Intervals intervals{{0, 50}, {50, 100}, {100, 150}, {150, 200}};
  const Items base = all_of(intervals, shuffled(1, 1, 2));
  EXPECT_EQ(base, all_of(intervals, shuffled(1, 1, 2)));
  EXPECT_NE(base, all_of(intervals, shuffled(2, 1, 2)));
  EXPECT_NE(base, all_of(intervals, shuffled(1, 2, 2)));
  EXPECT_NE(base, all_of(intervals, shuffled(1, 1, 3)));
  // A window that holds all intervals is the same whatever its size.
  EXPECT_EQ(all_of(intervals, shuffled(1, 1, 4)), all_of(intervals, shuffled(1, 1, 0xFFFFFFFF)));
}

TEST(EpochPlanTest, ItemNumbersMayBeLarge) {
  const Intervals intervals{{kMax - 5, kMax}, {0, 3}, {std::uint64_t{1} << 40, (1ULL << 40) + 4}};
  Items found = all_of(intervals, shuffled());
  EXPECT_EQ(found, documented_order(intervals, shuffled()));
  std::ranges::sort(found);
  EXPECT_EQ(found.back(), kMax - 1);
}

TEST(EpochPlanTest, NothingToPlan) {
  for (const bool shuffle : {false, true}) {
    EpochPlan plan = plan_of({{4, 4}}, {.shuffle = shuffle});
    EXPECT_EQ(plan.size(), 0U);
    plan.fill(0, {});
    Items one(1);
    EXPECT_EQ(error_of([&] {
                plan.fill(0, one);
                return 0;
              }).code(),
              ErrorCode::kOutOfRange);
  }
}

TEST(EpochPlanTest, PositionsPastTheEndAreRefused) {
  for (const bool shuffle : {false, true}) {
    EpochPlan plan = plan_of({{0, 6}, {9, 13}}, {.shuffle = shuffle});
    const auto fill = [&](std::uint64_t position, std::size_t count) {
      Items out(count);
      return error_of([&] {
        plan.fill(position, out);
        return 0;
      });
    };
    plan.fill(10, {});  // at the end, nothing is asked for
    EXPECT_EQ(fill(0, 11).message(), "11 positions from 0 on, of 10");
    EXPECT_EQ(fill(10, 1).code(), ErrorCode::kOutOfRange);
    EXPECT_EQ(fill(11, 0).code(), ErrorCode::kOutOfRange);
    EXPECT_EQ(fill(kMax, 2).code(), ErrorCode::kOutOfRange);
    EXPECT_EQ(all_of(plan).size(), 10U);  // still of use
  }
}

TEST(EpochPlanTest, ImpossibleOptionsAreRefused) {
  for (const bool shuffle : {false, true}) {
    const PlanOptions options{.shuffle = shuffle, .window = 0};
    const Error error = error_of([&] { return plan_of({{0, 1}}, options); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(error.message(), "the shuffle window must have 1 interval or more");
  }
}

TEST(EpochPlanTest, AnIntervalOfMoreThan32BitsIsReadInOrderOnly) {
  const Intervals intervals{{0, 3}, {5, 5 + kMaxWindowItems + 1}};
  const Error error = error_of([&] { return plan_of(intervals, shuffled()); });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_EQ(error.message(),
            "an interval of 4294967296 items cannot be shuffled: at most 4294967295 are possible");
  EpochPlan plan = plan_of(intervals, {});
  Items items(2);
  plan.fill(kMaxWindowItems, items);
  EXPECT_EQ(items, (Items{5 + kMaxWindowItems - 3, 5 + kMaxWindowItems - 2}));
}

// Making such a plan costs nothing; each window would hold one interval only.
TEST(EpochPlanTest, LargeIntervalsMayBePlanned) {
  const EpochPlan plan = plan_of({{0, kMaxWindowItems}, {0, kMaxWindowItems}}, shuffled());
  EXPECT_EQ(plan.size(), 2 * kMaxWindowItems);
}

using Firsts = std::vector<std::size_t>;
Firsts cut(const Items& sizes, std::uint32_t window, std::uint64_t max_items = kMaxWindowItems) {
  return cut_windows(sizes, window, max_items);
}

TEST(CutWindowsTest, EveryWindowIntervalsOne) {
  EXPECT_EQ(cut({}, 3), Firsts{});
  EXPECT_EQ(cut({1}, 3), Firsts{0});
  EXPECT_EQ(cut({1, 1, 1}, 3), Firsts{0});
  EXPECT_EQ(cut({1, 1, 1, 1}, 3), (Firsts{0, 3}));
  EXPECT_EQ(cut({1, 1, 1, 1, 1, 1, 1}, 3), (Firsts{0, 3, 6}));
  EXPECT_EQ(cut({5, 5, 5}, 1), (Firsts{0, 1, 2}));
  EXPECT_EQ(cut({5, 5, 5}, 0xFFFFFFFF), Firsts{0});
}

TEST(CutWindowsTest, AWindowEndsBeforeItWouldPassTheMaximum) {
  EXPECT_EQ(cut({4, 6}, 5, 10), Firsts{0});  // 10 exactly
  EXPECT_EQ(cut({4, 7}, 5, 10), (Firsts{0, 1}));
  EXPECT_EQ(cut({10, 1, 10, 1, 1}, 5, 10), (Firsts{0, 1, 2, 3}));
  EXPECT_EQ(cut({10, 10, 10}, 5, 10), (Firsts{0, 1, 2}));
  // The count of intervals starts again with such a window.
  EXPECT_EQ(cut({9, 2, 2, 2, 2}, 3, 10), (Firsts{0, 1, 4}));
  EXPECT_EQ(cut({kMaxWindowItems, 1, kMaxWindowItems - 1, 1}, 4), (Firsts{0, 1, 3}));
}

TEST(CutWindowsTest, OneIntervalAboveTheMaximumIsRefused) {
  EXPECT_EQ(error_of([] { return cut({1, 11}, 5, 10); }).code(), ErrorCode::kUnsupported);
  EXPECT_EQ(error_of([] { return cut({kMaxWindowItems + 1}, 5); }).code(), ErrorCode::kUnsupported);
  EXPECT_EQ(error_of([] { return cut({1, kMax}, 5); }).code(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace stoker
