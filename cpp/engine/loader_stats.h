// SPDX-License-Identifier: Apache-2.0
// Where the time of a loader goes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace stoker {

[[nodiscard]] inline std::uint64_t steady_ns() noexcept {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

/// Sums over all threads since the loader was made. Nanoseconds are of each thread's wall time.
struct LoaderStats {
  std::uint64_t wait_data_ns = 0;      // workers had nothing to do: data or a free slot was missing
  std::uint64_t read_ns = 0;           // chunks were opened, checked, decompressed
  std::uint64_t decode_ns = 0;         // JPEG: entropy decoding, IDCT, colour
  std::uint64_t resample_ns = 0;       // images: resize, colours, normalise, store
  std::uint64_t store_ns = 0;          // other leaves: checked and copied
  std::uint64_t wait_consumer_ns = 0;  // the planner waited for a free slot
  std::uint64_t consumer_wait_ns = 0;  // the consumer waited for a batch
  std::uint64_t bytes_read = 0;        // of items
  std::uint64_t samples = 0;           // tried, the skipped ones too
  std::uint64_t skipped = 0;           // left out because they were damaged
  std::uint64_t batches = 0;           // delivered
};

/// Counters of one thread, on cache lines of their own. Written by it alone, read by anyone.
struct alignas(128) ThreadCounters {
  std::atomic<std::uint64_t> wait_data_ns{0};
  std::atomic<std::uint64_t> read_ns{0};
  std::atomic<std::uint64_t> decode_ns{0};
  std::atomic<std::uint64_t> resample_ns{0};
  std::atomic<std::uint64_t> store_ns{0};
  std::atomic<std::uint64_t> wait_consumer_ns{0};
  std::atomic<std::uint64_t> consumer_wait_ns{0};
  std::atomic<std::uint64_t> bytes_read{0};
  std::atomic<std::uint64_t> samples{0};
  std::atomic<std::uint64_t> skipped{0};
  std::atomic<std::uint64_t> batches{0};

  static void add(std::atomic<std::uint64_t>& counter, std::uint64_t value) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  }
  void add_to(LoaderStats& stats) const noexcept;
};

}  // namespace stoker
