// SPDX-License-Identifier: Apache-2.0
#include "concurrency/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace stoker {
namespace {

constexpr std::chrono::milliseconds kSoon{50};  // how long a blocked call is watched

std::exception_ptr failure(const std::string& text) {
  return std::make_exception_ptr(std::runtime_error(text));
}

template <typename T>
std::string failure_of_pop(BoundedQueue<T>& queue) {
  try {
    static_cast<void>(queue.pop());
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no failure";
}

TEST(BoundedQueueTest, DeliversInOrderAndMovesValues) {
  BoundedQueue<std::unique_ptr<int>> queue(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.push(std::make_unique<int>(i)));
  EXPECT_EQ(queue.size(), 3U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(**queue.pop(), i);
  EXPECT_EQ(queue.size(), 0U);
}

TEST(BoundedQueueTest, PushWaitsForRoom) {
  for (const std::size_t capacity : {std::size_t{0}, std::size_t{1}}) {  // 0 counts as 1
    BoundedQueue<int> queue(capacity);
    ASSERT_TRUE(queue.push(1));
    auto second = std::async(std::launch::async, [&] { return queue.push(2); });
    EXPECT_EQ(second.wait_for(kSoon), std::future_status::timeout);
    EXPECT_EQ(queue.size(), 1U);
    EXPECT_EQ(queue.pop(), 1);
    EXPECT_TRUE(second.get());
    EXPECT_EQ(queue.pop(), 2);
  }
}

TEST(BoundedQueueTest, PopWaitsForAValue) {
  BoundedQueue<int> queue(2);
  auto popped = std::async(std::launch::async, [&] { return queue.pop(); });
  EXPECT_EQ(popped.wait_for(kSoon), std::future_status::timeout);
  ASSERT_TRUE(queue.push(7));
  EXPECT_EQ(popped.get(), 7);
}

TEST(BoundedQueueTest, CloseDeliversTheRestThenNothing) {
  BoundedQueue<int> queue(4);
  ASSERT_TRUE(queue.push(1));
  ASSERT_TRUE(queue.push(2));
  queue.close();
  EXPECT_FALSE(queue.push(3));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), 2);
  EXPECT_EQ(queue.pop(), std::nullopt);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueueTest, FailDeliversTheRestThenThrowsToEveryPop) {
  BoundedQueue<int> queue(4);
  ASSERT_TRUE(queue.push(1));
  queue.fail(failure("disk gone"));
  EXPECT_FALSE(queue.push(2));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(failure_of_pop(queue), "disk gone");
  EXPECT_EQ(failure_of_pop(queue), "disk gone");
}

TEST(BoundedQueueTest, TheFirstEndWins) {
  BoundedQueue<int> closed(1);
  closed.close();
  closed.fail(failure("too late"));
  EXPECT_EQ(closed.pop(), std::nullopt);

  BoundedQueue<int> failed(1);
  failed.fail(failure("first"));
  failed.close();
  failed.fail(failure("second"));
  EXPECT_EQ(failure_of_pop(failed), "first");
}

TEST(BoundedQueueTest, EndingWakesEveryBlockedThread) {
  BoundedQueue<int> full(1);
  BoundedQueue<int> empty(1);
  ASSERT_TRUE(full.push(0));
  std::vector<std::future<bool>> pushes;
  std::vector<std::future<std::string>> pops;
  for (int i = 0; i < 3; ++i) {
    pushes.push_back(std::async(std::launch::async, [&] { return full.push(1); }));
    pops.push_back(std::async(std::launch::async, [&] { return failure_of_pop(empty); }));
  }
  for (auto& push : pushes) EXPECT_EQ(push.wait_for(kSoon), std::future_status::timeout);
  for (auto& pop : pops) EXPECT_EQ(pop.wait_for(kSoon), std::future_status::timeout);
  full.close();
  empty.fail(failure("stop"));
  for (auto& push : pushes) EXPECT_FALSE(push.get());
  for (auto& pop : pops) EXPECT_EQ(pop.get(), "stop");
  EXPECT_EQ(full.size(), 1U);  // the refused values were dropped
}

TEST(BoundedQueueTest, ManyThreadsGetEveryValueOnce) {
  constexpr int kThreads = 3;
  constexpr int kEach = 2000;
  BoundedQueue<int> queue(5);
  std::vector<std::atomic<int>> seen(kThreads * kEach);
  std::atomic<bool> over_capacity = false;
  std::vector<std::jthread> consumers;
  for (int t = 0; t < kThreads; ++t) {
    consumers.emplace_back([&] {
      while (const auto value = queue.pop()) {
        ++seen[static_cast<std::size_t>(*value)];
        if (queue.size() > 5) over_capacity = true;
      }
    });
  }
  std::vector<std::jthread> producers;
  for (int t = 0; t < kThreads; ++t) {
    producers.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) EXPECT_TRUE(queue.push(t * kEach + i));
    });
  }
  producers.clear();
  queue.close();
  consumers.clear();
  for (const std::atomic<int>& count : seen) ASSERT_EQ(count, 1);
  EXPECT_FALSE(over_capacity);
}

}  // namespace
}  // namespace stoker
