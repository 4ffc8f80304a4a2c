// SPDX-License-Identifier: Apache-2.0
// The chunks around the planner's position, opened ahead of need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <unordered_map>
#include <vector>

#include "concurrency/thread_pool.h"
#include "engine/loader_stats.h"
#include "format/chunk_view.h"
#include "plan/epoch_plan.h"
#include "reader/chunk_opener.h"

namespace stoker {

/// A chunk, or why there is none.
struct OpenChunk {
  std::size_t chunk = 0;
  ChunkView view;
  std::exception_ptr error;
};

/// Keeps the chunks of the current window of the plan open, and starts on those of the next window
/// one after another as the current one is used up, so that neither disk nor memory sees a burst.
/// Used by one thread (the planner); chunks are opened on a pool, or in get() when there is none.
class OpenChunks {
 public:
  /// Looks at a chunk that was opened; throws when something is wrong with it. Any thread.
  using Check = std::function<void(const ChunkView& view, std::size_t chunk)>;

  /// `chunk_of`: the chunk of every interval of `plan`. `openers`: threads; 0 = open in get().
  OpenChunks(std::shared_ptr<const ChunkOpener> opener, const EpochPlan& plan,
             std::vector<std::uint32_t> chunk_of, std::size_t openers, Check check = {});

  /// The planner has come to `position`, which never goes back.
  void advance(std::uint64_t position);

  /// The chunk of an interval of the current window; waits until it is open. Never throws an error
  /// of the chunk: that is inside.
  [[nodiscard]] std::shared_ptr<const OpenChunk> get(std::uint32_t interval);

  /// Ends the threads and lets go of the chunks. Only counters() may be called afterwards.
  void close() noexcept;

  [[nodiscard]] std::uint32_t chunk_of(std::uint32_t interval) const noexcept {
    return chunk_of_[interval];
  }
  /// Time spent opening, on any thread.
  [[nodiscard]] const ThreadCounters& counters() const noexcept { return counters_; }

 private:
  using Result = std::shared_ptr<const OpenChunk>;
  struct Entry {
    std::shared_future<Result> result;  // invalid: not started
    std::size_t last_window = 0;        // that needs it
  };
  void need(std::uint32_t chunk, std::size_t window);
  void look_past_next();
  void drop_before(std::size_t window);
  [[nodiscard]] Result open(std::size_t chunk);

  std::shared_ptr<const ChunkOpener> opener_;
  const EpochPlan& plan_;
  std::vector<std::uint32_t> chunk_of_;
  Check check_;
  std::unordered_map<std::uint32_t, Entry> entries_;
  std::size_t window_ = 0;
  bool entered_ = false;
  std::vector<std::uint32_t> next_;  // intervals of the window after
  std::size_t next_started_ = 0;
  ThreadCounters counters_;           // written by several threads: only through fetch_add
  std::unique_ptr<ThreadPool> pool_;  // last: its tasks use the members above
};

}  // namespace stoker
