// SPDX-License-Identifier: Apache-2.0
#include "engine/batch_ring.h"

#include <algorithm>

namespace stoker {
namespace {

constexpr unsigned kCounterBits = 24;
constexpr std::uint64_t kCounterMask = (std::uint64_t{1} << kCounterBits) - 1;
// The counter of a batch of n rows runs from kEnd - n to kEnd. Claims that come too late raise it
// further, by each worker at most twice per batch; there is room for 1000 workers with the largest
// grain.
constexpr std::uint32_t kEnd = BatchRing::kMaxRows;
constexpr std::size_t kPadding = 128;  // two cache lines: processors fetch them in pairs

}  // namespace

struct BatchRing::Slot {
  alignas(kPadding) std::atomic<std::uint64_t> ticket{kEnd};
  alignas(kPadding) std::atomic<std::uint32_t> left{0};
  // Written by open() before the ticket, read by those who won a ticket.
  std::uint32_t rows = 0;
  // Written and read under the mutex.
  std::uint64_t batch = ~std::uint64_t{0};
  bool ready = false;
};

BatchRing::BatchRing(std::size_t depth, std::uint32_t grain)
    : depth_(depth), grain_(grain), slots_(std::make_unique<Slot[]>(depth)) {}

BatchRing::~BatchRing() = default;

BatchRing::Slot& BatchRing::slot_of(std::uint64_t batch) const noexcept {
  return slots_[static_cast<std::size_t>(batch % depth_)];
}

bool BatchRing::wait_for_slot() {
  MutexLock lock(mutex_);
  while (!closed_ && opened_ - delivered_ >= depth_) has_slot_.wait(mutex_);
  return !closed_;
}

void BatchRing::open(std::uint32_t rows) {
  const std::uint64_t batch = opened_.load(std::memory_order_relaxed);
  Slot& slot = slot_of(batch);
  slot.rows = rows;
  slot.left.store(rows, std::memory_order_relaxed);
  {
    MutexLock lock(mutex_);
    slot.batch = batch;
    slot.ready = rows == 0;
    slot.ticket.store(batch << kCounterBits | (kEnd - rows), std::memory_order_release);
    opened_.store(batch + 1, std::memory_order_release);
    if (rows == 0) has_batch_.notify_all();
  }
  // Not everybody: a herd would fight for the few claims of a small batch.
  const std::uint32_t claims = (rows + grain_ - 1) / grain_;
  if (claims == 1) {
    has_work_.notify_one();
  } else if (claims > 1) {
    has_work_.notify_all();
  }
}

void BatchRing::finish() {
  MutexLock lock(mutex_);
  finished_ = true;
  has_work_.notify_all();
  has_batch_.notify_all();
}

std::optional<BatchRing::Claim> BatchRing::claim_in(std::uint64_t batch, bool* exhausted) {
  Slot& slot = slot_of(batch);
  const std::uint64_t ticket = slot.ticket.fetch_add(grain_, std::memory_order_acq_rel);
  const auto counter = static_cast<std::uint32_t>(ticket & kCounterMask);
  const std::uint64_t found = ticket >> kCounterBits;
  *exhausted = counter >= kEnd || found != batch;
  if (counter >= kEnd) return std::nullopt;
  const std::uint32_t first = counter - (kEnd - slot.rows);
  return Claim{found, first, std::min(grain_, slot.rows - first)};
}

std::optional<BatchRing::Claim> BatchRing::look(Cursor& cursor, std::uint64_t opened) {
  // Batches before these were delivered. A thread that slept long must not walk through them all:
  // each look at a slot raises its counter.
  if (opened > depth_) cursor.batch = std::max(cursor.batch, opened - depth_);
  bool exhausted = false;
  const std::optional<Claim> claim = claim_in(cursor.batch, &exhausted);
  if (exhausted) ++cursor.batch;
  return claim;
}

std::optional<BatchRing::Claim> BatchRing::try_claim(Cursor& cursor) {
  while (!closed_.load(std::memory_order_relaxed)) {
    const std::uint64_t opened = this->opened();
    if (cursor.batch >= opened) break;
    if (const std::optional<Claim> claim = look(cursor, opened)) return claim;
  }
  return std::nullopt;
}

std::optional<BatchRing::Claim> BatchRing::claim(Cursor& cursor) {
  for (;;) {
    if (const std::optional<Claim> claim = try_claim(cursor)) return claim;
    MutexLock lock(mutex_);
    while (!closed_ && !finished_ && cursor.batch >= opened_) has_work_.wait(mutex_);
    if (closed_ || cursor.batch >= opened_) return std::nullopt;
  }
}

void BatchRing::done(const Claim& claim) {
  Slot& slot = slot_of(claim.batch);
  if (slot.left.fetch_sub(claim.rows, std::memory_order_acq_rel) != claim.rows) return;
  MutexLock lock(mutex_);
  slot.ready = true;
  if (claim.batch == delivered_) has_batch_.notify_all();
}

bool BatchRing::is_ready(std::uint64_t batch) const {
  const Slot& slot = slot_of(batch);
  return batch < opened_ && slot.batch == batch && slot.ready;
}

BatchRing::Ready BatchRing::wait_ready(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  MutexLock lock(mutex_);
  for (;;) {
    if (closed_) return Ready::kClosed;
    if (is_ready(delivered_)) return Ready::kBatch;
    if (finished_ && delivered_ >= opened_) return Ready::kEnd;
    if (has_batch_.wait_until(mutex_, deadline) == std::cv_status::timeout) {
      return is_ready(delivered_) ? Ready::kBatch : Ready::kTimeout;
    }
  }
}

void BatchRing::release() {
  MutexLock lock(mutex_);
  slot_of(delivered_).ready = false;
  ++delivered_;
  has_slot_.notify_one();
}

std::uint64_t BatchRing::delivered() const {
  MutexLock lock(mutex_);
  return delivered_;
}

std::size_t BatchRing::queued() const {
  MutexLock lock(mutex_);
  std::size_t count = 0;
  while (count < depth_ && is_ready(delivered_ + count)) ++count;
  return count;
}

void BatchRing::close() {
  MutexLock lock(mutex_);
  closed_ = true;
  has_slot_.notify_all();
  has_work_.notify_all();
  has_batch_.notify_all();
}

}  // namespace stoker
