// SPDX-License-Identifier: Apache-2.0
#include "plan/intervals.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "error_of.h"
#include "plan/plan_samples.h"

namespace stoker {
namespace {

using test::error_of;
using test::PlannedSet;

constexpr std::uint64_t kMax = ~std::uint64_t{0};
constexpr std::uint64_t kMaxPositions = kMax >> 1;

TEST(IntervalSetTest, OfNothing) {
  for (const IntervalSet& set :
       {IntervalSet(), IntervalSet(std::vector<Interval>{}), IntervalSet({{5, 5}, {0, 0}})}) {
    EXPECT_EQ(set.size(), 0U);
    EXPECT_TRUE(set.intervals().empty());
    EXPECT_EQ(set.start_of(0), 0U);
    EXPECT_EQ(set.groups(), 0U);
    EXPECT_EQ(set.group_start(0), 0U);
    EXPECT_EQ(error_of([&] { return set.item_at(0); }).code(), ErrorCode::kOutOfRange);
    EXPECT_EQ(error_of([&] { return set.interval_at(0); }).code(), ErrorCode::kOutOfRange);
  }
}

TEST(IntervalSetTest, PositionsWalkTheIntervals) {
  const IntervalSet set({{10, 13}, {7, 7}, {0, 1}, {20, 22}});
  ASSERT_EQ(set.size(), 6U);
  std::vector<std::uint64_t> items;
  std::vector<std::uint64_t> runs;
  for (std::uint64_t p = 0; p < 6; ++p) {
    items.push_back(set.item_at(p));
    runs.push_back(set.run_at(p));
  }
  EXPECT_EQ(items, (std::vector<std::uint64_t>{10, 11, 12, 0, 20, 21}));
  EXPECT_EQ(runs, (std::vector<std::uint64_t>{3, 2, 1, 1, 2, 1}));
}

TEST(IntervalSetTest, EmptyIntervalsAreDropped) {
  const IntervalSet set({{4, 4}, {1, 3}, {9, 9}, {5, 6}, {0, 0}});
  ASSERT_EQ(set.intervals().size(), 2U);
  EXPECT_EQ(set.intervals()[0], (Interval{1, 3}));
  EXPECT_EQ(set.intervals()[1], (Interval{5, 6}));
  EXPECT_EQ(set.start_of(0), 0U);
  EXPECT_EQ(set.start_of(1), 2U);
  EXPECT_EQ(set.start_of(2), set.size());
}

TEST(IntervalSetTest, RepeatsCountEachTime) {
  const IntervalSet set({{3, 5}, {3, 5}, {4, 5}});
  EXPECT_EQ(set.size(), 5U);
  EXPECT_EQ(set.item_at(0), 3U);
  EXPECT_EQ(set.item_at(2), 3U);
  EXPECT_EQ(set.item_at(4), 4U);
}

TEST(IntervalSetTest, OutOfRange) {
  const IntervalSet set({{10, 13}});
  for (const std::uint64_t past : {std::uint64_t{3}, kMax}) {
    const Error error = error_of([&] { return set.item_at(past); });
    EXPECT_EQ(error.code(), ErrorCode::kOutOfRange);
    EXPECT_EQ(error_of([&] { return set.interval_at(past); }).message(), error.message());
    EXPECT_EQ(error.message(), "position " + std::to_string(past) + " of 3");
  }
}

TEST(IntervalSetTest, AnIntervalThatEndsBeforeItBeginsIsRefused) {
  const Error error = error_of([] { return IntervalSet({{0, 2}, {5, 3}}); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.message(), "the interval [5, 3) ends before it begins");
  EXPECT_EQ(error_of([] { return IntervalSet({{kMax, 0}}); }).code(), ErrorCode::kInvalidArgument);
}

TEST(IntervalSetTest, PositionsFitInSignedNumbers) {
  const IntervalSet largest({{0, kMaxPositions - 2}, {kMax - 2, kMax}});
  EXPECT_EQ(largest.size(), kMaxPositions);
  EXPECT_EQ(largest.item_at(kMaxPositions - 1), kMax - 1);
  EXPECT_EQ(largest.run_at(kMaxPositions - 2), 2U);

  const Error error = error_of([] { return IntervalSet({{0, kMaxPositions}, {7, 8}}); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.message(), "the interval [7, 8) passes 2^63 - 1 items in all");
  EXPECT_EQ(error_of([] {
              return IntervalSet({{0, kMaxPositions + 1}});
            }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([] {
              return IntervalSet({{0, kMax}, {0, kMax}});
            }).code(),
            ErrorCode::kInvalidArgument);
}

TEST(IntervalSetTest, AgreesWithAPlainWalk) {
  std::mt19937_64 random(17);
  for (int round = 0; round < 50; ++round) {
    std::vector<Interval> intervals(random() % 40);
    std::vector<std::uint64_t> walked;
    std::vector<std::uint64_t> runs;
    std::vector<std::size_t> numbers;
    std::size_t number = 0;
    for (Interval& interval : intervals) {
      interval.begin = random() % 1000;
      interval.end = interval.begin + random() % 20;
      numbers.insert(numbers.end(), interval.size(), number);
      number += interval.size() == 0 ? 0 : 1;
      for (std::uint64_t i = interval.begin; i < interval.end; ++i) {
        walked.push_back(i);
        runs.push_back(interval.end - i);
      }
    }
    const IntervalSet set(intervals);
    ASSERT_EQ(set.size(), walked.size());
    for (std::uint64_t p = 0; p < set.size(); ++p) {
      ASSERT_EQ(set.item_at(p), walked[p]);
      ASSERT_EQ(set.run_at(p), runs[p]);
      ASSERT_EQ(set.interval_at(p), numbers[p]);
    }
  }
}

/// The first positions of all groups, and the end.
std::vector<std::uint64_t> starts_of(const PlannedSet& planned) {
  const std::shared_ptr<const IntervalSet> set = planned.set();
  std::vector<std::uint64_t> starts;
  for (std::size_t g = 0; g <= set->groups(); ++g) starts.push_back(set->group_start(g));
  return starts;
}

using Starts = std::vector<std::uint64_t>;

TEST(GroupsTest, WithoutChunksEveryIntervalIsOne) {
  EXPECT_EQ(starts_of({{{0, 2}, {2, 4}, {4, 4}, {7, 8}}, {}}), (Starts{0, 2, 4, 5}));
}

TEST(GroupsTest, NeighboursInOneChunkAreOne) {
  const std::vector<std::uint64_t> chunks{10, 10, 10};
  EXPECT_EQ(starts_of({{{0, 10}, {10, 20}, {20, 30}}, chunks}), (Starts{0, 10, 20, 30}));
  EXPECT_EQ(starts_of({{{0, 2}, {2, 3}, {5, 6}, {9, 10}}, chunks}), (Starts{0, 5}));
  EXPECT_EQ(starts_of({{{0, 2}, {9, 10}, {10, 11}, {19, 20}, {25, 26}}, chunks}),
            (Starts{0, 3, 5, 6}));
  EXPECT_EQ(starts_of({{{3, 4}, {7, 7}, {0, 0}, {5, 6}}, chunks}), (Starts{0, 2}));  // none between
}

TEST(GroupsTest, ChunksOfNoItemsDoNotCount) {
  const std::vector<std::uint64_t> chunks{0, 4, 0, 0, 4, 0};
  EXPECT_EQ(starts_of({{{0, 1}, {3, 4}, {4, 5}, {7, 8}}, chunks}), (Starts{0, 2, 4}));
}

TEST(GroupsTest, RepeatedAndDescendingIntervalsBeginAnother) {
  const std::vector<std::uint64_t> chunks{10, 10};
  EXPECT_EQ(starts_of({{{0, 2}, {0, 2}, {2, 4}}, chunks}), (Starts{0, 2, 6}));
  EXPECT_EQ(starts_of({{{4, 6}, {2, 4}, {5, 7}}, chunks}), (Starts{0, 2, 6}));
  EXPECT_EQ(starts_of({{{0, 4}, {3, 5}}, chunks}), (Starts{0, 4, 6}));  // shares an item
  EXPECT_EQ(starts_of({{{1, 2}, {11, 12}, {3, 4}}, chunks}), (Starts{0, 1, 2, 3}));  // comes back
}

TEST(GroupsTest, ItemsOfNoChunkAreAlone) {
  EXPECT_EQ(starts_of({{{2, 4}, {6, 7}, {12, 13}, {13, 14}}, {5, 5}}), (Starts{0, 2, 3, 4, 5}));
}

TEST(GroupsTest, AgreeWithAPlainWalk) {
  std::mt19937_64 random(18);
  for (int round = 0; round < 300; ++round) {
    const PlannedSet planned = test::random_parts(random, 20, 40);
    Starts starts{0};
    for (const test::Items& group : test::groups_of(planned)) {
      starts.push_back(starts.back() + group.size());
    }
    ASSERT_EQ(starts_of(planned), starts);
  }
}

}  // namespace
}  // namespace stoker
