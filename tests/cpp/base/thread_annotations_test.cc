// SPDX-License-Identifier: Apache-2.0
#include "base/thread_annotations.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <thread>
#include <vector>

namespace stoker {
namespace {

class Counter {
 public:
  void add() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    ++value_;
    changed_.notify_all();
  }
  int wait_for(int value) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (value_ < value) changed_.wait(mutex_);
    return value_;
  }

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  int value_ GUARDED_BY(mutex_) = 0;
};

TEST(ThreadAnnotationsTest, LockExcludesAndWaitsWakeUp) {
  Counter counter;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) counter.add();
    });
  }
  EXPECT_EQ(counter.wait_for(4000), 4000);
}

TEST(ThreadAnnotationsTest, TryLockFailsWhileAnotherThreadHoldsIt) {
  Mutex mutex;
  const auto free_elsewhere = [&] {
    return std::async(std::launch::async,
                      [&] {
                        if (!mutex.try_lock()) return false;
                        mutex.unlock();
                        return true;
                      })
        .get();
  };
  {
    MutexLock lock(mutex);
    EXPECT_FALSE(free_elsewhere());
  }
  EXPECT_TRUE(free_elsewhere());
}

}  // namespace
}  // namespace stoker
