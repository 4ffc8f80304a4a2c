// SPDX-License-Identifier: Apache-2.0
#include "concurrency/thread_pool.h"

#include <pthread.h>

#include <system_error>

#include "base/error.h"

namespace stoker {
namespace {

constexpr std::size_t kMaxThreadName = 15;  // what the kernel keeps

}  // namespace

ThreadPool::ThreadPool(std::size_t threads, const std::string& name) {
  if (threads == 0) throw Error(ErrorCode::kInvalidArgument, "a thread pool needs a thread");
  threads_.reserve(threads);
  try {
    for (std::size_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this] { run(); });
      const std::string full = name + "/" + std::to_string(i);
      ::pthread_setname_np(threads_.back().native_handle(), full.substr(0, kMaxThreadName).c_str());
    }
  } catch (const std::system_error& error) {
    const std::size_t started = threads_.size();
    stop();  // a destroyed std::thread that was not joined ends the process
    throw Error(ErrorCode::kIo, "could start only " + std::to_string(started) + " of " +
                                    std::to_string(threads) + " threads of pool '" + name +
                                    "': " + error.what());
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::enqueue(std::function<void()> task) {
  MutexLock lock(mutex_);
  tasks_.push_back(std::move(task));
  wake_.notify_one();
}

void ThreadPool::run() {
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && tasks_.empty()) wake_.wait(mutex_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();  // a packaged task: its exception goes to the future
  }
}

}  // namespace stoker
