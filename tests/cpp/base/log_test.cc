// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace stoker {
namespace {

class LogTest : public ::testing::Test {
 protected:
  ~LogTest() override { set_log_sink(nullptr); }
};

TEST_F(LogTest, WithoutASinkMessagesAreDropped) {
  set_log_sink(nullptr);
  log_message(LogLevel::kError, "nobody listens");
}

TEST_F(LogTest, TheSinkGetsLevelAndText) {
  std::vector<std::pair<LogLevel, std::string>> seen;
  set_log_sink([&](LogLevel level, std::string_view text) { seen.emplace_back(level, text); });
  log_message(LogLevel::kWarning, "disk is slow");
  log_message(LogLevel::kDebug, std::string_view("cut here", 3));
  set_log_sink(nullptr);
  log_message(LogLevel::kError, "after the end");
  const std::vector<std::pair<LogLevel, std::string>> expected{{LogLevel::kWarning, "disk is slow"},
                                                               {LogLevel::kDebug, "cut"}};
  EXPECT_EQ(seen, expected);
}

TEST_F(LogTest, CallsComeOneAtATime) {
  int inside = 0;  // plain ints on purpose: ThreadSanitizer sees it when two calls overlap
  int calls = 0;
  bool overlapped = false;
  set_log_sink([&](LogLevel, std::string_view) {
    overlapped = overlapped || ++inside != 1;
    std::this_thread::yield();
    --inside;
    ++calls;
  });
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 500; ++i) log_message(LogLevel::kInfo, "x");
    });
  }
  threads.clear();
  EXPECT_FALSE(overlapped);
  EXPECT_EQ(calls, 2000);
}

TEST_F(LogTest, ReplacingWaitsForARunningCall) {
  std::promise<void> entered;
  std::promise<void> leave;
  std::atomic<bool> left = false;
  set_log_sink([&](LogLevel, std::string_view) {
    entered.set_value();
    leave.get_future().wait();
    left = true;
  });
  const std::jthread logger([] { log_message(LogLevel::kInfo, "x"); });
  entered.get_future().wait();
  auto replaced = std::async(std::launch::async, [&] {
    set_log_sink(nullptr);
    return left.load();
  });
  EXPECT_EQ(replaced.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  leave.set_value();
  EXPECT_TRUE(replaced.get());
}

// A sink from Python takes the GIL in its destructor while another thread may log with the GIL
// held.
TEST_F(LogTest, TheOldSinkIsDestroyedWhileLoggingIsPossible) {
  struct LogsWhenDestroyed {
    ~LogsWhenDestroyed() { log_message(LogLevel::kInfo, "goodbye"); }
  };
  std::string seen;
  set_log_sink([keep = std::make_shared<LogsWhenDestroyed>()](LogLevel, std::string_view) {});
  set_log_sink([&](LogLevel, std::string_view text) { seen = text; });
  EXPECT_EQ(seen, "goodbye");
}

}  // namespace
}  // namespace stoker
