// SPDX-License-Identifier: Apache-2.0
// Places and windows of plan/epoch_plan.h: the same order as item numbers, seen from the intervals.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "error_of.h"
#include "plan/epoch_plan.h"
#include "plan/plan_samples.h"

namespace stoker {
namespace {

using test::all_of;
using test::error_of;
using test::full;
using test::Items;
using test::plan_of;
using test::PlannedSet;
using test::windows;
using Places = std::vector<ItemPlace>;

constexpr std::uint64_t kMax = ~std::uint64_t{0};
constexpr std::uint64_t kMost = 0xFFFFFFFFULL;

PlanOptions random_options(std::mt19937_64& random) {
  switch (random() % 4) {
    case 0:
      return {};
    case 1:
      return full(random(), random() % 9);
    default:
      return test::random_windows(random);
  }
}

Items items_of(const EpochPlan& plan, const Places& places) {
  Items items;
  for (const ItemPlace& place : places) {
    const Interval& interval = plan.set().intervals()[place.interval];
    EXPECT_LT(place.offset, interval.size());
    items.push_back(interval.begin + place.offset);
  }
  return items;
}

Places places_at(EpochPlan& plan, const Items& positions) {
  Places places(positions.size());
  plan.places_at(positions, places);
  return places;
}

Items all_positions(std::uint64_t size) {
  Items positions(size);
  std::iota(positions.begin(), positions.end(), 0U);
  return positions;
}

/// Some of the positions, ascending: any, runs of neighbours, or every so many.
Items random_positions(std::mt19937_64& random, std::uint64_t size) {
  Items positions;
  const std::uint64_t kind = random() % 3;
  const std::uint64_t step = 1 + random() % 20;
  bool takes = true;
  for (std::uint64_t p = random() % step; p < size; p += kind == 0 ? step : 1) {
    if (kind == 1 && random() % step == 0) takes = !takes;
    if (kind == 2) takes = random() % step == 0;
    if (takes) positions.push_back(p);
  }
  return positions;
}

TEST(EpochPlacesTest, AreTheItemsOfFill) {
  std::mt19937_64 random(77);
  for (int round = 0; round < 500; ++round) {
    const PlannedSet set = test::random_set(random);
    EpochPlan plan = plan_of(set, random_options(random));
    const Items items = all_of(plan);
    ASSERT_EQ(items_of(plan, places_at(plan, all_positions(plan.size()))), items);
  }
}

TEST(EpochPlacesTest, SubsetsGiveWhatTheWholeGives) {
  std::mt19937_64 random(78);
  for (int round = 0; round < 300; ++round) {
    const PlannedSet set = test::random_set(random);
    const PlanOptions options = random_options(random);
    EpochPlan plan = plan_of(set, options);
    const Items whole = all_of(set, options);
    for (int subset = 0; subset < 10; ++subset) {  // not in the order of the epoch
      const Items positions = random_positions(random, plan.size());
      Items expected;
      for (const std::uint64_t p : positions) expected.push_back(whole[p]);
      Items found(positions.size());
      plan.items_at(positions, found);
      ASSERT_EQ(found, expected);
      ASSERT_EQ(items_of(plan, places_at(plan, positions)), expected);
    }
  }
}

// What ranks ask for: batch after batch the rows that Streams gives them.
TEST(EpochPlacesTest, RowsOfAllRanksAreAllItems) {
  std::mt19937_64 random(80);
  for (int round = 0; round < 60; ++round) {
    const PlannedSet set = test::random_set(random);
    const PlanOptions options = random_options(random);
    Items found;
    const auto world = static_cast<std::uint32_t>(1 + random() % 5);
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      EpochPlan plan = plan_of(set, options);
      const BatchSlices slices{plan.size(), 0, 7, rank, world};
      for (std::uint64_t j = 0; j < slices.count(); ++j) {
        Items positions(slices.slice(j).rows);
        plan.streams().rows(slices.slice(j), positions);
        for (const std::uint64_t item : items_of(plan, places_at(plan, positions))) {
          found.push_back(item);
        }
      }
    }
    Items expected = all_of(set, {});
    std::ranges::sort(found);
    std::ranges::sort(expected);
    ASSERT_EQ(found, expected);
  }
}

TEST(EpochPlacesTest, PositionsPastTheEndAreRefused) {
  for (const PlanOptions& options : {PlanOptions{}, windows(), full()}) {
    EpochPlan plan = plan_of({{{0, 6}, {9, 13}}, {}}, options);
    const auto code_of = [&](const Items& positions) {
      Items items(positions.size());
      Places places(positions.size());
      const Error error = error_of([&] {
        plan.items_at(positions, items);
        return 0;
      });
      EXPECT_EQ(error_of([&] {
                  plan.places_at(positions, places);
                  return 0;
                }).code(),
                error.code());
      return error.code();
    };
    EXPECT_EQ(places_at(plan, {}).size(), 0U);
    EXPECT_EQ(code_of({10}), ErrorCode::kOutOfRange);
    EXPECT_EQ(code_of({kMax}), ErrorCode::kOutOfRange);
    EXPECT_EQ(code_of({0, 1, 2, 9, 10}), ErrorCode::kOutOfRange);
    EXPECT_EQ(code_of({3, 5, kMax}), ErrorCode::kOutOfRange);
    EXPECT_EQ(places_at(plan, all_positions(10)).size(), 10U);  // still of use
  }
}

TEST(EpochPlacesTest, AnOffsetOfMoreThan32BitsHasNoPlace) {
  EpochPlan plan = plan_of({{{0, 3}, {5, 5 + kMost + 2}}, {}}, {});
  EXPECT_EQ(places_at(plan, {3 + kMost}), (Places{{1, 0xFFFFFFFF}}));
  EXPECT_EQ(error_of([&] { return places_at(plan, {3 + kMost + 1}); }).code(),
            ErrorCode::kUnsupported);
}

// Streams cut an interval so that windows are small, but its later items still have no place.
TEST(EpochPlacesTest, NorHasItWhenTheIntervalIsCutByStreams) {
  const PlannedSet set{{{0, kMost + 1 + 65536}}, {}};
  try {
    EpochPlan plan = plan_of(set, windows(42, 1, 4, 65536));
    const Places places = places_at(plan, {65535});  // of the last stream, whose items pass 2^32
    Items item(1);
    plan.items_at(Items{65535}, item);
    EXPECT_EQ(items_of(plan, places), item);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  }
}

/// Windows of one stream cover its positions one after another.
void check_streams(const EpochPlan& plan) {
  const Streams& streams = plan.streams();
  std::vector<std::uint64_t> next(streams.count());    // position
  std::vector<std::uint32_t> number(streams.count());  // of the next window
  for (std::uint32_t c = 0; c < streams.count(); ++c) next[c] = c;
  std::uint64_t begin = 0;
  for (const PlanWindow& window : plan.windows()) {
    ASSERT_GE(window.begin, begin);  // by begin
    begin = window.begin;
    ASSERT_LT(window.stream, streams.count());
    ASSERT_EQ(window.begin, next[window.stream]);
    ASSERT_EQ(window.number, number[window.stream]++);
    ASSERT_LT(window.begin, window.end);
    ASSERT_LE(window.end, plan.size());
    ASSERT_EQ((window.end - 1) % streams.count(), window.stream);
    next[window.stream] = window.end - 1 + streams.count();
  }
  for (std::uint32_t c = 0; c < streams.count(); ++c) {
    ASSERT_EQ(next[c], c + streams.size(c) * streams.count());
  }
}

/// Every item lies in a chunk that the window of its position names, and none is named for nothing.
void check_chunks(EpochPlan& plan, const PlannedSet& set) {
  const auto chunk_of_interval = [&](std::uint32_t k) {
    const Interval& interval = plan.set().intervals()[k];
    return set.chunk_sizes.empty() ? k : test::chunk_of(set, interval.begin);
  };
  const Places places = places_at(plan, all_positions(plan.size()));
  for (const PlanWindow& window : plan.windows()) {
    std::set<std::size_t> named;
    std::set<std::size_t> read;
    for (const std::uint32_t k : plan.intervals_of(window)) named.insert(chunk_of_interval(k));
    for (std::uint64_t p = window.begin; p < window.end; p += plan.streams().count()) {
      read.insert(chunk_of_interval(places[p].interval));
    }
    ASSERT_EQ(named, read);
  }
}

TEST(EpochWindowsTest, CoverAllPositionsAndNameTheirChunks) {
  std::mt19937_64 random(79);
  for (int round = 0; round < 400; ++round) {
    const PlannedSet set = test::random_set(random);
    PlanOptions options = random_options(random);
    if (options.shuffle == Shuffle::kFull) options.shuffle = Shuffle::kNone;
    EpochPlan plan = plan_of(set, options);
    ASSERT_NO_FATAL_FAILURE(check_streams(plan));
    ASSERT_NO_FATAL_FAILURE(check_chunks(plan, set));
  }
}

TEST(EpochWindowsTest, TheFirstOfTheStreamsAreStaggered) {
  for (const std::uint32_t window : {1U, 3U, 4U}) {
    const PlannedSet set = test::equal_chunks(80, 5);
    const EpochPlan plan = plan_of(set, windows(3, 1, window, 8));
    std::map<std::uint32_t, std::vector<std::size_t>> sizes;  // of the windows of each stream
    for (const PlanWindow& w : plan.windows()) {
      sizes[w.stream].push_back(plan.intervals_of(w).size());
    }
    ASSERT_EQ(sizes.size(), 8U);
    for (const auto& [stream, of_stream] : sizes) {
      EXPECT_EQ(of_stream.front(), 1 + stream % window);
      for (std::size_t w = 1; w + 1 < of_stream.size(); ++w) EXPECT_EQ(of_stream[w], window);
    }
  }
}

TEST(EpochWindowsTest, WithoutShuffleEachGroupIsOne) {
  const PlannedSet set{{{7, 9}, {3, 3}, {0, 2}, {4, 5}, {5, 6}}, {5, 5}};
  const EpochPlan plan = plan_of(set, {.window = 9, .streams = 3});
  ASSERT_EQ(plan.windows().size(), 3U);
  const std::vector<std::uint64_t> starts{0, 2, 5, 6};
  const std::vector<std::uint32_t> intervals{0, 1, 3};
  for (std::size_t w = 0; w < 3; ++w) {
    const PlanWindow& window = plan.windows()[w];
    EXPECT_EQ(window.begin, starts[w]);
    EXPECT_EQ(window.end, starts[w + 1]);
    EXPECT_EQ(window.stream, 0U);
    EXPECT_EQ(plan.intervals_of(window), std::vector<std::uint32_t>{intervals[w]});
  }
}

TEST(EpochWindowsTest, AnyChunkAtAnyTimeIsNoWindow) {
  EXPECT_TRUE(plan_of(test::equal_chunks(5, 5), full()).windows().empty());
}

TEST(EpochWindowsTest, NoIntervalsNoWindows) {
  for (const PlanOptions& options : {PlanOptions{}, windows(), full()}) {
    EXPECT_TRUE(plan_of({{{4, 4}}, {9}}, options).windows().empty());
  }
}

}  // namespace
}  // namespace stoker
