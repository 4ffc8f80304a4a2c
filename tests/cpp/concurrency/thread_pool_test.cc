// SPDX-License-Identifier: Apache-2.0
#include "concurrency/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "error_of.h"

namespace stoker {
namespace {

std::string own_thread_name() {
  std::array<char, 16> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  return name.data();
}

TEST(ThreadPoolTest, ResultsComeThroughFutures) {
  ThreadPool pool(3, "test");
  EXPECT_EQ(pool.size(), 3U);
  std::vector<std::future<int>> results;
  for (int i = 0; i < 200; ++i) results.push_back(pool.submit([i] { return i * i; }));
  for (int i = 0; i < 200; ++i) EXPECT_EQ(results[static_cast<std::size_t>(i)].get(), i * i);
}

TEST(ThreadPoolTest, TasksMayOwnMoveOnlyThings) {
  ThreadPool pool(1, "test");
  auto result = pool.submit([value = std::make_unique<int>(42)] { return *value; });
  EXPECT_EQ(result.get(), 42);
}

TEST(ThreadPoolTest, AnExceptionReachesItsFutureAndThePoolGoesOn) {
  ThreadPool pool(1, "test");
  auto failing = pool.submit([]() -> int {
    throw Error(ErrorCode::kCorrupt, "bad chunk", {"/d/a.bin", 3});
  });
  auto next = pool.submit([] { return 5; });
  const Error error = test::error_of([&] { return failing.get(); });
  EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
  EXPECT_EQ(error.context().path, "/d/a.bin");
  EXPECT_EQ(next.get(), 5);
}

TEST(ThreadPoolTest, AllThreadsWorkAtOnce) {
  ThreadPool pool(4, "test");
  std::latch all_here(4);  // opens only when four tasks run at the same time
  std::vector<std::future<std::thread::id>> ids;
  for (int i = 0; i < 4; ++i) {
    ids.push_back(pool.submit([&] {
      all_here.arrive_and_wait();
      return std::this_thread::get_id();
    }));
  }
  std::set<std::thread::id> distinct;
  for (auto& id : ids) distinct.insert(id.get());
  EXPECT_EQ(distinct.size(), 4U);
  EXPECT_FALSE(distinct.contains(std::this_thread::get_id()));
}

TEST(ThreadPoolTest, OneThreadKeepsTheOrder) {
  std::vector<int> order;
  {
    ThreadPool pool(1, "test");
    for (int i = 0; i < 100; ++i) {
      static_cast<void>(pool.submit([&order, i] { order.push_back(i); }));
    }
  }
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(ThreadPoolTest, TheDestructorFinishesWhatWasQueuedAlsoByTasks) {
  std::atomic<int> done = 0;
  std::latch blocked(1);
  {
    ThreadPool pool(2, "test");
    static_cast<void>(pool.submit([&] { blocked.wait(); }));
    for (int i = 0; i < 50; ++i) {
      static_cast<void>(pool.submit([&] {
        ++done;
        static_cast<void>(pool.submit([&] { ++done; }));
      }));
    }
    blocked.count_down();
  }
  EXPECT_EQ(done, 100);
}

TEST(ThreadPoolTest, ThreadsAreNamedAndNumbered) {
  ThreadPool pool(2, "decode");
  std::latch both_here(2);
  const auto name = [&] {
    both_here.arrive_and_wait();
    return own_thread_name();
  };
  auto first = pool.submit(name);
  auto second = pool.submit(name);
  const std::set<std::string> names{first.get(), second.get()};
  EXPECT_EQ(names, (std::set<std::string>{"decode/0", "decode/1"}));
}

TEST(ThreadPoolTest, LongNamesAreCut) {
  ThreadPool pool(1, "a-name-of-some-length");
  EXPECT_EQ(pool.submit(own_thread_name).get(), "a-name-of-some-");
}

TEST(ThreadPoolTest, NeedsAThread) {
  const Error error = test::error_of([] { return ThreadPool(0, "test").size(); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
}

// A user that may have only a few threads: the constructor fails in the middle and must join those
// it has.
[[noreturn]] void build_a_pool_that_is_too_big() {
  const rlimit few{3, 3};
  if (::setrlimit(RLIMIT_NPROC, &few) != 0) ::_exit(10);
  if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(11);
  try {
    const ThreadPool pool(64, "test");
    ::_exit(12);
  } catch (const Error& error) {
    const bool named =
        std::string(error.what()).find("of 64 threads of pool 'test'") != std::string::npos;
    ::_exit(error.code() == ErrorCode::kIo && named ? 0 : 13);
  }
}

TEST(ThreadPoolTest, ARefusedThreadIsAnErrorNotTheEndOfTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(build_a_pool_that_is_too_big(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace stoker
