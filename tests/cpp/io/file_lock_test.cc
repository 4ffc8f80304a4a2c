// SPDX-License-Identifier: Apache-2.0
#include "io/file_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <string>
#include <utility>

#include "error_of.h"
#include "temp_dir.h"

namespace stoker {
namespace {

using Mode = FileLock::Mode;
using test::error_of;
using test::TempDir;

constexpr std::chrono::milliseconds kSoon{50};  // how long a blocked call is watched

bool is_free(const std::string& path, Mode mode) {
  return FileLock::try_acquire(path, mode).has_value();
}

TEST(FileLockTest, SharedGoesWithSharedAndExclusiveWithNothing) {
  const TempDir dir;
  const std::string path = dir / "lock";
  {
    const FileLock shared = FileLock::acquire(path, Mode::kShared);
    EXPECT_TRUE(is_free(path, Mode::kShared));
    EXPECT_FALSE(is_free(path, Mode::kExclusive));
  }
  {
    const FileLock exclusive = FileLock::acquire(path, Mode::kExclusive);
    EXPECT_FALSE(is_free(path, Mode::kShared));
    EXPECT_FALSE(is_free(path, Mode::kExclusive));
  }
  EXPECT_TRUE(is_free(path, Mode::kExclusive));
  EXPECT_TRUE(std::filesystem::exists(path));  // a lock file is never removed here
}

TEST(FileLockTest, AcquireWaitsForTheHolder) {
  const TempDir dir;
  const std::string path = dir / "lock";
  auto holder = FileLock::try_acquire(path, Mode::kShared);
  ASSERT_TRUE(holder);
  auto waiter = std::async(std::launch::async, [&] {
    const FileLock lock = FileLock::acquire(path, Mode::kExclusive);
    return is_free(path, Mode::kShared);
  });
  EXPECT_EQ(waiter.wait_for(kSoon), std::future_status::timeout);
  holder.reset();
  EXPECT_FALSE(waiter.get());
}

TEST(FileLockTest, MovingKeepsTheLock) {
  const TempDir dir;
  const std::string path = dir / "lock";
  FileLock first = FileLock::acquire(path, Mode::kExclusive);
  {
    const FileLock second = std::move(first);
    EXPECT_FALSE(is_free(path, Mode::kShared));
  }
  EXPECT_TRUE(is_free(path, Mode::kShared));
}

// The point of flock: whoever dies, however, leaves nothing to repair.
TEST(FileLockTest, AKilledProcessLosesItsLock) {
  const TempDir dir;
  const std::string path = dir / "lock";
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const FileLock lock = FileLock::acquire(path, Mode::kExclusive);
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_FALSE(is_free(path, Mode::kShared));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  const FileLock lock = FileLock::acquire(path, Mode::kExclusive);  // hangs if it is not dropped
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(FileLockTest, ErrorsNameThePath) {
  const TempDir dir;
  const std::string path = dir / "no/such/lock";
  const Error waiting = error_of([&] { return FileLock::acquire(path, Mode::kShared); });
  EXPECT_EQ(waiting.code(), ErrorCode::kNotFound);
  EXPECT_EQ(waiting.context().path, path);
  EXPECT_EQ(error_of([&] { return FileLock::try_acquire(path, Mode::kShared); }).code(),
            ErrorCode::kNotFound);
}

}  // namespace
}  // namespace stoker
