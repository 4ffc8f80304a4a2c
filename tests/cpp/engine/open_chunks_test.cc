// SPDX-License-Identifier: Apache-2.0
#include "engine/open_chunks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <set>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "error_of.h"
#include "reader/dataset_samples.h"

namespace stoker {
namespace {

using test::error_of;
using test::items_of_chunk;

constexpr std::size_t kItems = 4;  // per chunk

/// Chunks of four items, one interval each, and a record of what was opened.
struct Chunks {
  explicit Chunks(std::size_t count, PlanOptions options = {}) {
    std::vector<Interval> intervals;
    for (std::size_t c = 0; c < count; ++c) {
      data.add(items_of_chunk(c, kItems));
      intervals.push_back({c * kItems, (c + 1) * kItems});
      chunk_of.push_back(static_cast<std::uint32_t>(c));
    }
    set = std::make_shared<const IntervalSet>(intervals);
    plan.emplace(set, options);
  }
  [[nodiscard]] OpenChunks open(std::size_t threads) {
    return {std::make_shared<const ChunkOpener>(data.table(), Verify::kFirst), *plan, chunk_of,
            threads, [this](const ChunkView&, std::size_t chunk) {
              MutexLock lock(mutex);
              looked_at.push_back(chunk);
            }};
  }
  [[nodiscard]] std::size_t opened() {
    MutexLock lock(mutex);
    return looked_at.size();
  }
  /// Waits until so many chunks were opened, by the pool alone.
  void wait_for(std::size_t count) {
    for (int i = 0; i < 10'000 && opened() < count; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(opened(), count);
  }

  test::SampleDataset data;
  std::vector<std::uint32_t> chunk_of;
  std::shared_ptr<const IntervalSet> set;
  std::optional<EpochPlan> plan;
  Mutex mutex;
  std::vector<std::size_t> looked_at;
};

void expect_chunk(const OpenChunk& opened, std::size_t chunk) {
  ASSERT_EQ(opened.error, nullptr);
  EXPECT_EQ(opened.chunk, chunk);
  EXPECT_EQ(test::to_buffer(opened.view.item_span(2)), items_of_chunk(chunk, kItems)[2]);
}

TEST(OpenChunksTest, EachChunkOfTheWholeOrder) {
  for (const bool shuffle : {false, true}) {
    for (const std::size_t threads : {0U, 1U, 3U}) {
      Chunks chunks(23, {.shuffle = shuffle, .window = 4});
      OpenChunks open = chunks.open(threads);
      for (std::size_t w = 0; w < chunks.plan->windows(); ++w) {
        open.advance(chunks.plan->window_start(w));
        for (const std::uint32_t k : chunks.plan->window_intervals(w)) {
          expect_chunk(*open.get(k), k);
          EXPECT_EQ(open.get(k), open.get(k));
        }
      }
      EXPECT_EQ(chunks.opened(), 23U);  // each once
      EXPECT_GT(open.counters().read_ns.load(), 0U);
    }
  }
}

TEST(OpenChunksTest, TheNextWindowIsOpenedAsThisOneIsUsedUp) {
  Chunks chunks(8, {.shuffle = true, .window = 4});
  OpenChunks open = chunks.open(2);
  open.advance(0);
  chunks.wait_for(5);  // this window and the first of the next
  open.advance(3);
  open.advance(4);
  chunks.wait_for(6);
  open.advance(8);
  chunks.wait_for(7);
  open.advance(12);
  chunks.wait_for(8);
  // The first four are those of the first window.
  const auto window = chunks.plan->window_intervals(0);
  std::set<std::size_t> first(chunks.looked_at.begin(), chunks.looked_at.begin() + 5);
  for (const std::uint32_t k : window) EXPECT_EQ(first.count(k), 1U);
}

TEST(OpenChunksTest, ShortWindowsAreOpenedSeveralAhead) {
  Chunks chunks(9);
  OpenChunks open = chunks.open(3);
  open.advance(0);
  chunks.wait_for(4);  // this one, and one for every thread
  open.advance(kItems);
  chunks.wait_for(5);
  open.advance(7 * kItems);  // the last but one
  chunks.wait_for(7);
}

TEST(OpenChunksTest, WithoutThreadsNothingIsOpenedAhead) {
  Chunks chunks(8, {.shuffle = true, .window = 4});
  OpenChunks open = chunks.open(0);
  open.advance(0);
  open.advance(15);
  EXPECT_EQ(chunks.opened(), 0U);
  const std::uint32_t k = chunks.plan->window_intervals(0)[1];
  expect_chunk(*open.get(k), k);
  EXPECT_EQ(chunks.opened(), 1U);
}

TEST(OpenChunksTest, AChunkIsDroppedAfterItsWindow) {
  Chunks chunks(6);
  OpenChunks open = chunks.open(1);
  open.advance(0);
  const std::weak_ptr<const OpenChunk> first = open.get(0);
  std::shared_ptr<const OpenChunk> held = open.get(0);
  open.advance(kItems - 1);
  EXPECT_EQ(open.get(0), held);
  open.advance(kItems);
  held.reset();
  for (int i = 0; i < 10'000 && !first.expired();
       ++i) {  // the pool's thread may be about to let go
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(first.expired());
}

TEST(OpenChunksTest, WhatIsHeldOutlivesItsWindow) {
  std::shared_ptr<const OpenChunk> held;
  {
    Chunks chunks(3);
    OpenChunks open = chunks.open(1);
    open.advance(0);
    held = open.get(0);
    open.advance(2 * kItems);
  }
  expect_chunk(*held, 0);
}

TEST(OpenChunksTest, WindowsMayBePassedOver) {
  Chunks chunks(40);
  OpenChunks open = chunks.open(2);
  for (const std::uint32_t k : {0U, 7U, 8U, 39U}) {
    open.advance(k * kItems + 1);
    expect_chunk(*open.get(k), k);
  }
}

// Two intervals of one chunk, in neighbouring windows: it is opened once and stays.
TEST(OpenChunksTest, AChunkOfTwoIntervalsStaysForBoth) {
  Chunks chunks(2);
  chunks.set = std::make_shared<const IntervalSet>(std::vector<Interval>{{0, 2}, {2, 4}, {4, 8}});
  chunks.plan.emplace(chunks.set, PlanOptions{});
  chunks.chunk_of = {0, 0, 1};
  OpenChunks open = chunks.open(1);
  EXPECT_EQ(open.chunk_of(1), 0U);
  open.advance(0);
  const auto first = open.get(0);
  open.advance(2);
  EXPECT_EQ(open.get(1), first);
  open.advance(4);
  expect_chunk(*open.get(2), 1);
  EXPECT_EQ(chunks.opened(), 2U);
}

TEST(OpenChunksTest, ErrorsStayInside) {
  for (const std::size_t threads : {0U, 2U}) {
    Chunks chunks(3);
    chunks.data.damage(1, 30);
    OpenChunks open = chunks.open(threads);
    open.advance(kItems);
    const auto damaged = open.get(1);
    const Error error = error_of([&]() -> int { std::rethrow_exception(damaged->error); });
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_EQ(damaged->view.size(), 0U);
    open.advance(2 * kItems);
    expect_chunk(*open.get(2), 2);
  }
}

TEST(OpenChunksTest, WhatTheCheckThrowsIsTheError) {
  Chunks chunks(2);
  OpenChunks open(std::make_shared<const ChunkOpener>(chunks.data.table(), Verify::kFirst),
                  *chunks.plan, chunks.chunk_of, 1, [](const ChunkView& view, std::size_t chunk) {
                    EXPECT_EQ(view.size(), kItems);
                    if (chunk == 0) throw std::runtime_error("not this one");
                  });
  open.advance(0);
  EXPECT_THROW(std::rethrow_exception(open.get(0)->error), std::runtime_error);
  open.advance(kItems);
  expect_chunk(*open.get(1), 1);
}

TEST(OpenChunksTest, DestroyedWhileChunksAreOpened) {
  for (std::uint64_t round = 0; round < 30; ++round) {
    Chunks chunks(12, {.shuffle = true, .window = 8});
    OpenChunks open = chunks.open(3);
    open.advance(round);
  }
}

}  // namespace
}  // namespace stoker
