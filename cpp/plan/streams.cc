// SPDX-License-Identifier: Apache-2.0
#include "plan/streams.h"

#include <cstddef>
#include <numeric>

namespace stoker {

void Streams::rows(const BatchSlices::Slice& slice, std::span<std::uint64_t> out) const noexcept {
  if (count_ == 1 || slice.rows == slice.size) {
    std::iota(out.begin(), out.end(), slice.begin + slice.first);
    return;
  }
  const std::uint64_t batch_end = slice.begin + slice.size;
  const std::uint64_t wanted_end = slice.first + slice.rows;
  std::size_t taken = 0;
  std::uint64_t before = 0;  // rows of the streams so far
  for (std::uint32_t c = 0; c < count_ && before < wanted_end; ++c) {
    const std::uint64_t first = below(c, slice.begin);
    const std::uint64_t size = below(c, batch_end) - first;
    const std::uint64_t low = std::max(slice.first, before);
    const std::uint64_t high = std::min(wanted_end, before + size);
    for (std::uint64_t row = low; row < high; ++row) {
      out[taken++] = (first + row - before) * count_ + c;
    }
    before += size;
  }
  // Neighbours in a batch come from different chunks, whatever the rank.
  std::sort(out.begin(), out.end());
}

Streams::Range Streams::range_of(const BatchSlices& slices) const noexcept {
  const std::uint64_t batch = slices.global_batch();
  if (count_ == 1 || batch < count_) return {0, count_};
  // A stream has batch / count_ rows of a batch, or one more, so its border moves by count_ at
  // most.
  const std::uint64_t first = std::uint64_t{slices.rank} * slices.batch_size;
  const std::uint64_t end = first + slices.batch_size;
  const std::uint64_t least = batch / count_;
  const std::uint64_t most = least + (batch % count_ != 0 ? 1 : 0);
  Range range{count_, 0};
  for (std::uint32_t c = 0; c < count_; ++c) {
    // Rows of the streams before c: between c * least and c * most, and no further from the end.
    const std::uint64_t after = std::uint64_t{count_} - c;
    const std::uint64_t low = std::max(c * least, batch - std::min(batch, after * most));
    const std::uint64_t high = std::min((c + 1) * most, batch - (after - 1) * least);
    if (low < end && high > first) {
      range.begin = std::min(range.begin, c);
      range.end = c + 1;
    }
  }
  return range;
}

}  // namespace stoker
