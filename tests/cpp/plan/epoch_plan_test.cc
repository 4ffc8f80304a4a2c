// SPDX-License-Identifier: Apache-2.0
// The pinned orders come from a program of its own that follows the text of plan/epoch_plan.h. They
// never change while kOrderVersion is 2.
#include "plan/epoch_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "error_of.h"
#include "plan/plan_samples.h"

namespace stoker {
namespace {

using test::all_of;
using test::documented_order;
using test::error_of;
using test::full;
using test::Intervals;
using test::Items;
using test::plan_of;
using test::PlannedSet;
using test::random_windows;
using test::windows;

constexpr std::uint64_t kMax = ~std::uint64_t{0};
constexpr std::uint64_t kMostItems = 0xFFFFFFFFULL;  // of a window

/// One of every kind of order, the shuffled ones with these.
std::vector<PlanOptions> all_kinds(std::uint64_t seed = 42, std::uint64_t epoch = 1) {
  return {{}, windows(seed, epoch), windows(seed, epoch, 2, 3), full(seed, epoch)};
}

Items sorted(Items items) {
  std::ranges::sort(items);
  return items;
}

const PlannedSet kSmall{{{0, 3}, {10, 14}, {20, 25}, {30, 30}, {40, 42}, {50, 56}}, {}};

TEST(EpochPlanTest, PinnedOrders) {
  EXPECT_EQ(kOrderVersion, 2U);
  EXPECT_EQ(all_of(kSmall, windows(42, 1, 2, 1)),
            (Items{12, 13, 11, 10, 1, 41, 40, 0, 2, 51, 53, 50, 55, 21, 54, 52, 22, 20, 24, 23}));
  EXPECT_EQ(all_of(kSmall, windows(42, 1, 2, 3)),
            (Items{12, 51, 53, 13, 22, 55, 11, 50, 54, 10, 23, 52, 2, 20, 40, 0, 21, 41, 1, 24}));
  EXPECT_EQ(all_of(kSmall, windows(42, 2, 2, 3)),
            (Items{1, 20, 41, 0, 22, 40, 2, 21, 52, 10, 23, 53, 13, 50, 54, 12, 51, 55, 11, 24}));
  EXPECT_EQ(all_of(kSmall, windows(7, 1, 2, 3)),
            (Items{0, 41, 54, 2, 11, 53, 1, 40, 55, 21, 12, 52, 23, 13, 51, 22, 10, 50, 20, 24}));
  EXPECT_EQ(all_of(kSmall, windows(42, 1, 4, 8)),
            (Items{12, 0, 21, 24, 51, 53, 54, 40, 11, 1, 20, 22, 50, 52, 55, 41, 10, 13, 2, 23}));
  EXPECT_EQ(all_of(kSmall, windows(42, 1, 1, 2)),
            (Items{12, 51, 13, 50, 11, 53, 10, 54, 2, 52, 0, 55, 1, 41, 22, 40, 20, 24, 21, 23}));
}

TEST(EpochPlanTest, PinnedOrderOfALargerSet) {
  PlannedSet set;
  for (std::uint64_t c = 0; c < 20; ++c) set.intervals.push_back({1000 * c, 1000 * c + 100});
  const Items order = all_of(set, windows(42, 1, 4, 8));
  ASSERT_EQ(order.size(), 2000U);
  EXPECT_EQ(Items(order.begin(), order.begin() + 12),
            (Items{7090, 14012, 19085, 6062, 8097, 16002, 5060, 15057, 7006, 12052, 19073, 3047}));
  EXPECT_EQ(Items(order.begin() + 1000, order.begin() + 1004), (Items{4091, 12073, 19048, 1036}));
  EXPECT_EQ(Items(order.end() - 4, order.end()), (Items{11044, 10007, 97, 15064}));
  EXPECT_EQ(derive_key(order), 0x5ACA4A112AF62E09ULL);  // of all 2000
}

TEST(EpochPlanTest, ThePlainOptionsArePartOfTheOrder) {
  const PlanOptions options;
  EXPECT_EQ(options.shuffle, Shuffle::kNone);
  EXPECT_EQ(options.seed, 42U);
  EXPECT_EQ(options.epoch, 1U);
  EXPECT_EQ(options.window, 4U);
  EXPECT_EQ(options.streams, 8U);
}

TEST(EpochPlanTest, WithoutShuffleTheIntervalsInOrder) {
  for (const std::uint32_t number : {1U, 2U, 100U}) {
    const PlanOptions options{.seed = 9, .epoch = 3, .window = number, .streams = number};
    EXPECT_EQ(all_of({{{7, 9}, {0, 2}, {5, 5}, {7, 8}}, {}}, options), (Items{7, 8, 0, 1, 7}));
    EXPECT_EQ(all_of({{{7, 9}, {0, 2}, {5, 5}, {7, 8}}, {6, 6}}, options), (Items{7, 8, 0, 1, 7}));
  }
}

TEST(EpochPlanTest, FollowsTheDocumentedSteps) {
  std::mt19937_64 random(2024);
  for (int round = 0; round < 1000; ++round) {
    const PlannedSet set = test::random_set(random);
    const PlanOptions options = random_windows(random);
    ASSERT_EQ(all_of(set, options), documented_order(set, options))
        << round << ", window " << options.window << ", streams " << options.streams;
  }
}

// Very uneven intervals: the look-up of an offset's interval has many borders in one place.
TEST(EpochPlanTest, UnevenIntervals) {
  PlannedSet set{{{0, 100'000}}, {}};
  for (std::uint64_t i = 0; i < 300; ++i) {
    set.intervals.push_back({200'000 + 2 * i, 200'001 + 2 * i});
  }
  set.intervals.push_back({1'000'000, 1'005'000});
  for (const Items& chunks : {Items{}, Items{150'000, 100'000, 2'000'000}}) {
    set.chunk_sizes = chunks;
    for (const std::uint32_t streams : {1U, 7U}) {
      for (const std::uint32_t window : {2U, 16U, 1000U}) {
        const PlanOptions options = windows(5, 1, window, streams);
        ASSERT_EQ(all_of(set, options), documented_order(set, options)) << window;
      }
    }
  }
}

TEST(EpochPlanTest, PiecesGiveWhatTheWholeGives) {
  std::mt19937_64 random(31);
  for (int round = 0; round < 150; ++round) {
    const PlannedSet set = test::random_set(random);
    const std::vector<PlanOptions> kinds{random_windows(random), full(random()), {}};
    const PlanOptions& options = kinds[random() % 4 % 3];
    const Items whole = all_of(set, options);
    EpochPlan plan = plan_of(set, options);
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
  for (int round = 0; round < 200; ++round) {
    const PlannedSet set = test::random_set(random);
    const Items expected = sorted(all_of(set, {}));
    ASSERT_EQ(sorted(all_of(set, random_windows(random))), expected);
    ASSERT_EQ(sorted(all_of(set, full(random(), random()))), expected);
  }
}

TEST(EpochPlanTest, RepeatedIntervalsComeThatOften) {
  for (const PlanOptions& options : all_kinds()) {
    const Items found = all_of({{{1, 3}, {1, 3}, {2, 3}}, {2, 2}}, options);
    EXPECT_EQ(sorted(found), (Items{1, 1, 2, 2, 2}));
  }
}

TEST(EpochPlanTest, EmptyIntervalsDoNotCount) {
  const Intervals without{{0, 5}, {9, 12}, {20, 29}};
  const Intervals with{{3, 3}, {0, 5}, {9, 12}, {0, 0}, {20, 29}, {7, 7}};
  for (const PlanOptions& options : all_kinds()) {
    EXPECT_EQ(all_of({with, {}}, options), all_of({without, {}}, options));
    EXPECT_EQ(all_of({with, {15, 15}}, options), all_of({without, {15, 15}}, options));
  }
}

TEST(EpochPlanTest, SeedEpochWindowAndStreamsEachChangeTheOrder) {
  const PlannedSet set = test::equal_chunks(12, 20);
  const Items base = all_of(set, windows(1, 1, 2, 3));
  EXPECT_EQ(base, all_of(set, windows(1, 1, 2, 3)));
  EXPECT_NE(base, all_of(set, windows(2, 1, 2, 3)));
  EXPECT_NE(base, all_of(set, windows(1, 2, 2, 3)));
  EXPECT_NE(base, all_of(set, windows(1, 1, 3, 3)));
  EXPECT_NE(base, all_of(set, windows(1, 1, 2, 4)));
  // More streams than items are as many as there are items.
  EXPECT_EQ(all_of(set, windows(1, 1, 2, 240)), all_of(set, windows(1, 1, 2, 0xFFFFFFFF)));
  // A window that holds the rest of the stream is the same whatever its size, when the first one,
  // of one chunk, is.
  EXPECT_EQ(all_of(set, windows(1, 1, 11, 1)), all_of(set, windows(1, 1, 0xFFFFFFFF, 1)));
}

/// The items that every stream has, in any order.
std::vector<Items> streams_of(const PlannedSet& set, const PlanOptions& options) {
  EpochPlan plan = plan_of(set, options);
  const Items order = all_of(plan);
  std::vector<Items> streams(plan.streams().count());
  for (std::size_t p = 0; p < order.size(); ++p) streams[p % streams.size()].push_back(order[p]);
  for (Items& items : streams) std::ranges::sort(items);
  return streams;
}

TEST(EpochPlanTest, AStreamHasTheSameItemsInAllEpochs) {
  std::mt19937_64 random(81);
  for (int round = 0; round < 60; ++round) {
    const PlannedSet set = test::random_set(random);
    PlanOptions options = random_windows(random);
    const auto first = streams_of(set, options);
    for (std::uint64_t epoch = 10; epoch < 13; ++epoch) {
      options.epoch = epoch;
      options.window = static_cast<std::uint32_t>(1 + random() % 5);
      ASSERT_EQ(streams_of(set, options), first);
    }
  }
  const PlannedSet set = test::equal_chunks(32, 10);
  EXPECT_NE(streams_of(set, windows(1)), streams_of(set, windows(2)));
}

TEST(EpochPlanTest, EqualChunksThatStreamsDivideAreNotCut) {
  const PlannedSet set = test::equal_chunks(24, 10);
  for (const Items& items : streams_of(set, windows(3, 1, 2, 8))) {
    std::set<std::size_t> chunks;
    for (const std::uint64_t item : items) chunks.insert(test::chunk_of(set, item));
    EXPECT_EQ(chunks.size(), 3U);
  }
}

TEST(EpochPlanTest, OneItem) {
  for (const PlanOptions& options : all_kinds()) {
    EpochPlan plan = plan_of({{{7, 8}}, {20}}, options);
    EXPECT_EQ(all_of(plan), Items{7});
    EXPECT_EQ(plan.streams().count(), 1U);
  }
}

TEST(EpochPlanTest, StreamsOfOneItemEach) {
  for (const std::uint32_t streams : {20U, 21U, 1000U}) {
    EpochPlan plan = plan_of(kSmall, windows(42, 1, 2, streams));
    EXPECT_EQ(plan.streams().count(), 20U);
    EXPECT_EQ(all_of(plan), documented_order(kSmall, windows(42, 1, 2, streams)));
    EXPECT_EQ(sorted(all_of(plan)), sorted(all_of(kSmall, {})));
  }
}

TEST(EpochPlanTest, OnlyWindowsHaveStreams) {
  EXPECT_EQ(plan_of(kSmall, {}).streams().count(), 1U);
  EXPECT_EQ(plan_of(kSmall, full()).streams().count(), 1U);
  EXPECT_EQ(plan_of(kSmall, windows(1, 1, 4, 3)).streams().count(), 3U);
  EXPECT_EQ(plan_of(kSmall, windows()).streams().total(), 20U);
}

// Filtered datasets: hundreds of short intervals in a chunk are read with it, not one by one.
TEST(EpochPlanTest, ManySmallIntervalsInOneChunkAreMixedAsOne) {
  PlannedSet set;
  for (std::uint64_t i = 0; i < 400; ++i) set.intervals.push_back({5 * i, 5 * i + 2});
  const auto chunks_mixed = [&](const Items& chunk_sizes) {
    EpochPlan plan = plan_of({set.intervals, chunk_sizes}, windows(42, 1, 1, 1));
    Items order = all_of(plan);
    order.resize(200);
    std::set<std::uint64_t> intervals;
    for (const std::uint64_t item : order) intervals.insert(item / 5);
    return std::pair(plan.windows().size(), intervals.size());
  };
  EXPECT_EQ(chunks_mixed({}), (std::pair<std::size_t, std::size_t>{400, 100}));
  EXPECT_EQ(chunks_mixed({500, 500, 500, 500}), (std::pair<std::size_t, std::size_t>{4, 100}));
  const auto [windows_of_one, mixed] = chunks_mixed({2000});
  EXPECT_EQ(windows_of_one, 1U);
  EXPECT_GT(mixed, 130U);  // 200 of 800 items, from anywhere
}

TEST(EpochPlanTest, ItemNumbersMayBeLarge) {
  const PlannedSet set{{{kMax - 5, kMax}, {0, 3}, {std::uint64_t{1} << 40, (1ULL << 40) + 4}}, {}};
  EXPECT_EQ(all_of(set, windows()), documented_order(set, windows()));
  for (const PlanOptions& options : all_kinds()) {
    EXPECT_EQ(sorted(all_of(set, options)).back(), kMax - 1);
  }
}

TEST(EpochPlanTest, NothingToPlan) {
  for (const PlanOptions& options : all_kinds()) {
    for (const PlannedSet& set : {PlannedSet{}, PlannedSet{{{4, 4}}, {}}, PlannedSet{{}, {3}}}) {
      EpochPlan plan = plan_of(set, options);
      EXPECT_EQ(plan.size(), 0U);
      EXPECT_EQ(plan.streams().count(), 1U);
      plan.fill(0, {});
      plan.items_at({}, {});
      Items one(1);
      EXPECT_EQ(error_of([&] {
                  plan.fill(0, one);
                  return 0;
                }).code(),
                ErrorCode::kOutOfRange);
    }
  }
}

TEST(EpochPlanTest, PositionsPastTheEndAreRefused) {
  for (const PlanOptions& options : all_kinds()) {
    EpochPlan plan = plan_of({{{0, 6}, {9, 13}}, {}}, options);
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
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kWindows, Shuffle::kFull}) {
    for (const bool window : {false, true}) {
      PlanOptions options{.shuffle = shuffle};
      (window ? options.window : options.streams) = 0;
      const Error error = error_of([&] { return plan_of({{{0, 1}}, {}}, options); });
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_EQ(error.message(),
                "the shuffle window must have 1 chunk or more, and there must be 1 stream or more");
    }
  }
}

TEST(EpochPlanTest, APieceOfMoreThan32BitsHasNoWindow) {
  const PlannedSet set{{{0, 3}, {5, 5 + kMostItems + 1}}, {}};
  const Error error = error_of([&] { return plan_of(set, windows(42, 1, 4, 1)); });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_EQ(error.message(),
            "a chunk of 4294967296 items cannot be shuffled: at most 4294967295 are possible");
  EXPECT_EQ(plan_of(set, windows(42, 1, 4, 2)).size(), kMostItems + 4);  // two pieces
  EpochPlan plan = plan_of(set, {});
  Items items(2);
  plan.fill(kMostItems, items);
  EXPECT_EQ(items, (Items{5 + kMostItems - 3, 5 + kMostItems - 2}));
}

// Making such a plan costs nothing; each window would hold one interval only.
TEST(EpochPlanTest, LargeIntervalsMayBePlanned) {
  const EpochPlan plan = plan_of({{{0, kMostItems}, {0, kMostItems}}, {}}, windows(1, 1, 4, 1));
  EXPECT_EQ(plan.size(), 2 * kMostItems);
  EXPECT_EQ(plan.windows().size(), 2U);
}

TEST(FullShuffleTest, IsThePermutationOfTheWholeSet) {
  std::mt19937_64 random(51);
  for (int round = 0; round < 200; ++round) {
    const PlannedSet set = test::random_set(random);
    const PlanOptions options = full(random(), random() % 5);
    const Items plain = all_of(set, {});
    const Permutation permutation(plain.size(),
                                  derive_key(Items{kOrderVersion, options.seed, options.epoch, 4}));
    Items expected;
    for (std::uint64_t p = 0; p < plain.size(); ++p) {
      expected.push_back(plain.at(permutation.at(p)));
    }
    ASSERT_EQ(all_of(set, options), expected);
  }
}

TEST(FullShuffleTest, SeedAndEpochChangeTheOrderAndNothingElse) {
  const PlannedSet set = test::equal_chunks(12, 20);
  const Items base = all_of(set, full(1, 1));
  EXPECT_NE(base, all_of(set, full(2, 1)));
  EXPECT_NE(base, all_of(set, full(1, 2)));
  PlanOptions options = full(1, 1);
  options.window = 1;
  options.streams = 3;
  EXPECT_EQ(base, all_of(set, options));
  EXPECT_EQ(base, all_of({{{0, 240}}, {}}, full(1, 1)));  // however the items are cut
}

// Items of all chunks come together: of 100 in a row, none of 20 chunks has more than a third.
TEST(FullShuffleTest, ReadsAllChunksAtAnyTime) {
  const PlannedSet set = test::equal_chunks(20, 100);
  const Items order = all_of(set, full());
  for (std::size_t at = 0; at < order.size(); at += 100) {
    std::vector<int> counts(20);
    for (std::size_t p = at; p < at + 100; ++p) ++counts[order[p] / 100];
    EXPECT_LT(std::ranges::max(counts), 34);
    EXPECT_GT(std::ranges::count_if(counts, [](int n) { return n > 0; }), 15);
  }
}

}  // namespace
}  // namespace stoker
