// SPDX-License-Identifier: Apache-2.0
// Positions of an epoch dealt round robin to streams, and the rows that a rank takes of a batch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "plan/batch_slices.h"

namespace stoker {

/// Position p is item p / count() of stream p % count(). The streams lie one after another in a
/// concatenation of all items, and their sizes differ by one at most. Pure arithmetic.
class Streams {
 public:
  /// REQUIRES: count > 0.
  Streams(std::uint64_t total, std::uint32_t count) noexcept : total_(total), count_(count) {}

  [[nodiscard]] std::uint64_t total() const noexcept { return total_; }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t size(std::uint32_t stream) const noexcept {
    return total_ / count_ + (stream < total_ % count_ ? 1 : 0);
  }
  /// Where the stream begins in the concatenation; start(count()) is total().
  [[nodiscard]] std::uint64_t start(std::uint32_t stream) const noexcept {
    return stream * (total_ / count_) + std::min<std::uint64_t>(stream, total_ % count_);
  }

  /// The positions of a rank's rows, ascending: the positions of the batch are sorted by (stream,
  /// position), and [first, first + rows) of them are taken. So consecutive ranks read consecutive
  /// streams, the ranks of a node few of them, and with as many nodes as streams (or a divisor, and
  /// batches that are multiples of the streams) no stream is read by two. REQUIRES: out.size() ==
  /// slice.rows, the slice within [0, total()).
  void rows(const BatchSlices::Slice& slice, std::span<std::uint64_t> out) const noexcept;

  /// Streams that a rank may read, as a half-open range: all batches of `slices` but the last,
  /// short one stay within.
  struct Range {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };
  [[nodiscard]] Range range_of(const BatchSlices& slices) const noexcept;

 private:
  /// Positions of `stream` below `position`.
  [[nodiscard]] std::uint64_t below(std::uint32_t stream, std::uint64_t position) const noexcept {
    return position / count_ + (stream < position % count_ ? 1 : 0);
  }

  std::uint64_t total_;
  std::uint32_t count_;
};

}  // namespace stoker
