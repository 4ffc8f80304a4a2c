// SPDX-License-Identifier: Apache-2.0
// A fixed set of named threads.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/thread_annotations.h"

namespace stoker {

/// `threads` workers named "<name>/<i>" (at most 15 characters are kept by the kernel). submit() is
/// thread-safe; an exception of the task goes to its future. The destructor lets queued tasks
/// finish, then joins; it must not run on a worker. Never carried over fork: see ForkGuard.
class ThreadPool {
 public:
  /// Throws kInvalidArgument for 0 threads, kIo when the system refuses a thread.
  ThreadPool(std::size_t threads, const std::string& name);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  template <typename F>
  [[nodiscard]] auto submit(F task) -> std::future<std::invoke_result_t<F>> {
    auto packaged =
        std::make_shared<std::packaged_task<std::invoke_result_t<F>()>>(std::move(task));
    auto result = packaged->get_future();
    enqueue([packaged] { (*packaged)(); });
    return result;
  }

  [[nodiscard]] std::size_t size() const noexcept { return threads_.size(); }

 private:
  void enqueue(std::function<void()> task) EXCLUDES(mutex_);
  void run() EXCLUDES(mutex_);
  void stop() EXCLUDES(mutex_);

  Mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::function<void()>> tasks_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace stoker
