// SPDX-License-Identifier: Apache-2.0
// Who works on which rows of which batch, and when a batch may be delivered. No data, no decoding.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/thread_annotations.h"

namespace stoker {

/// A ring of `depth` slots for batches 0, 1, 2, ... One planner opens batches in order, workers
/// claim runs of rows of any open batch, one consumer takes the batches in order. Batch b lives in
/// slot b % depth from open(b) to release(b); whatever belongs to it may be kept beside the ring
/// under the same number: open() publishes what the planner wrote before, wait_ready() what the
/// workers wrote.
///
/// A claim is one fetch_add on the slot's ticket word: batch number << 24 | row counter. The number
/// is in the word because a worker may come late to a slot that was released and opened again; then
/// it has won rows of that later batch, does them, and goes on with the batch after the one it came
/// for, so no batch is left out. The counter ends at the same value for every batch, whatever its
/// rows, so a late claim of a finished batch finds nothing.
///
/// All methods are thread-safe; wait methods return when the ring is closed.
class BatchRing {
 public:
  static constexpr std::uint32_t kMaxRows = 1U << 23;

  /// `grain`: rows per claim. REQUIRES: depth, grain > 0, grain <= 4096.
  BatchRing(std::size_t depth, std::uint32_t grain);
  ~BatchRing();
  BatchRing(const BatchRing&) = delete;
  BatchRing& operator=(const BatchRing&) = delete;

  [[nodiscard]] std::size_t depth() const noexcept { return depth_; }

  // ---- planner

  /// Waits until batch opened() has a slot. False when closed.
  [[nodiscard]] bool wait_for_slot() EXCLUDES(mutex_);
  /// Opens batch opened() with that many rows; with 0 it is ready at once. REQUIRES: it has a slot,
  /// rows <= kMaxRows.
  void open(std::uint32_t rows) EXCLUDES(mutex_);
  /// No batch comes after those opened.
  void finish() EXCLUDES(mutex_);

  // ---- workers

  struct Claim {
    std::uint64_t batch = 0;
    std::uint32_t first = 0;
    std::uint32_t rows = 0;
  };
  /// Where a worker stands; one per worker, starts at the first batch.
  struct Cursor {
    std::uint64_t batch = 0;
  };
  /// Waits for rows to work on. Nothing when the ring is closed or every batch is claimed.
  [[nodiscard]] std::optional<Claim> claim(Cursor& cursor) EXCLUDES(mutex_);
  /// The same without waiting: nothing when no open batch has unclaimed rows.
  [[nodiscard]] std::optional<Claim> try_claim(Cursor& cursor) EXCLUDES(mutex_);
  /// The rows of `claim` are done.
  void done(const Claim& claim) EXCLUDES(mutex_);

  // ---- consumer

  enum class Ready : std::uint8_t { kBatch, kEnd, kClosed, kTimeout };
  /// Waits until batch delivered() is ready, or there is none.
  [[nodiscard]] Ready wait_ready(std::chrono::milliseconds timeout) EXCLUDES(mutex_);
  /// Batch delivered() has been taken; its slot is free.
  void release() EXCLUDES(mutex_);

  [[nodiscard]] std::uint64_t opened() const noexcept {
    return opened_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t delivered() const EXCLUDES(mutex_);
  /// Batches that are ready and not yet delivered, counted from the next one on.
  [[nodiscard]] std::size_t queued() const EXCLUDES(mutex_);

  /// Wakes everybody; nothing can be claimed or taken any more.
  void close() EXCLUDES(mutex_);

 private:
  friend struct BatchRingPeer;  // for tests: a worker that comes late
  struct Slot;
  [[nodiscard]] Slot& slot_of(std::uint64_t batch) const noexcept;
  [[nodiscard]] std::optional<Claim> claim_in(std::uint64_t batch, bool* exhausted);
  /// One look at the cursor's batch by a worker that saw so many batches opened; others may have
  /// come since. Moves the cursor on when nothing is left there. REQUIRES: cursor.batch < opened.
  [[nodiscard]] std::optional<Claim> look(Cursor& cursor, std::uint64_t opened);
  [[nodiscard]] bool is_ready(std::uint64_t batch) const REQUIRES(mutex_);

  const std::size_t depth_;
  const std::uint32_t grain_;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<std::uint64_t> opened_{0};
  std::atomic<bool> closed_{false};
  mutable Mutex mutex_;
  std::condition_variable_any has_slot_;
  std::condition_variable_any has_work_;
  std::condition_variable_any has_batch_;
  std::uint64_t delivered_ GUARDED_BY(mutex_) = 0;
  bool finished_ GUARDED_BY(mutex_) = false;
};

}  // namespace stoker
