// SPDX-License-Identifier: Apache-2.0
#include "engine/open_chunks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <set>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "error_of.h"
#include "reader/chunk_opener.h"
#include "reader/dataset_samples.h"

namespace stoker {
namespace {

using test::error_of;
using test::items_of_chunk;
using ChunkSet = std::set<std::size_t>;

constexpr std::size_t kItems = 4;  // per chunk
constexpr std::size_t kMostOpen = 30;

/// Chunks of four items, one interval each, and a record of what was opened.
struct Chunks {
  explicit Chunks(std::size_t count, PlanOptions options = {}) {
    std::vector<Interval> intervals;
    for (std::size_t c = 0; c < count; ++c) {
      data.add(items_of_chunk(c, kItems));
      intervals.push_back({c * kItems, (c + 1) * kItems});
      chunk_of.push_back(static_cast<std::uint32_t>(c));
    }
    plan_for(intervals, options);
  }
  void plan_for(const std::vector<Interval>& intervals, PlanOptions options = {}) {
    plan.emplace(std::make_shared<const IntervalSet>(intervals), options);
  }
  [[nodiscard]] Streams::Range all_streams() const { return {0, plan->streams().count()}; }
  [[nodiscard]] OpenChunks::Open opening() {
    return [this, opener = ChunkOpener(data.table(), Verify::kFirst)](std::size_t chunk) {
      ChunkView view = opener.open(chunk, Purpose::kWholeChunk);
      MutexLock lock(mutex);
      looked_at.push_back(chunk);
      return view;
    };
  }
  [[nodiscard]] OpenChunks open(std::size_t threads) { return open(threads, all_streams()); }
  [[nodiscard]] OpenChunks open(std::size_t threads, Streams::Range range) {
    return {opening(), *plan, chunk_of, range, threads, kMostOpen};
  }
  [[nodiscard]] std::vector<std::size_t> opened_chunks() {
    MutexLock lock(mutex);
    return looked_at;
  }
  [[nodiscard]] std::size_t opened() { return opened_chunks().size(); }
  /// Waits until so many chunks were opened, by the pool alone.
  void wait_for(std::size_t count) {
    for (int i = 0; i < 10'000 && opened() < count; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(opened(), count);
  }
  [[nodiscard]] std::uint32_t interval_at(std::uint64_t position) {
    ItemPlace place;
    plan->places_at({&position, 1}, {&place, 1});
    return place.interval;
  }

  test::SampleDataset data;
  std::vector<std::uint32_t> chunk_of;
  std::optional<EpochPlan> plan;
  Mutex mutex;
  std::vector<std::size_t> looked_at;
};

/// Waits until these chunks were opened.
testing::AssertionResult opens(Chunks& chunks, const ChunkSet& wanted) {
  ChunkSet missing = wanted;
  for (int i = 0; i < 10'000; ++i) {
    for (const std::size_t chunk : chunks.opened_chunks()) missing.erase(chunk);
    if (missing.empty()) return testing::AssertionSuccess();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return testing::AssertionFailure() << testing::PrintToString(missing) << " are not opened";
}

/// The chunks of some windows of these streams.
template <typename F>
ChunkSet chunks_of(const Chunks& chunks, Streams::Range range, F&& wanted) {
  ChunkSet found;
  for (const PlanWindow& w : chunks.plan->windows()) {
    if (w.stream < range.begin || w.stream >= range.end || !wanted(w)) continue;
    for (const std::uint32_t k : chunks.plan->intervals_of(w)) found.insert(chunks.chunk_of[k]);
  }
  return found;
}

/// What streams read at a position.
ChunkSet current(const Chunks& chunks, std::uint64_t p, Streams::Range range) {
  return chunks_of(chunks, range, [p](const PlanWindow& w) { return w.begin <= p && p < w.end; });
}

/// The same, and the next window of each.
ChunkSet current_and_next(const Chunks& chunks, std::uint64_t p, Streams::Range range) {
  std::map<std::uint32_t, std::uint32_t> next;  // of every stream
  for (const PlanWindow& w : chunks.plan->windows()) {
    if (w.begin <= p || w.number == 0) next[w.stream] = w.number + 1;
  }
  return chunks_of(chunks, range, [p, &next](const PlanWindow& w) {
    return p < w.end && w.number <= next[w.stream];
  });
}

void expect_chunk(const OpenChunk& opened, std::size_t chunk) {
  ASSERT_EQ(opened.error, nullptr);
  EXPECT_EQ(opened.chunk, chunk);
  EXPECT_EQ(test::to_buffer(opened.view.item_span(2)), items_of_chunk(chunk, kItems)[2]);
}

/// Waits until nobody holds the chunk: the pool's thread may be about to let go.
void expect_gone(const std::weak_ptr<const OpenChunk>& chunk) {
  for (int i = 0; i < 10'000 && !chunk.expired(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(chunk.expired());
}

PlanOptions windows(std::uint32_t window, std::uint32_t streams) {
  return {.shuffle = Shuffle::kWindows, .window = window, .streams = streams};
}

constexpr PlanOptions kFull{.shuffle = Shuffle::kFull};

// 24 chunks, so that no stream has a part of one.
TEST(OpenChunksTest, EachChunkOfTheWholeOrderOnce) {
  for (const PlanOptions& options :
       {PlanOptions{}, windows(4, 1), windows(1, 8), windows(2, 3), windows(100, 4), kFull}) {
    for (const std::size_t threads : {0U, 1U, 3U}) {
      Chunks chunks(24, options);
      OpenChunks open = chunks.open(threads);
      for (std::uint64_t p = 0; p < chunks.plan->size(); ++p) {
        open.advance(p);
        const std::uint32_t k = chunks.interval_at(p);
        expect_chunk(*open.get(k), k);
        EXPECT_EQ(open.get(k), open.get(k));
      }
      EXPECT_EQ(chunks.opened(), 24U);
      EXPECT_GT(open.counters().read_ns.load(), 0U);
      open.close();
      EXPECT_EQ(open.size(), 0U);
    }
  }
}

TEST(OpenChunksTest, AChunkThatStreamsShareIsOpenedForEachAtMost) {
  for (const std::size_t threads : {0U, 2U}) {
    Chunks chunks(23, windows(2, 5));
    OpenChunks open = chunks.open(threads);
    for (std::uint64_t p = 0; p < chunks.plan->size(); ++p) {
      open.advance(p);
      const std::uint32_t k = chunks.interval_at(p);
      expect_chunk(*open.get(k), k);
    }
    EXPECT_GE(chunks.opened(), 23U);
    EXPECT_LE(chunks.opened(), 27U);
  }
}

/// An epoch without one get(): the pool alone opens what the next position reads, and nothing is
/// held that was passed or lies beyond the next window.
void check_ahead(const PlanOptions& options, Streams::Range range, std::size_t threads) {
  Chunks chunks(48, options);
  OpenChunks open = chunks.open(threads, range);
  // With one stream every thread has something to do, in whatever window.
  const std::size_t more = chunks.plan->streams().count() == 1 ? threads : 0;
  for (std::uint64_t p = 0; p < chunks.plan->size(); ++p) {
    open.advance(p);
    const std::uint64_t next = std::min(p + 1, chunks.plan->size() - 1);
    ASSERT_TRUE(opens(chunks, current(chunks, next, range))) << "at position " << p;
    ASSERT_GE(open.size(), current(chunks, p, range).size());
    ASSERT_LE(open.size(), current_and_next(chunks, p, range).size() + more);
  }
  const std::vector<std::size_t> opened = chunks.opened_chunks();
  const ChunkSet once(opened.begin(), opened.end());
  EXPECT_EQ(once.size(), opened.size());
  EXPECT_EQ(once, chunks_of(chunks, range, [](const PlanWindow&) { return true; }));
}

TEST(OpenChunksTest, WhatIsReadIsOpenBeforeItIsReachedAndDroppedAfter) {
  for (const std::size_t threads : {1U, 3U}) {
    check_ahead({}, {0, 1}, threads);
    for (const std::uint32_t window : {1U, 2U, 4U, 100U}) {
      check_ahead(windows(window, 1), {0, 1}, threads);
      check_ahead(windows(window, 6), {0, 6}, threads);
      check_ahead(windows(window, 6), {2, 4}, threads);
      check_ahead(windows(window, 6), {5, 6}, threads);
      check_ahead(windows(window, 48), {0, 48}, threads);
    }
  }
}

// Windows of stream 0 begin at 0, 8, 24, 40 and 56, of stream 1 at 1, 17, 33 and 49. Two chunks of
// each: one is opened when the window before begins, the other half-way.
TEST(OpenChunksTest, TheNextWindowsAreOpenedAsTheseAreUsedUp) {
  Chunks chunks(16, windows(2, 2));
  OpenChunks open = chunks.open(3);
  std::vector<std::size_t> counts;
  for (const std::uint64_t position :
       {0U, 1U, 2U, 8U, 9U, 15U, 16U, 17U, 18U, 24U, 25U, 32U, 34U, 41U, 48U, 49U}) {
    open.advance(position);
    static_cast<void>(opens(chunks, current(chunks, position, chunks.all_streams())));
    counts.push_back(open.size());
  }
  open.advance(63);
  chunks.wait_for(16);
  // Opened: 5, 5, 6, 6, 8, 8, 9, 9, 10, 10, 12, 13, 14, 15, 15, 16. Dropped: 1 at 7, then two at
  // 16, 23, 32, 39 and 48.
  EXPECT_EQ(counts, (std::vector<std::size_t>{5, 5, 6, 5, 7, 7, 6, 6, 7, 5, 7, 6, 7, 6, 4, 5}));
}

TEST(OpenChunksTest, OneStreamIsOpenedAheadByAllThreads) {
  Chunks chunks(8, windows(4, 1));  // windows of 1, 4 and 3 chunks
  OpenChunks open = chunks.open(2);
  open.advance(0);
  chunks.wait_for(6);  // two windows, and one for the second thread
  open.advance(7);
  EXPECT_EQ(chunks.opened(), 6U);
  open.advance(8);
  chunks.wait_for(7);
  open.advance(11);
  EXPECT_EQ(chunks.opened(), 7U);
  open.advance(12);
  chunks.wait_for(8);
  std::vector<std::size_t> first = chunks.opened_chunks();
  first.resize(6);
  const ChunkSet set(first.begin(), first.end());
  for (const std::size_t chunk : current_and_next(chunks, 0, {0, 1})) {
    EXPECT_EQ(set.count(chunk), 1U);
  }
}

TEST(OpenChunksTest, ShortWindowsAreOpenedSeveralAhead) {
  for (const PlanOptions& options : {PlanOptions{}, windows(1, 1)}) {
    Chunks chunks(9, options);
    OpenChunks open = chunks.open(3);
    open.advance(0);
    chunks.wait_for(4);  // this one, and one for every thread
    open.advance(kItems);
    chunks.wait_for(5);
    open.advance(7 * kItems);  // the last but one: two were passed over
    chunks.wait_for(7);
  }
}

/// What is opened first when the planner begins at `position`.
void check_first(const PlanOptions& options, std::uint64_t position, Streams::Range range) {
  Chunks chunks(48, options);
  OpenChunks open = chunks.open(1, range);
  open.advance(position);
  chunks.wait_for(open.size());
  const ChunkSet needed = current(chunks, position, range);
  std::vector<std::size_t> first = chunks.opened_chunks();
  ASSERT_GE(first.size(), needed.size());
  first.resize(needed.size());
  EXPECT_EQ(ChunkSet(first.begin(), first.end()), needed)
      << "from position " << position << " on, " << options.streams << " streams";
}

TEST(OpenChunksTest, FirstWhatIsReadFirst) {
  for (const std::uint64_t position : {0U, 3U, 21U, 64U, 100U, 131U, 187U}) {
    check_first({}, position, {0, 1});
    for (const std::uint32_t window : {1U, 2U, 4U})
      check_first(windows(window, 1), position, {0, 1});
  }
}

TEST(OpenChunksTest, FirstWhatIsReadFirstInAllStreams) {
  for (const std::uint64_t position : {0U, 3U, 21U, 64U, 100U, 131U, 187U}) {
    for (const std::uint32_t window : {1U, 2U, 4U}) {
      check_first(windows(window, 6), position, {0, 6});
      check_first(windows(window, 6), position, {1, 3});
    }
  }
}

TEST(OpenChunksTest, WithoutThreadsNothingIsOpenedAhead) {
  Chunks chunks(8, windows(4, 2));
  OpenChunks open = chunks.open(0);
  open.advance(0);
  open.advance(15);
  EXPECT_EQ(chunks.opened(), 0U);
  const std::uint32_t k = chunks.interval_at(15);
  expect_chunk(*open.get(k), k);
  EXPECT_EQ(chunks.opened(), 1U);
}

/// A position of `stream`, and the longest window of all streams but it.
struct Outside {
  std::uint32_t interval = 0;
  std::uint64_t span = 0;
};
Outside outside_of(Chunks& chunks, std::uint32_t stream) {
  Outside outside{chunks.interval_at(stream), 0};
  for (const PlanWindow& w : chunks.plan->windows()) {
    if (w.stream != stream) outside.span = std::max(outside.span, w.end - w.begin);
  }
  return outside;
}

TEST(OpenChunksTest, AChunkOfAnotherStreamIsOpenedOnDemandAndDroppedLater) {
  for (const std::size_t threads : {0U, 2U}) {
    Chunks chunks(48, windows(2, 4));
    const auto [k, span] = outside_of(chunks, 3);
    OpenChunks open = chunks.open(threads, {0, 3});
    open.advance(5);
    const std::size_t before = open.size();
    const std::weak_ptr<const OpenChunk> chunk = open.get(k);
    EXPECT_EQ(open.size(), before + 1);
    expect_chunk(*open.get(k), k);
    open.advance(6);
    EXPECT_EQ(open.get(k), chunk.lock());  // stays for a while: opened once
    EXPECT_EQ(std::ranges::count(chunks.opened_chunks(), std::size_t{k}), 1);
    open.advance(6 + span);
    expect_gone(chunk);
    EXPECT_LE(open.size(), current_and_next(chunks, 6 + span, {0, 3}).size());
    expect_chunk(*open.get(k), k);  // and again
  }
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
  expect_gone(first);
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
  for (const PlanOptions& options : {PlanOptions{}, windows(2, 1), windows(2, 4), kFull}) {
    Chunks chunks(40, options);
    OpenChunks open = chunks.open(2);
    for (const std::uint64_t p : {1U, 29U, 33U, 157U}) {
      open.advance(p);
      expect_chunk(*open.get(chunks.interval_at(p)), chunks.interval_at(p));
      if (options.shuffle == Shuffle::kFull) continue;
      EXPECT_LE(open.size(), current_and_next(chunks, p, chunks.all_streams()).size() + 2);
    }
    EXPECT_LT(chunks.opened(), 40U);
  }
}

// Two intervals of one chunk, in neighbouring windows: it is opened once and stays.
TEST(OpenChunksTest, AChunkOfTwoIntervalsStaysForBoth) {
  Chunks chunks(2);
  chunks.plan_for({{0, 2}, {2, 4}, {4, 8}});
  chunks.chunk_of = {0, 0, 1};
  OpenChunks open = chunks.open(1);
  open.advance(0);
  const auto first = open.get(0);
  open.advance(2);
  EXPECT_EQ(open.get(0), first);
  open.advance(4);
  expect_chunk(*open.get(1), 1);
  EXPECT_EQ(chunks.opened(), 2U);
}

TEST(OpenChunksTest, AChunkThatComesAgainMuchLaterIsOpenedAgain) {
  Chunks chunks(6);
  chunks.plan_for({{0, 2}, {4, 8}, {8, 12}, {12, 16}, {16, 20}, {2, 4}});
  chunks.chunk_of = {0, 1, 2, 3, 4, 0};
  OpenChunks open = chunks.open(1);
  for (std::uint64_t p = 0; p < 20; ++p) {
    open.advance(p);
    const std::uint32_t chunk = chunks.chunk_of[chunks.interval_at(p)];
    expect_chunk(*open.get(chunk), chunk);
    EXPECT_LE(open.size(), 2U);
  }
  EXPECT_EQ(chunks.opened(), 6U);
}

TEST(OpenChunksTest, WithoutWindowsThoseUsedLastStayOpen) {
  for (const std::size_t threads : {0U, 2U}) {
    constexpr auto kMost = static_cast<std::uint32_t>(kMostOpen);
    Chunks chunks(kMost + 3, kFull);
    OpenChunks open = chunks.open(threads);
    for (std::uint32_t k = 0; k < kMost; ++k) {
      open.advance(k);
      static_cast<void>(open.get(k));
      ASSERT_EQ(open.size(), k + 1);
    }
    const std::weak_ptr<const OpenChunk> first = open.get(0);
    const std::weak_ptr<const OpenChunk> second = open.get(1);
    const auto held = open.get(2);
    static_cast<void>(open.get(0));
    for (std::uint32_t k = 3; k < kMost; ++k) static_cast<void>(open.get(k));
    EXPECT_EQ(chunks.opened(), kMost);
    for (std::uint32_t k = kMost; k < kMost + 3; ++k) expect_chunk(*open.get(k), k);
    EXPECT_EQ(open.size(), kMost);
    expect_gone(first);  // all of the least used: 1, 2 and 0
    expect_gone(second);
    expect_chunk(*held, 2);
    static_cast<void>(open.get(3));
    EXPECT_EQ(chunks.opened(), kMost + 3);
    EXPECT_NE(open.get(2), held);
    EXPECT_EQ(chunks.opened(), kMost + 4);
    EXPECT_EQ(open.size(), kMost);
  }
}

// Nobody knows what is read next.
TEST(OpenChunksTest, WithoutWindowsNothingIsOpenedAhead) {
  Chunks chunks(8, kFull);
  OpenChunks open = chunks.open(2);
  open.advance(0);
  open.advance(20);
  EXPECT_EQ(open.size(), 0U);
  expect_chunk(*open.get(5), 5);
  open.advance(31);
  EXPECT_EQ(open.size(), 1U);
  EXPECT_EQ(chunks.opened(), 1U);
}

TEST(OpenChunksTest, NothingToOpen) {
  for (const PlanOptions& options : {PlanOptions{}, windows(2, 3), kFull}) {
    Chunks chunks(0, options);
    OpenChunks open = chunks.open(2);
    open.advance(0);
    EXPECT_EQ(open.size(), 0U);
  }
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

TEST(OpenChunksTest, WhatOpeningThrowsIsTheError) {
  Chunks chunks(2);
  const auto open_one = [opening = chunks.opening()](std::size_t chunk) {
    if (chunk == 0) throw std::runtime_error("not this one");
    return opening(chunk);
  };
  OpenChunks open(open_one, *chunks.plan, chunks.chunk_of, {0, 1}, 1, kMostOpen);
  open.advance(0);
  EXPECT_THROW(std::rethrow_exception(open.get(0)->error), std::runtime_error);
  open.advance(kItems);
  expect_chunk(*open.get(1), 1);
}

TEST(OpenChunksTest, ExpectedChunksAreOpenedWithoutAPlan) {
  Chunks chunks(kMostOpen + 5);
  OpenChunks open(chunks.opening(), 2, kMostOpen);
  open.expect(std::vector<std::uint32_t>{7, 3, 7});
  chunks.wait_for(2);
  for (const std::uint32_t k : {3U, 7U, 34U}) expect_chunk(*open.get(k), k);
  EXPECT_EQ(chunks.opened(), 3U);
  for (std::uint32_t k = 0; k < kMostOpen + 5; ++k) {  // those expected last are kept
    const std::uint32_t next = std::min<std::uint32_t>(k + 1, kMostOpen + 4);
    open.expect(std::vector<std::uint32_t>{k, next});
    expect_chunk(*open.get(k), k);
    EXPECT_LE(open.size(), kMostOpen);
  }
}

TEST(OpenChunksTest, WithoutThreadsExpectedChunksAreOpenedWhenTheyCome) {
  Chunks chunks(4);
  OpenChunks open(chunks.opening(), 0, kMostOpen);
  open.expect(std::vector<std::uint32_t>{1, 2});
  EXPECT_EQ(chunks.opened(), 0U);
  expect_chunk(*open.get(2), 2);
  EXPECT_EQ(chunks.opened_chunks(), std::vector<std::size_t>{2});
}

TEST(OpenChunksTest, DestroyedWhileChunksAreOpened) {
  for (std::uint64_t round = 0; round < 30; ++round) {
    Chunks chunks(12, windows(8, 1 + static_cast<std::uint32_t>(round % 3)));
    OpenChunks open = chunks.open(3);
    open.advance(round);
  }
}

}  // namespace
}  // namespace stoker
