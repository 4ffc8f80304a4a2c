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

IntervalSet::IntervalSet(std::vector<Interval> intervals) : intervals_(std::move(intervals)) {
  std::erase_if(intervals_, [](const Interval& i) { return i.begin == i.end; });
  ends_.reserve(intervals_.size());
  std::uint64_t total = 0;
  for (const Interval& interval : intervals_) {
    if (interval.begin > interval.end) throw_bad(interval, "ends before it begins");
    if (interval.size() > kMaxPositions - total)
      throw_bad(interval, "passes 2^63 - 1 items in all");
    ends_.push_back(total += interval.size());
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
