// SPDX-License-Identifier: Apache-2.0
#include "engine/loader_stats.h"

namespace stoker {

void ThreadCounters::add_to(LoaderStats& stats) const noexcept {
  const auto add = [](std::uint64_t& sum, const std::atomic<std::uint64_t>& counter) {
    sum += counter.load(std::memory_order_relaxed);
  };
  add(stats.wait_data_ns, wait_data_ns);
  add(stats.read_ns, read_ns);
  add(stats.decode_ns, decode_ns);
  add(stats.resample_ns, resample_ns);
  add(stats.store_ns, store_ns);
  add(stats.wait_consumer_ns, wait_consumer_ns);
  add(stats.consumer_wait_ns, consumer_wait_ns);
  add(stats.bytes_read, bytes_read);
  add(stats.samples, samples);
  add(stats.skipped, skipped);
  add(stats.batches, batches);
}

}  // namespace stoker
