// SPDX-License-Identifier: Apache-2.0
// flock as RAII. The kernel drops the lock of a dead process, so there is nothing to repair.
#pragma once

#include <optional>
#include <string>

#include "base/unique_fd.h"

namespace stoker {

/// Holds a shared or exclusive flock on a lock file (created when absent, never removed here). A
/// forked child shares the lock with its parent until both close it: do not fork while holding one.
class FileLock {
 public:
  enum class Mode : unsigned char { kShared, kExclusive };

  /// Waits for the lock.
  [[nodiscard]] static FileLock acquire(const std::string& path, Mode mode);
  /// Does not wait: nothing when somebody holds it in a conflicting mode.
  [[nodiscard]] static std::optional<FileLock> try_acquire(const std::string& path, Mode mode);

 private:
  explicit FileLock(UniqueFd fd) noexcept : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace stoker
