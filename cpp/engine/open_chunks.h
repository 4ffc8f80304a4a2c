// SPDX-License-Identifier: Apache-2.0
// The chunks around the planner's position, opened ahead of need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "concurrency/thread_pool.h"
#include "engine/loader_stats.h"
#include "format/chunk_view.h"
#include "plan/epoch_plan.h"

namespace stoker {

/// A chunk, or why there is none.
struct OpenChunk {
  std::size_t chunk = 0;
  ChunkView view;
  std::exception_ptr error;
};

/// Keeps the chunks open that the plan reads around a position, and starts on those it reads next
/// one after another, so that neither disk nor memory sees a burst. A plan without windows reads
/// any chunk at any time: then those used last stay open, at most `most_open`. Used by one thread
/// (the planner); chunks are opened on a pool, or in get() when there is none.
class OpenChunks {
 public:
  /// Opens a chunk, or throws. Any thread.
  using Open = std::function<ChunkView(std::size_t chunk)>;

  /// `chunk_of`: the chunk of every interval of `plan`. `range`: the streams that are read.
  /// `openers`: threads; 0 = open in get(). `most_open`: without windows; at least 1.
  OpenChunks(Open open, const EpochPlan& plan, const std::vector<std::uint32_t>& chunk_of,
             Streams::Range range, std::size_t openers, std::size_t most_open);
  /// Without a plan, and so without windows.
  OpenChunks(Open open, std::size_t openers, std::size_t most_open);

  /// The planner has come to `position`, which never goes back.
  void advance(std::uint64_t position);

  /// These chunks come soon: starts on them. Does nothing when windows say so already.
  void expect(std::span<const std::uint32_t> chunks);

  /// A chunk; waits until it is open. Never throws an error of the chunk: that is inside.
  [[nodiscard]] std::shared_ptr<const OpenChunk> get(std::uint32_t chunk);

  /// Ends the threads and lets go of the chunks. Only counters() may be called afterwards.
  void close() noexcept;

  /// Chunks that are open or being opened.
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// Time spent opening, on any thread.
  [[nodiscard]] const ThreadCounters& counters() const noexcept { return counters_; }

 private:
  using Result = std::shared_ptr<const OpenChunk>;
  struct Entry {
    std::shared_future<Result> result;  // invalid: not started
    std::uint64_t needed_until = 0;     // first position that does without it
    std::uint64_t used = 0;             // number of its last get()
  };
  /// A chunk of a window, and the position at which it is time to open it.
  struct Due {
    std::uint64_t position = 0;
    std::uint64_t needed_from = 0;
    std::uint64_t needed_until = 0;
    std::uint32_t chunk = 0;
  };
  void make_schedule(const EpochPlan& plan, const std::vector<std::uint32_t>& chunk_of,
                     Streams::Range range);
  void open_ahead_in_order(std::size_t openers);
  void need(std::uint32_t chunk, std::uint64_t until);
  void drop_before(std::uint64_t position);
  void drop_least_used();
  [[nodiscard]] Result open(std::size_t chunk);

  Open open_;
  std::unordered_map<std::uint32_t, Entry> entries_;
  std::vector<Due> schedule_;  // by position
  std::size_t started_ = 0;    // of the schedule
  std::optional<std::uint64_t> position_;
  std::uint64_t span_ = 0;     // positions of the longest window
  std::uint64_t drop_at_ = 0;  // no entry ends before
  std::uint64_t gets_ = 0;
  std::size_t most_open_;
  bool has_windows_ = false;
  ThreadCounters counters_;           // written by several threads: only through fetch_add
  std::unique_ptr<ThreadPool> pool_;  // last: its tasks use the members above
};

}  // namespace stoker
