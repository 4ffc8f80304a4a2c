// SPDX-License-Identifier: Apache-2.0
// A blocking queue between threads that can end (close) or break (fail).
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <optional>
#include <utility>

#include "base/thread_annotations.h"

namespace stoker {

/// Holds at most `capacity` values. Thread-safe, many producers and consumers.
/// close(): no more values; what is queued is still delivered, then pop() returns nothing.
/// fail(e): what is queued is still delivered, then every pop() rethrows e. The first of close/fail
/// wins.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity == 0 ? 1 : capacity) {}

  /// Waits for room. False (value dropped) when the queue has been closed or failed.
  [[nodiscard]] bool push(T value) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!ended_ && items_.size() >= capacity_) has_room_.wait(mutex_);
    if (ended_) return false;
    items_.push_back(std::move(value));
    has_items_.notify_one();
    return true;
  }

  /// Waits for a value; nothing after the end; rethrows the failure after the last value.
  [[nodiscard]] std::optional<T> pop() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!ended_ && items_.empty()) has_items_.wait(mutex_);
    if (items_.empty()) {
      if (failure_) std::rethrow_exception(failure_);
      return std::nullopt;
    }
    std::optional<T> value(std::move(items_.front()));
    items_.pop_front();
    has_room_.notify_one();
    return value;
  }

  void close() noexcept EXCLUDES(mutex_) { end(nullptr); }
  void fail(std::exception_ptr failure) noexcept EXCLUDES(mutex_) { end(std::move(failure)); }

  [[nodiscard]] std::size_t size() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return items_.size();
  }

 private:
  void end(std::exception_ptr failure) noexcept EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (ended_) return;
    ended_ = true;
    failure_ = std::move(failure);
    has_items_.notify_all();
    has_room_.notify_all();
  }

  const std::size_t capacity_;
  mutable Mutex mutex_;
  std::condition_variable_any has_items_;
  std::condition_variable_any has_room_;
  std::deque<T> items_ GUARDED_BY(mutex_);
  std::exception_ptr failure_ GUARDED_BY(mutex_);
  bool ended_ GUARDED_BY(mutex_) = false;
};

}  // namespace stoker
