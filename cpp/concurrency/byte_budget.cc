// SPDX-License-Identifier: Apache-2.0
#include "concurrency/byte_budget.h"

#include "base/error.h"

namespace stoker {

bool ByteBudget::fits(std::uint64_t bytes) const {
  return in_use_ == 0 || (in_use_ <= limit_ && bytes <= limit_ - in_use_);
}

void ByteBudget::acquire(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  const std::uint64_t ticket = next_ticket_++;
  while (!closed_ && (serving_ != ticket || !fits(bytes))) changed_.wait(mutex_);
  if (closed_) throw Error(ErrorCode::kClosed, "the byte budget was closed");
  ++serving_;
  in_use_ += bytes;
  changed_.notify_all();
}

bool ByteBudget::try_acquire(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  if (closed_ || serving_ != next_ticket_ || !fits(bytes)) return false;
  in_use_ += bytes;
  return true;
}

void ByteBudget::release(std::uint64_t bytes) noexcept {
  MutexLock lock(mutex_);
  in_use_ -= bytes;
  changed_.notify_all();
}

void ByteBudget::close() noexcept {
  MutexLock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

std::uint64_t ByteBudget::in_use() const {
  MutexLock lock(mutex_);
  return in_use_;
}

}  // namespace stoker
