// SPDX-License-Identifier: Apache-2.0
// Which positions of an epoch's order make up the batches of one rank. Pure arithmetic.
#pragma once

#include <algorithm>
#include <cstdint>

namespace stoker {

/// Global batch j covers positions [start + j*G, start + (j+1)*G), G = batch_size * world_size;
/// rank r delivers the r-th part of its rows (see Streams for which those are). The last global
/// batch may be short: it is shared as evenly as can be, or left out with drop_last. REQUIRES:
/// batch_size, world_size > 0, rank < world_size, start <= total.
struct BatchSlices {
  std::uint64_t total = 0;  // positions in the epoch
  std::uint64_t start = 0;  // where a saved state stopped
  std::uint32_t batch_size = 1;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  bool drop_last = false;

  /// Rows [first, first + rows) of the global batch that covers [begin, begin + size).
  struct Slice {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
    std::uint64_t first = 0;
    std::uint32_t rows = 0;
  };

  [[nodiscard]] std::uint64_t global_batch() const noexcept {
    return std::uint64_t{batch_size} * world_size;
  }
  /// Batches of this rank.
  [[nodiscard]] std::uint64_t count() const noexcept {
    return full() + (!drop_last && tail_part(rank + 1) > tail_part(rank) ? 1 : 0);
  }
  /// Batch j of this rank. REQUIRES: j < count().
  [[nodiscard]] Slice slice(std::uint64_t j) const noexcept {
    const std::uint64_t begin = start + j * global_batch();
    if (j < full()) return {begin, global_batch(), std::uint64_t{rank} * batch_size, batch_size};
    return {begin, total - begin, tail_part(rank),
            static_cast<std::uint32_t>(tail_part(rank + 1) - tail_part(rank))};
  }

 private:
  [[nodiscard]] std::uint64_t full() const noexcept { return (total - start) / global_batch(); }
  /// Samples of the last, short global batch that the first `ranks` ranks deliver.
  [[nodiscard]] std::uint64_t tail_part(std::uint64_t ranks) const noexcept {
    return ranks * ((total - start) % global_batch()) / world_size;
  }
};

}  // namespace stoker
