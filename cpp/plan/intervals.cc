// SPDX-License-Identifier: Apache-2.0
#include "plan/intervals.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace stoker {
namespace {

// Positions stay valid as signed numbers on the other side of the bindings.
constexpr std::uint64_t kMaxPositions = std::numeric_limits<std::int64_t>::max();

[[noreturn]] void throw_bad(const Interval& interval, std::string_view problem) {
  throw Error(ErrorCode::kInvalidArgument, "the interval [" + std::to_string(interval.begin) +
                                               ", " + std::to_string(interval.end) + ") " +
                                               std::string(problem));
}

}  // namespace

IntervalSet::IntervalSet(std::vector<Interval> intervals,
                         std::span<const std::uint64_t> chunk_sizes)
    : intervals_(std::move(intervals)) {
  std::erase_if(intervals_, [](const Interval& i) { return i.begin == i.end; });
  ends_.reserve(intervals_.size());
  std::uint64_t total = 0;
  for (const Interval& interval : intervals_) {
    if (interval.begin > interval.end) throw_bad(interval, "ends before it begins");
    if (interval.size() > kMaxPositions - total)
      throw_bad(interval, "passes 2^63 - 1 items in all");
    ends_.push_back(total += interval.size());
  }
  find_groups(chunk_sizes);
}

void IntervalSet::find_groups(std::span<const std::uint64_t> chunk_sizes) {
  std::vector<std::uint64_t> chunk_ends;
  std::uint64_t total = 0;
  for (const std::uint64_t size : chunk_sizes) chunk_ends.push_back(total += size);
  std::uint64_t chunk_end = 0;  // of the group
  for (std::size_t k = 0; k < intervals_.size(); ++k) {
    const Interval& interval = intervals_[k];
    const bool goes_on =
        k > 0 && interval.begin >= intervals_[k - 1].end && interval.end <= chunk_end;
    if (goes_on) continue;
    groups_.push_back(k);
    const auto end = std::ranges::upper_bound(chunk_ends, interval.begin);
    chunk_end = end == chunk_ends.end() ? 0 : *end;
  }
}

std::size_t IntervalSet::interval_at(std::uint64_t position) const {
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), position);
  if (end == ends_.end()) {
    throw Error(ErrorCode::kOutOfRange,
                "position " + std::to_string(position) + " of " + std::to_string(size()));
  }
  return static_cast<std::size_t>(end - ends_.begin());
}

std::uint64_t IntervalSet::item_at(std::uint64_t position) const {
  const std::size_t k = interval_at(position);
  return intervals_[k].begin + (position - start_of(k));
}

std::uint64_t IntervalSet::run_at(std::uint64_t position) const {
  return *std::upper_bound(ends_.begin(), ends_.end(), position) - position;
}

}  // namespace stoker
