// SPDX-License-Identifier: Apache-2.0
// Which rows each batch of a loader has: from an epoch's plan, or told batch by batch.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/thread_annotations.h"
#include "engine/batch_data.h"
#include "engine/chunk_set.h"
#include "engine/open_chunks.h"
#include "plan/batch_slices.h"
#include "plan/epoch_plan.h"

namespace stoker {

/// Used by the planner alone, but for close().
class BatchOrder {
 public:
  BatchOrder() = default;
  virtual ~BatchOrder() = default;
  BatchOrder(const BatchOrder&) = delete;
  BatchOrder& operator=(const BatchOrder&) = delete;

  /// Waits until the next batch is known. False: there is none, or closed.
  [[nodiscard]] virtual bool wait_for_next() = 0;
  /// Fills positions and keys of the next batch of `data`, and the place of each row. REQUIRES:
  /// wait_for_next() said true.
  virtual void fill_next(BatchData& data, std::vector<ChunkPlace>& places) = 0;
  /// The chunks, opened ahead as far as this order knows what comes.
  [[nodiscard]] virtual OpenChunks& chunks() noexcept = 0;
  /// Ends waiting.
  virtual void close() noexcept = 0;
};

/// The slices of one rank in an epoch of part 0 of the set.
class EpochOrder : public BatchOrder {
 public:
  /// Throws kInvalidArgument when slices and intervals do not fit each other or the set.
  EpochOrder(std::shared_ptr<const ChunkSet> set, std::shared_ptr<const IntervalSet> intervals,
             const PlanOptions& plan, const BatchSlices& slices, std::size_t openers);

  [[nodiscard]] bool wait_for_next() override { return next_ < slices_.count(); }
  void fill_next(BatchData& data, std::vector<ChunkPlace>& places) override;
  [[nodiscard]] OpenChunks& chunks() noexcept override { return chunks_; }
  void close() noexcept override {}

 private:
  std::shared_ptr<const ChunkSet> set_;
  EpochPlan plan_;
  BatchSlices slices_;
  EpochKey key_;
  std::uint64_t next_ = 0;
  std::vector<ChunkPlace> begins_;  // of every interval
  std::vector<ItemPlace> places_;
  OpenChunks chunks_;
};

/// A row as it is told.
struct ToldRow {
  std::uint32_t part = 0;      // of the set
  std::uint64_t epoch = 1;     // of the part: for its transforms
  std::uint64_t position = 0;  // in that epoch: for its transforms
  std::uint64_t item = 0;      // of the part
};

/// Batches that the consumer tells one by one, as orders that are not one dataset's epoch need. It
/// should be a batch ahead of the ring, so that the planner never waits for it.
class ToldOrder : public BatchOrder {
 public:
  ToldOrder(std::shared_ptr<const ChunkSet> set, std::size_t openers);

  /// Any thread. Nothing may come after finish().
  void tell(std::vector<ToldRow> batch) EXCLUDES(mutex_);
  void finish() EXCLUDES(mutex_);
  /// Whether a batch waits to be planned, or it is known that none comes.
  [[nodiscard]] bool is_told() EXCLUDES(mutex_);

  [[nodiscard]] bool wait_for_next() override EXCLUDES(mutex_);
  /// Throws kOutOfRange for an item or part that there is not.
  void fill_next(BatchData& data, std::vector<ChunkPlace>& places) override EXCLUDES(mutex_);
  [[nodiscard]] OpenChunks& chunks() noexcept override { return chunks_; }
  void close() noexcept override EXCLUDES(mutex_);

 private:
  std::shared_ptr<const ChunkSet> set_;
  OpenChunks chunks_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::vector<ToldRow>> told_ GUARDED_BY(mutex_);
  bool finished_ GUARDED_BY(mutex_) = false;
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace stoker
