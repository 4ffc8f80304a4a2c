// SPDX-License-Identifier: Apache-2.0
#include "plan/intervals.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "error_of.h"

namespace stoker {
namespace {

using test::error_of;

constexpr std::uint64_t kMax = ~std::uint64_t{0};
constexpr std::uint64_t kMaxPositions = kMax >> 1;

TEST(IntervalSetTest, OfNothing) {
  for (const IntervalSet& set :
       {IntervalSet(), IntervalSet(std::vector<Interval>{}), IntervalSet({{5, 5}, {0, 0}})}) {
    EXPECT_EQ(set.size(), 0U);
    EXPECT_TRUE(set.intervals().empty());
    EXPECT_EQ(set.start_of(0), 0U);
    EXPECT_EQ(error_of([&] { return set.item_at(0); }).code(), ErrorCode::kOutOfRange);
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
    for (Interval& interval : intervals) {
      interval.begin = random() % 1000;
      interval.end = interval.begin + random() % 20;
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
    }
  }
}

}  // namespace
}  // namespace stoker
