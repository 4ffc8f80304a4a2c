// SPDX-License-Identifier: Apache-2.0
// What a dataset consists of, as the plan sees it: half-open ranges of item numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stoker {

/// Items [begin, end) in the numbering of the whole dataset (0 = first item of the first chunk). An
/// interval never crosses a chunk, so reading it needs one file.
struct Interval {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  [[nodiscard]] std::uint64_t size() const noexcept { return end - begin; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// A list of intervals (in dataset order, repeats allowed) with positions 0..size() over them:
/// position p is the p-th item when the intervals are walked in order. Immutable, any thread.
class IntervalSet {
 public:
  IntervalSet() = default;
  /// Empty intervals are dropped. `chunk_sizes`: items of every chunk, so that neighbours in one
  /// chunk, in its order, form a group; without it every interval is a group. Throws
  /// kInvalidArgument when begin > end or the total passes 2^63 - 1.
  explicit IntervalSet(std::vector<Interval> intervals,
                       std::span<const std::uint64_t> chunk_sizes = {});

  [[nodiscard]] std::uint64_t size() const noexcept { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] std::span<const Interval> intervals() const noexcept { return intervals_; }
  /// Item number at position p, O(log n). Throws kOutOfRange.
  [[nodiscard]] std::uint64_t item_at(std::uint64_t position) const;
  /// How many positions from p on lie in the interval of p (at least 1). REQUIRES: p < size().
  [[nodiscard]] std::uint64_t run_at(std::uint64_t position) const;
  /// The interval of position p, O(log n). Throws kOutOfRange.
  [[nodiscard]] std::size_t interval_at(std::uint64_t position) const;
  /// First position of interval k; start_of(intervals().size()) is size().
  [[nodiscard]] std::uint64_t start_of(std::size_t k) const noexcept {
    return k == 0 ? 0 : ends_[k - 1];
  }

  /// What is read from one chunk at one time.
  [[nodiscard]] std::size_t groups() const noexcept { return groups_.size(); }
  /// First position of group g; group_start(groups()) is size().
  [[nodiscard]] std::uint64_t group_start(std::size_t g) const noexcept {
    return g == groups_.size() ? size() : start_of(groups_[g]);
  }

 private:
  void find_groups(std::span<const std::uint64_t> chunk_sizes);

  std::vector<Interval> intervals_;
  std::vector<std::size_t> groups_;  // first interval of each
  std::vector<std::uint64_t> ends_;  // running ends: ends_[k] = first position after interval k
};

}  // namespace stoker
