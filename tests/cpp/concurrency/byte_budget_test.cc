// SPDX-License-Identifier: Apache-2.0
#include "concurrency/byte_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <random>
#include <thread>
#include <vector>

#include "error_of.h"

namespace stoker {
namespace {

using test::error_of;

constexpr std::chrono::milliseconds kSoon{50};  // how long a blocked call is watched

std::future<void> acquire_in_thread(ByteBudget& budget, std::uint64_t bytes) {
  return std::async(std::launch::async, [&budget, bytes] { budget.acquire(bytes); });
}

bool is_waiting(const std::future<void>& call) {
  return call.wait_for(kSoon) == std::future_status::timeout;
}

TEST(ByteBudgetTest, CountsUpToTheLimit) {
  ByteBudget budget(10);
  EXPECT_TRUE(budget.try_acquire(4));
  EXPECT_TRUE(budget.try_acquire(6));
  EXPECT_EQ(budget.in_use(), 10U);
  EXPECT_TRUE(budget.try_acquire(0));
  EXPECT_FALSE(budget.try_acquire(1));
  budget.release(4);
  EXPECT_FALSE(budget.try_acquire(5));
  EXPECT_TRUE(budget.try_acquire(4));
}

TEST(ByteBudgetTest, AcquireWaitsUntilItFits) {
  ByteBudget budget(10);
  budget.acquire(8);
  auto waiter = acquire_in_thread(budget, 5);
  EXPECT_TRUE(is_waiting(waiter));
  budget.release(2);  // 6 + 5 are still too many
  EXPECT_TRUE(is_waiting(waiter));
  budget.release(1);
  waiter.get();
  EXPECT_EQ(budget.in_use(), 10U);
}

TEST(ByteBudgetTest, SmallRequestsDoNotOvertakeABigOne) {
  ByteBudget budget(10);
  budget.acquire(9);
  auto big = acquire_in_thread(budget, 8);
  ASSERT_TRUE(is_waiting(big));
  auto small = acquire_in_thread(budget, 1);  // would fit now, but came later
  EXPECT_TRUE(is_waiting(small));
  EXPECT_FALSE(budget.try_acquire(1));
  budget.release(9);
  big.get();
  small.get();
  EXPECT_EQ(budget.in_use(), 9U);
}

TEST(ByteBudgetTest, AnOversizedRequestIsGrantedAlone) {
  ByteBudget budget(10);
  budget.acquire(1);
  EXPECT_FALSE(budget.try_acquire(25));
  auto oversized = acquire_in_thread(budget, 25);
  EXPECT_TRUE(is_waiting(oversized));
  budget.release(1);
  oversized.get();
  EXPECT_EQ(budget.in_use(), 25U);
  EXPECT_FALSE(budget.try_acquire(1));
  auto next = acquire_in_thread(budget, 30);
  EXPECT_TRUE(is_waiting(next));
  budget.release(25);
  next.get();
  budget.release(30);
  EXPECT_EQ(budget.in_use(), 0U);
}

TEST(ByteBudgetTest, ALimitOfZeroLetsOneThroughAtATime) {
  ByteBudget budget(0);
  budget.acquire(5);
  EXPECT_FALSE(budget.try_acquire(1));
  budget.release(5);
  EXPECT_TRUE(budget.try_acquire(7));
}

TEST(ByteBudgetTest, CloseWakesWaitersAndRefusesLaterOnes) {
  ByteBudget budget(10);
  budget.acquire(10);
  auto first = acquire_in_thread(budget, 5);
  auto second = acquire_in_thread(budget, 25);
  ASSERT_TRUE(is_waiting(first));
  ASSERT_TRUE(is_waiting(second));
  budget.close();
  for (std::future<void>* waiter : {&first, &second}) {
    const Error error = error_of([&] {
      waiter->get();
      return 0;
    });
    EXPECT_EQ(error.code(), ErrorCode::kClosed);
  }
  budget.release(10);  // what was reserved before is still given back
  EXPECT_EQ(budget.in_use(), 0U);
  EXPECT_FALSE(budget.try_acquire(1));
  const Error late = error_of([&] {
    budget.acquire(1);
    return 0;
  });
  EXPECT_EQ(late.code(), ErrorCode::kClosed);
}

TEST(ByteBudgetTest, ManyThreadsNeverExceedTheLimit) {
  constexpr std::uint64_t kLimit = 100;
  ByteBudget budget(kLimit);
  std::atomic<std::uint64_t> held = 0;
  std::atomic<bool> exceeded = false;
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 500; ++i) {
        const std::uint64_t bytes = 1 + random() % 150;  // some are oversized
        if (random() % 4 != 0) {
          budget.acquire(bytes);
        } else if (!budget.try_acquire(bytes)) {
          continue;
        }
        const std::uint64_t now = held += bytes;
        // Above the limit only when this one request is all there is.
        if (now > kLimit && now != bytes) exceeded = true;
        std::this_thread::yield();
        held -= bytes;
        budget.release(bytes);
      }
    });
  }
  threads.clear();
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(budget.in_use(), 0U);
}

}  // namespace
}  // namespace stoker
