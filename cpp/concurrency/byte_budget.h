// SPDX-License-Identifier: Apache-2.0
// A semaphore counted in bytes: the back-pressure of everything that holds memory.
#pragma once

#include <condition_variable>
#include <cstdint>

#include "base/thread_annotations.h"

namespace stoker {

/// `limit` bytes may be reserved at a time. A single request above the limit is granted alone (when
/// nothing else is reserved), so one oversized chunk streams through instead of deadlocking.
/// Thread-safe. Waiters are served in the order they came.
class ByteBudget {
 public:
  explicit ByteBudget(std::uint64_t limit) noexcept : limit_(limit) {}

  /// Blocks until `bytes` fit. Throws kClosed after close().
  void acquire(std::uint64_t bytes) EXCLUDES(mutex_);
  /// Reserves without waiting; false when it does not fit, when others wait, or after close().
  [[nodiscard]] bool try_acquire(std::uint64_t bytes) EXCLUDES(mutex_);
  void release(std::uint64_t bytes) noexcept EXCLUDES(mutex_);
  /// Wakes all waiters with kClosed; later acquires fail the same way.
  void close() noexcept EXCLUDES(mutex_);

  [[nodiscard]] std::uint64_t in_use() const EXCLUDES(mutex_);

 private:
  [[nodiscard]] bool fits(std::uint64_t bytes) const REQUIRES(mutex_);

  const std::uint64_t limit_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t in_use_ GUARDED_BY(mutex_) = 0;
  std::uint64_t next_ticket_ GUARDED_BY(mutex_) = 0;
  std::uint64_t serving_ GUARDED_BY(mutex_) = 0;
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace stoker
