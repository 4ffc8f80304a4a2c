// SPDX-License-Identifier: Apache-2.0
// From an epoch's order to filled batches: planner, workers, ring.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/thread_annotations.h"
#include "engine/batch_data.h"
#include "engine/batch_order.h"
#include "engine/batch_ring.h"
#include "engine/batch_spec.h"
#include "engine/chunk_set.h"
#include "engine/loader_stats.h"
#include "engine/row_writer.h"
#include "engine/slab.h"
#include "plan/batch_slices.h"
#include "plan/epoch_plan.h"

namespace stoker {

struct LoaderOptions {
  std::size_t threads = 1;     // that decode; 0 = the caller of next() does everything
  std::size_t depth = 4;       // batches planned and in work ahead of the consumer
  bool skip_corrupt = false;   // leave damaged samples out of their batch instead of failing
  bool offered_slabs = false;  // batches go to memory given by offer(), not to the loader's own
  /// Where slabs come from: one pool for all epochs saves touching fresh pages in each of them. Its
  /// slabs have at least BatchSpec::slab_bytes. Nothing: a pool of this loader.
  std::optional<SlabPool> pool = std::nullopt;
};

/// Everything that decides what the batches hold. The same input gives the same batches whatever
/// the options.
struct LoaderInput {
  DatasetPart dataset;
  std::shared_ptr<const IntervalSet> intervals;
  PlanOptions plan;
  BatchSlices slices;
  std::shared_ptr<const BatchSpec> spec;
};

/// The same for batches that tell() names. All parts have items of this spec.
struct ToldInput {
  std::vector<DatasetPart> datasets;
  std::shared_ptr<const BatchSpec> spec;
};

/// A batch as the consumer gets it.
struct Batch {
  std::uint64_t position = 0;  // of its first row in the order of the epoch
  std::uint32_t rows = 0;      // fewer than planned when damaged samples were left out
  std::uint32_t skipped = 0;
  Slab slab;
  /// Of every kObject column the bytes of each row, valid while `chunks` lives.
  std::vector<std::vector<ByteSpan>> objects;
  std::vector<std::shared_ptr<const OpenChunk>> chunks;
};

/// Threads start in the constructor and are joined by close() or the destructor. next(), offer(),
/// tell(), finish() and close() belong to one consumer; stats() may be called from any thread. Not
/// usable after fork: leak it and make a new one. Nobody but the consumer touches a delivered
/// batch.
class Loader {
 public:
  /// Throws kInvalidArgument when the parts do not fit each other.
  Loader(const LoaderInput& input, const LoaderOptions& options);
  Loader(ToldInput input, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  enum class Next : std::uint8_t { kBatch, kEnd, kTimeout };
  /// The next batch, in order. Rethrows the error of its first failing row, after all batches
  /// before it; the loader is then closed. Throws kClosed after close().
  [[nodiscard]] Next next(std::chrono::milliseconds timeout, Batch* batch);

  /// Memory for a batch to come, at least BatchSpec::slab_bytes, aligned to 64 bytes. With
  /// offered_slabs no batch is begun without it: depth of them should be under way.
  void offer(Slab slab);

  /// The next batch that a loader of a ToldInput makes: 1 to BatchSpec::batch_rows rows. Throws
  /// kInvalidArgument otherwise, for another loader, and after finish(). Without threads it must
  /// come before the next() that wants it; else it should be told `depth` batches earlier.
  void tell(std::vector<ToldRow> batch);
  /// No batch comes after those told.
  void finish();

  /// Stops and joins all threads. Batches already delivered stay valid.
  void close() noexcept;

  [[nodiscard]] LoaderStats stats() const;
  /// Batches that wait to be delivered.
  [[nodiscard]] std::size_t queued() const { return ring_.queued(); }

 private:
  /// All but the order and the threads.
  Loader(std::shared_ptr<const BatchSpec> spec, std::shared_ptr<const ChunkSet> set,
         const LoaderOptions& options);
  void start_threads(bool scattered);
  [[nodiscard]] ToldOrder& told_order();
  void run_planner();
  void run_worker(std::size_t number, RowWriter& writer);
  [[nodiscard]] RowWriter make_writer(bool scattered) const;
  [[nodiscard]] bool plan_next(ThreadCounters& counters);
  void fill_plan(BatchData& data);
  void open_chunks_of(BatchData& data);
  void work_inline();
  [[nodiscard]] bool wait_for_offer(ThreadCounters& counters);
  [[nodiscard]] Slab take_slab();
  void deliver(BatchData& data, Batch* batch);
  void leave_out(const std::vector<BatchData::RowError>& errors, Batch* batch) const;
  [[nodiscard]] BatchData& data_of(std::uint64_t batch) noexcept {
    return *data_[static_cast<std::size_t>(batch % ring_.depth())];
  }
  [[nodiscard]] bool is_inline() const noexcept { return options_.threads == 0; }

  std::shared_ptr<const BatchSpec> spec_;
  std::shared_ptr<const ChunkSet> set_;
  LoaderOptions options_;
  std::unique_ptr<BatchOrder> order_;
  std::size_t object_columns_ = 0;
  SlabPool pool_;
  BatchRing ring_;
  std::vector<std::unique_ptr<BatchData>> data_;  // per slot
  std::vector<ChunkPlace> places_;                // planner
  std::vector<std::uint32_t> distinct_;           // planner: chunks of a batch
  std::vector<std::uint32_t> local_;              // planner: chunk -> place in BatchData::chunks
  std::vector<std::unique_ptr<ThreadCounters>> counters_;  // workers, then planner, then consumer
  std::optional<RowWriter> inline_writer_;
  BatchRing::Cursor inline_cursor_;

  Mutex offered_mutex_;
  std::condition_variable_any has_offer_;
  std::deque<Slab> offered_ GUARDED_BY(offered_mutex_);
  bool closed_ GUARDED_BY(offered_mutex_) = false;

  std::vector<std::thread> threads_;
};

}  // namespace stoker
