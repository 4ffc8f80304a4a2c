// SPDX-License-Identifier: Apache-2.0
#include "concurrency/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace stoker {
namespace {

std::atomic<std::uint64_t> forks{0};

std::uint64_t forks_so_far() noexcept {
  // Registered once, before the first guard exists; the handler only raises a counter.
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
  return forks.load(std::memory_order_relaxed);
}

}  // namespace

ForkGuard::ForkGuard() noexcept : generation_(forks_so_far()) {}

bool ForkGuard::forked() const noexcept {
  return generation_ != forks.load(std::memory_order_relaxed);
}

void ForkGuard::reset() noexcept { generation_ = forks_so_far(); }

}  // namespace stoker
