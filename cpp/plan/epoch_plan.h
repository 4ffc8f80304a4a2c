// SPDX-License-Identifier: Apache-2.0
// Which item comes at which position of an epoch. Pure: no clock, no disk, no rank, no worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "plan/intervals.h"

namespace stoker {

/// Part of the order: raise it when any change moves a sample. Checked when a state is loaded.
constexpr std::uint32_t kOrderVersion = 1;

/// An item as an interval of the set and a place in it.
struct ItemPlace {
  std::uint32_t interval = 0;
  std::uint32_t offset = 0;
  friend bool operator==(const ItemPlace&, const ItemPlace&) = default;
};

struct PlanOptions {
  bool shuffle = false;
  std::uint64_t seed = 42;
  std::uint64_t epoch = 1;
  /// Shuffled: the intervals are permuted, then cut in windows of this many, and the items of a
  /// window are one Fisher-Yates. Larger = better mixing and more chunks open at a time. At
  /// least 1.
  std::uint32_t window = 16;
};

/// The global order of one epoch: fill() gives the items of any range of positions, each item of
/// the interval set exactly once over [0, size()). Ranks and workers only choose positions, so the
/// order is the same in any world. Memory O(intervals) plus one window of u32. Not thread-safe
/// (keeps the current window); make one per thread, they agree.
///
/// Without shuffle the order is the intervals one after another. With shuffle it is, exactly:
///  1. The numbers 0..n-1 of the n (non-empty) intervals are permuted by `shuffle` (rng.h) with
///     Rng(derive_key({kOrderVersion, seed, epoch, 1, 0})).
///  2. They are cut in windows of `window` intervals. A window whose items would pass 2^32 - 1 ends
///     before the interval that would do so; that depends on nothing but the sizes.
///  3. The items of window w, its intervals joined in permuted order, are permuted by `shuffle`
///  with
///     Rng(derive_key({kOrderVersion, seed, epoch, 2, w})).
/// Every line of this is part of the order: running jobs resume by position.
class EpochPlan {
 public:
  /// Throws kInvalidArgument for a window of 0; kUnsupported, when shuffled, for more than 2^32 - 1
  /// intervals or an interval of more than 2^32 - 1 items.
  EpochPlan(std::shared_ptr<const IntervalSet> set, PlanOptions options);

  [[nodiscard]] std::uint64_t size() const noexcept { return set_->size(); }
  /// Item numbers at positions [position, position + out.size()). Throws kOutOfRange. Sequential
  /// calls cost O(1) per item; a jump costs one window.
  void fill(std::uint64_t position, std::span<std::uint64_t> out);
  /// The same items as places. Throws also kUnsupported, as the constructor, for a set that is too
  /// large for places though the order is not shuffled.
  void fill_places(std::uint64_t position, std::span<ItemPlace> out);

  /// Intervals whose items come mixed with each other, before and after all others. Without
  /// shuffle every interval is a window.
  [[nodiscard]] std::size_t windows() const noexcept {
    return options_.shuffle ? window_firsts_.size() : set_->intervals().size();
  }
  /// The window of a position. Throws kOutOfRange.
  [[nodiscard]] std::size_t window_at(std::uint64_t position) const;
  /// First position of window w; window_start(windows()) is size(). REQUIRES: w <= windows().
  [[nodiscard]] std::uint64_t window_start(std::size_t w) const noexcept;
  /// Numbers of the intervals of window w. REQUIRES: w < windows().
  [[nodiscard]] std::vector<std::uint32_t> window_intervals(std::size_t w) const;
  [[nodiscard]] const IntervalSet& set() const noexcept { return *set_; }

 private:
  /// Where one interval of the loaded window lies among the window's unshuffled offsets.
  struct Part {
    std::uint64_t end = 0;      // first offset after it
    std::uint64_t to_item = 0;  // item number = offset + to_item (modulo 2^64)
    std::uint32_t interval = 0;
    std::uint32_t begin = 0;  // first offset of it
  };

  void check_range(std::uint64_t position, std::size_t count) const;
  void fill_in_order(std::uint64_t position, std::span<std::uint64_t> out) const;
  void places_in_order(std::uint64_t position, std::span<ItemPlace> out) const;
  /// Calls take(i, offset) with the offset in the loaded window for each of `count` positions.
  template <typename Take>
  void for_shuffled(std::uint64_t position, std::size_t count, const Take& take);
  void load_window(std::size_t window);
  void index_parts(std::uint64_t items);
  [[nodiscard]] std::size_t window_end(std::size_t window) const noexcept;
  [[nodiscard]] const Part& part_at_offset(std::uint32_t offset) const noexcept;

  std::shared_ptr<const IntervalSet> set_;
  PlanOptions options_;
  std::vector<std::uint32_t> order_;        // permutation of intervals (shuffled only)
  std::vector<std::size_t> window_firsts_;  // first place in order_ of each window
  std::vector<std::uint64_t> window_ends_;  // running ends of windows in positions
  std::size_t loaded_ = std::numeric_limits<std::size_t>::max();
  std::vector<std::uint32_t> offsets_;  // the loaded window, shuffled
  std::vector<Part> parts_;             // its intervals
  std::vector<std::uint32_t> buckets_;  // part of the first offset of each 2^bucket_bits_ offsets
  unsigned bucket_bits_ = 0;
};

namespace internal {
/// First place of each window when intervals of these sizes (in permuted order) are cut by step 2
/// above. REQUIRES: window > 0. Throws kUnsupported when one size passes `max_items`. Here for
/// tests.
[[nodiscard]] std::vector<std::size_t> cut_windows(
    std::span<const std::uint64_t> sizes, std::uint32_t window,
    std::uint64_t max_items = std::numeric_limits<std::uint32_t>::max());
}  // namespace internal

}  // namespace stoker
