// SPDX-License-Identifier: Apache-2.0
// The order of one stream in one epoch: windows of pieces, each window shuffled as a whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "plan/intervals.h"

namespace stoker {

/// An item as an interval of the set and a place in it.
struct ItemPlace {
  std::uint32_t interval = 0;
  std::uint32_t offset = 0;
  friend bool operator==(const ItemPlace&, const ItemPlace&) = default;
};

/// Positions [begin, end) of an interval set, in one group (so in one chunk).
struct Piece {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Pieces in their order for the epoch, cut in windows; the items of window w, its pieces joined,
/// are permuted by `shuffle` (rng.h) with Rng(derive_key({key..., w})). Memory: the pieces, and one
/// window of u32. Not thread-safe: keeps the window it is in.
class WindowOrder {
 public:
  /// `firsts`: first piece of every window. REQUIRES: no window of more than 2^32 - 1 items.
  WindowOrder(std::shared_ptr<const IntervalSet> set, std::vector<Piece> pieces,
              std::vector<std::size_t> firsts, std::vector<std::uint64_t> key);

  /// The item at an offset of this stream. REQUIRES: offset below the items of all pieces.
  [[nodiscard]] ItemPlace place_at(std::uint64_t offset) {
    const Part& part = part_at(offset);
    return {part.interval, static_cast<std::uint32_t>(found_ + part.to_place)};
  }
  [[nodiscard]] std::uint64_t item_at(std::uint64_t offset) {
    const Part& part = part_at(offset);
    return found_ + part.to_item;
  }

  [[nodiscard]] std::size_t windows() const noexcept { return firsts_.size(); }
  /// First offset of window w; start(windows()) is the end. REQUIRES: w <= windows().
  [[nodiscard]] std::uint64_t start(std::size_t w) const noexcept { return starts_[w]; }
  /// REQUIRES: w < windows().
  [[nodiscard]] std::span<const Piece> pieces(std::size_t w) const noexcept {
    const std::size_t end = w + 1 < firsts_.size() ? firsts_[w + 1] : pieces_.size();
    return std::span(pieces_).subspan(firsts_[w], end - firsts_[w]);
  }

 private:
  /// Where one interval of the loaded window lies among the window's unshuffled offsets.
  struct Part {
    std::uint64_t end = 0;       // first offset after it
    std::uint64_t to_item = 0;   // item number = offset + to_item (modulo 2^64)
    std::uint64_t to_place = 0;  // place in the interval = offset + to_place (modulo 2^64)
    std::uint32_t interval = 0;
  };

  [[nodiscard]] const Part& part_at(std::uint64_t offset) {
    if (offset - begin_ >= offsets_.size()) load(offset);
    found_ = offsets_[offset - begin_];
    std::uint32_t part = buckets_[found_ >> bucket_bits_];
    while (found_ >= parts_[part].end) ++part;
    return parts_[part];
  }
  void load(std::uint64_t offset);
  void add_parts(const Piece& piece, std::uint64_t* items);
  void index_parts(std::uint64_t items);

  std::shared_ptr<const IntervalSet> set_;
  std::vector<Piece> pieces_;
  std::vector<std::size_t> firsts_;    // first piece of each window
  std::vector<std::uint64_t> starts_;  // first offset of each window, and the end
  std::vector<std::uint64_t> key_;
  std::uint64_t begin_ = 0;             // first offset of the loaded window
  std::vector<std::uint32_t> offsets_;  // the loaded window, shuffled
  std::vector<Part> parts_;             // its intervals
  std::vector<std::uint32_t> buckets_;  // part of the first offset of each 2^bucket_bits_ offsets
  unsigned bucket_bits_ = 0;
  std::uint32_t found_ = 0;  // of the last part_at()
};

namespace internal {
/// First piece of each window when pieces of these sizes are cut: `first` to the first window,
/// `window` to every other; a window whose items would pass `max_items` ends before the piece that
/// would do so. REQUIRES: first, window > 0. Throws kUnsupported when one size passes `max_items`.
[[nodiscard]] std::vector<std::size_t> cut_windows(
    std::span<const std::uint64_t> sizes, std::uint32_t first, std::uint32_t window,
    std::uint64_t max_items = std::numeric_limits<std::uint32_t>::max());
}  // namespace internal

}  // namespace stoker
