// SPDX-License-Identifier: Apache-2.0
#include "engine/batch_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <ostream>
#include <random>
#include <thread>
#include <vector>

namespace stoker {

bool operator==(const BatchRing::Claim& a, const BatchRing::Claim& b) {
  return a.batch == b.batch && a.first == b.first && a.rows == b.rows;
}
void PrintTo(const BatchRing::Claim& claim, std::ostream* out) {
  *out << "rows [" << claim.first << ", " << claim.first + claim.rows << ") of " << claim.batch;
}

/// A worker that was interrupted between reading how many batches are open and its claim.
struct BatchRingPeer {
  BatchRing& ring;
  [[nodiscard]] std::optional<BatchRing::Claim> late_claim(BatchRing::Cursor& cursor,
                                                           std::uint64_t opened_then) const {
    return ring.look(cursor, opened_then);
  }
};

namespace {

using Claim = BatchRing::Claim;
using Cursor = BatchRing::Cursor;
using Ready = BatchRing::Ready;
using std::chrono::milliseconds;

constexpr milliseconds kNow{0};
constexpr milliseconds kLong{60'000};

/// Opens, works and delivers whole batches on this thread.
void pass(BatchRing& ring, Cursor& cursor, std::uint64_t batches, std::uint32_t rows) {
  for (std::uint64_t i = 0; i < batches; ++i) {
    const std::uint64_t batch = ring.opened();
    ring.open(rows);
    for (std::uint32_t done = 0; done < rows;) {
      const std::optional<Claim> claim = ring.try_claim(cursor);
      ASSERT_TRUE(claim);
      ASSERT_EQ(claim->batch, batch);
      ASSERT_EQ(claim->first, done);
      done += claim->rows;
      ring.done(*claim);
    }
    ASSERT_EQ(ring.wait_ready(kNow), Ready::kBatch);
    ring.release();
  }
}

TEST(BatchRingTest, RowsInRunsOfTheGrain) {
  BatchRing ring(2, 4);
  Cursor cursor;
  EXPECT_FALSE(ring.try_claim(cursor));
  ring.open(10);
  ring.open(3);
  EXPECT_EQ(ring.try_claim(cursor), (Claim{0, 0, 4}));
  EXPECT_EQ(ring.try_claim(cursor), (Claim{0, 4, 4}));
  EXPECT_EQ(ring.try_claim(cursor), (Claim{0, 8, 2}));
  EXPECT_EQ(ring.try_claim(cursor), (Claim{1, 0, 3}));
  EXPECT_FALSE(ring.try_claim(cursor));
}

TEST(BatchRingTest, AnyNumberOfRows) {
  constexpr std::uint32_t kGrain = 8;
  BatchRing ring(3, kGrain);
  Cursor cursor;
  for (const std::uint32_t rows : {0U, 1U, kGrain - 1, kGrain, kGrain + 1, 100U, 0U, 0U, 1U}) {
    pass(ring, cursor, 5, rows);
  }
  EXPECT_EQ(ring.delivered(), 45U);
}

TEST(BatchRingTest, TheLargestBatch) {
  BatchRing ring(1, 4096);
  Cursor cursor;
  pass(ring, cursor, 2, BatchRing::kMaxRows);
  pass(ring, cursor, 1, BatchRing::kMaxRows - 1);
  pass(ring, cursor, 1, 1);
}

TEST(BatchRingTest, ABatchIsReadyWhenAllItsRowsAreDone) {
  BatchRing ring(2, 2);
  Cursor cursor;
  ring.open(4);
  const auto first = ring.try_claim(cursor);
  const auto second = ring.try_claim(cursor);
  EXPECT_EQ(ring.wait_ready(kNow), Ready::kTimeout);
  ring.done(*second);
  EXPECT_EQ(ring.wait_ready(kNow), Ready::kTimeout);
  ring.done(*first);
  EXPECT_EQ(ring.wait_ready(kNow), Ready::kBatch);
  EXPECT_EQ(ring.wait_ready(kNow), Ready::kBatch);  // until it is released
  ring.release();
  EXPECT_EQ(ring.wait_ready(milliseconds(1)), Ready::kTimeout);
}

TEST(BatchRingTest, DeliveredInOrderThoughDoneInAnother) {
  BatchRing ring(3, 8);
  Cursor cursor;
  for (int i = 0; i < 3; ++i) ring.open(8);
  std::vector<Claim> claims;
  while (const auto claim = ring.try_claim(cursor)) claims.push_back(*claim);
  ASSERT_EQ(claims.size(), 3U);
  ring.done(claims[2]);
  EXPECT_EQ(ring.queued(), 0U);
  EXPECT_EQ(ring.wait_ready(kNow), Ready::kTimeout);
  ring.done(claims[0]);
  EXPECT_EQ(ring.queued(), 1U);
  ring.done(claims[1]);
  EXPECT_EQ(ring.queued(), 3U);
  for (std::uint64_t batch = 0; batch < 3; ++batch) {
    ASSERT_EQ(ring.wait_ready(kNow), Ready::kBatch);
    EXPECT_EQ(ring.delivered(), batch);
    EXPECT_EQ(ring.queued(), 3 - batch);
    ring.release();
  }
  EXPECT_EQ(ring.queued(), 0U);
}

TEST(BatchRingTest, TheEnd) {
  BatchRing ring(2, 1);
  Cursor cursor;
  ring.open(1);
  ring.finish();
  EXPECT_EQ(ring.wait_ready(kNow), Ready::kTimeout);  // the last batch is not done
  const auto claim = ring.claim(cursor);
  ring.done(*claim);
  EXPECT_EQ(ring.wait_ready(kNow), Ready::kBatch);
  ring.release();
  EXPECT_EQ(ring.wait_ready(kNow), Ready::kEnd);
  EXPECT_EQ(ring.wait_ready(kLong), Ready::kEnd);
  EXPECT_FALSE(ring.claim(cursor));  // does not wait
}

TEST(BatchRingTest, NoBatchAtAll) {
  BatchRing ring(2, 1);
  auto worker = std::async(std::launch::async, [&] {
    Cursor cursor;
    return ring.claim(cursor).has_value();
  });
  auto consumer = std::async(std::launch::async, [&] { return ring.wait_ready(kLong); });
  ring.finish();
  EXPECT_FALSE(worker.get());
  EXPECT_EQ(consumer.get(), Ready::kEnd);
}

TEST(BatchRingTest, ASlotIsFreeWhenItsBatchWasReleased) {
  BatchRing ring(2, 1);
  ASSERT_TRUE(ring.wait_for_slot());
  ring.open(0);
  ASSERT_TRUE(ring.wait_for_slot());
  ring.open(0);
  auto planner = std::async(std::launch::async, [&] { return ring.wait_for_slot(); });
  EXPECT_EQ(planner.wait_for(milliseconds(20)), std::future_status::timeout);
  ring.release();
  EXPECT_TRUE(planner.get());
}

// ---- late workers

// Slot 0 was released and opened again as batch 2 while a worker was on its way to batch 0. What it
// gets are rows of batch 2, and it is told so.
TEST(BatchRingTest, ALateWorkerGetsRowsOfTheBatchThatIsThereNow) {
  BatchRing ring(2, 4);
  Cursor others;
  pass(ring, others, 1, 6);
  ring.open(4);  // batch 1
  ring.open(6);  // batch 2, slot 0
  Cursor late;
  EXPECT_EQ(BatchRingPeer{ring}.late_claim(late, 1), (Claim{2, 0, 4}));
  // The rest of batch 2 is there for others, once.
  EXPECT_EQ(ring.try_claim(others), (Claim{1, 0, 4}));
  EXPECT_EQ(ring.try_claim(others), (Claim{2, 4, 2}));
  EXPECT_FALSE(ring.try_claim(others));
  EXPECT_FALSE(ring.try_claim(late));
  EXPECT_EQ(ring.wait_ready(kNow), Ready::kTimeout);
  ring.done({1, 0, 4});
  EXPECT_EQ(ring.wait_ready(kNow), Ready::kBatch);
  ring.release();
  ring.done({2, 4, 2});
  EXPECT_EQ(ring.wait_ready(kNow), Ready::kTimeout);
  ring.done({2, 0, 4});
  EXPECT_EQ(ring.wait_ready(kNow), Ready::kBatch);
}

// The other batch may be shorter or longer than the one the worker came for.
TEST(BatchRingTest, ALateWorkerAndBatchesOfOtherSizes) {
  for (const std::uint32_t rows : {0U, 1U, 3U, 4U, 5U, 1000U}) {
    BatchRing ring(1, 4);
    Cursor others;
    pass(ring, others, 7, 9);
    ring.open(rows);
    for (int i = 0; i < 20; ++i) {  // each claim of 4, or none when all are gone
      Cursor late{static_cast<std::uint64_t>(i % 7)};
      const auto first = std::min(rows, 4U * static_cast<std::uint32_t>(i));
      const auto claim = BatchRingPeer{ring}.late_claim(late, late.batch + 1);
      ASSERT_EQ(claim.has_value(), first < rows) << rows;
      if (claim) {
        ASSERT_EQ(*claim, (Claim{7, first, std::min(4U, rows - first)}));
        ring.done(*claim);
      }
      ASSERT_EQ(late.batch, static_cast<std::uint64_t>(i % 7) + 1);
    }
    EXPECT_EQ(ring.wait_ready(kNow), rows <= 80 ? Ready::kBatch : Ready::kTimeout);
  }
}

// The worker won rows of batch 2 when it came for batch 0. Were it to go on with batch 2 or 3, and
// it is the only one, nobody would do batch 1.
TEST(BatchRingTest, ALateWorkerLeavesNoBatchOut) {
  BatchRing ring(2, 4);
  Cursor others;
  pass(ring, others, 1, 4);
  ring.open(4);
  ring.open(4);
  Cursor late;
  const auto claim = BatchRingPeer{ring}.late_claim(late, 1);
  ASSERT_EQ(claim, (Claim{2, 0, 4}));
  ring.done(*claim);
  EXPECT_EQ(late.batch, 1U);
  EXPECT_EQ(ring.try_claim(late), (Claim{1, 0, 4}));
  ring.done({1, 0, 4});
  EXPECT_FALSE(ring.try_claim(late));
  EXPECT_EQ(ring.queued(), 2U);
}

// Also when it comes several rounds late, and meets rows again and again.
TEST(BatchRingTest, ALateWorkerAloneFinishesEverything) {
  constexpr std::size_t kDepth = 5;
  BatchRing ring(kDepth, 2);
  Cursor others;
  pass(ring, others, 23, 3);
  for (std::size_t i = 0; i < kDepth; ++i) ring.open(5);
  Cursor late{3};
  std::vector<Claim> claims;
  for (int i = 0; i < 3; ++i) {  // still with what it saw long ago
    const auto claim = BatchRingPeer{ring}.late_claim(late, late.batch + 1);
    if (claim) claims.push_back(*claim);
  }
  while (const auto claim = ring.try_claim(late)) claims.push_back(*claim);
  EXPECT_EQ(claims.size(), 3 * kDepth);
  for (const Claim& claim : claims) ring.done(claim);
  EXPECT_EQ(ring.queued(), kDepth);
}

// The ticket word has 24 bits for the counter: a worker that looked at every batch it missed would
// carry into the batch number.
TEST(BatchRingTest, AWorkerFarBehindDoesNotHarmTheTicket) {
  for (const std::size_t depth : {std::size_t{1}, std::size_t{3}}) {
    BatchRing ring(depth, 4096);
    Cursor others;
    for (int round = 0; round < 3; ++round) {
      pass(ring, others, 7000, 1);
      Cursor behind;
      EXPECT_FALSE(ring.try_claim(behind));
      EXPECT_EQ(behind.batch, ring.opened());
    }
    pass(ring, others, 10, 5000);
  }
}

TEST(BatchRingTest, ManyWorkersLookAtAFinishedBatch) {
  BatchRing ring(1, 4096);
  Cursor others;
  pass(ring, others, 3, 10);
  ring.open(10);
  const auto claim = ring.try_claim(others);
  ASSERT_EQ(claim, (Claim{3, 0, 10}));
  for (int i = 0; i < 2000; ++i) {
    Cursor other;
    ASSERT_FALSE(ring.try_claim(other));
  }
  ring.done(*claim);
  EXPECT_EQ(ring.wait_ready(kNow), Ready::kBatch);
  ring.release();
  pass(ring, others, 10, 5000);
}

// ---- closing

TEST(BatchRingTest, CloseWakesEverybody) {
  BatchRing ring(1, 1);
  Cursor cursor;
  ring.open(1);
  const auto claim = ring.try_claim(cursor);
  ASSERT_TRUE(claim);
  auto planner = std::async(std::launch::async, [&] { return ring.wait_for_slot(); });
  std::vector<std::future<bool>> workers;
  for (int i = 0; i < 3; ++i) {
    workers.push_back(std::async(std::launch::async, [&] {
      Cursor own;
      return ring.claim(own).has_value();
    }));
  }
  auto consumer = std::async(std::launch::async, [&] { return ring.wait_ready(kLong); });
  std::this_thread::sleep_for(milliseconds(10));  // let them wait; right in either case
  ring.close();
  EXPECT_FALSE(planner.get());
  for (auto& worker : workers) EXPECT_FALSE(worker.get());
  EXPECT_EQ(consumer.get(), Ready::kClosed);
}

TEST(BatchRingTest, NothingCanBeHadFromAClosedRing) {
  BatchRing ring(2, 1);
  Cursor cursor;
  ring.open(0);
  ring.open(2);
  ring.close();
  ring.close();
  EXPECT_EQ(ring.wait_ready(kNow), Ready::kClosed);
  EXPECT_FALSE(ring.try_claim(cursor));
  EXPECT_FALSE(ring.claim(cursor));
  EXPECT_FALSE(ring.wait_for_slot());
}

// ---- all together

struct Load {
  std::size_t depth;
  std::uint32_t grain;
  std::size_t workers;
  std::uint64_t batches;
  std::uint32_t most_rows;
};

std::uint32_t rows_of(const Load& load, std::uint64_t batch) {
  std::mt19937_64 random(batch);
  switch (random() % 8) {
    case 0:
      return 0;
    case 1:
      return 1;
    case 2:
      return load.grain;
    case 3:
      return load.grain - 1;
    default:
      return static_cast<std::uint32_t>(random() % (load.most_rows + 1));
  }
}

/// Threads for all roles. A row is a plain int that its claimant raises by one and the consumer
/// sets back: twice, never, or seen too early would show, here or in the thread sanitizer.
class Rally {
 public:
  explicit Rally(const Load& load)
      : load_(load),
        ring_(load.depth, load.grain),
        rows_(load.depth, std::vector<int>(load.most_rows + load.grain)) {}

  void run() {
    std::vector<std::thread> threads;
    threads.emplace_back([this] { plan(); });
    for (std::size_t i = 0; i < load_.workers; ++i) threads.emplace_back([this] { work(); });
    consume();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(ring_.delivered(), load_.batches);
  }

 private:
  void plan() {
    for (std::uint64_t batch = 0; batch < load_.batches; ++batch) {
      ASSERT_TRUE(ring_.wait_for_slot());
      ASSERT_LT(batch - ring_.delivered(), load_.depth);
      ring_.open(rows_of(load_, batch));
    }
    ring_.finish();
  }

  void work() {
    Cursor cursor;
    while (const auto claim = ring_.claim(cursor)) {
      std::vector<int>& rows = rows_[claim->batch % load_.depth];
      for (std::uint32_t i = 0; i < claim->rows; ++i) ++rows[claim->first + i];
      ring_.done(*claim);
    }
  }

  void consume() {
    for (std::uint64_t batch = 0;; ++batch) {
      const Ready ready = ring_.wait_ready(kLong);
      if (ready == Ready::kEnd) break;
      if (ready != Ready::kBatch) {
        ring_.close();
        FAIL() << "batch " << batch << " never came";
      }
      std::vector<int>& rows = rows_[batch % load_.depth];
      const std::uint32_t count = rows_of(load_, batch);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(rows[i], i < count ? 1 : 0) << "row " << i << " of batch " << batch;
        rows[i] = 0;
      }
      ring_.release();
    }
  }

  Load load_;
  BatchRing ring_;
  std::vector<std::vector<int>> rows_;
};

TEST(BatchRingTest, EachRowOnceAmongManyThreads) {
  const std::vector<Load> loads{{1, 1, 1, 2000, 8},   {1, 3, 4, 3000, 20},   {2, 1, 8, 3000, 6},
                                {2, 16, 3, 3000, 64}, {3, 2, 12, 2000, 40},  {8, 4, 6, 3000, 30},
                                {64, 1, 8, 3000, 9},  {4, 256, 4, 300, 4096}};
  for (const Load& load : loads) Rally(load).run();
}

// Small batches, few slots, more workers than cores: slots change hands while workers are under
// way.
TEST(BatchRingTest, EachRowOnceWhenSlotsAreReusedAtOnce) {
  Rally({2, 1, 24, 8000, 2}).run();
  Rally({1, 1, 16, 8000, 1}).run();
}

}  // namespace
}  // namespace stoker
