// SPDX-License-Identifier: Apache-2.0
// Two ways to do one job, timed in turn in one process, so that what disturbs one disturbs both.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

namespace stoker::bench {

/// CPU seconds of this thread, system time included: other programs on the machine do not count.
inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <typename Work>
double seconds_of(const Work& work) {
  const double start = thread_seconds();
  work();
  return thread_seconds() - start;
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Runs both arms once per iteration, first one ahead and then the other. The time shown is that of
/// `ours`; the counters are medians over the iterations: `limit_us` for the limit's time and
/// `ratio` for limit / ours, so 1 means "as fast as the limit" and more is better. REQUIRES:
/// UseManualTime.
template <typename Limit, typename Ours>
void run_paired(benchmark::State& state, const Limit& limit, const Ours& ours) {
  limit();  // buffers are allocated and caches warm before anything counts
  ours();
  std::vector<double> limit_times;
  std::vector<double> ratios;
  for (auto _ : state) {
    double limit_time = 0;
    double our_time = 0;
    if (ratios.size() % 2 == 0) {
      limit_time = seconds_of(limit);
      our_time = seconds_of(ours);
    } else {
      our_time = seconds_of(ours);
      limit_time = seconds_of(limit);
    }
    limit_times.push_back(limit_time);
    ratios.push_back(limit_time / our_time);
    state.SetIterationTime(our_time);
  }
  if (ratios.empty()) return;  // skipped
  state.counters["limit_us"] = 1e6 * median(std::move(limit_times));
  state.counters["ratio"] = median(std::move(ratios));
}

}  // namespace stoker::bench
