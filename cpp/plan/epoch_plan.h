// SPDX-License-Identifier: Apache-2.0
// Which item comes at which position of an epoch. Pure: no clock, no disk, no rank, no worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "plan/intervals.h"
#include "plan/permutation.h"
#include "plan/streams.h"
#include "plan/window_order.h"

namespace stoker {

/// Part of the order: raise it when any change moves a sample. Checked when a state is loaded.
constexpr std::uint32_t kOrderVersion = 2;

enum class Shuffle : std::uint8_t {
  kNone,     // the intervals one after another
  kWindows,  // streams of windows of chunks
  kFull,     // any item anywhere
};

struct PlanOptions {
  Shuffle shuffle = Shuffle::kNone;
  std::uint64_t seed = 42;
  std::uint64_t epoch = 1;
  /// kWindows: chunks of a stream that are mixed. At least 1.
  std::uint32_t window = 4;
  /// kWindows: streams that are read side by side (canonical nodes). At least 1. window x streams
  /// chunks are in use at a time.
  std::uint32_t streams = 8;
};

/// Chunks that are read between two positions of the epoch.
struct PlanWindow {
  std::uint64_t begin = 0;   // first position that reads them
  std::uint64_t end = 0;     // after the last
  std::uint32_t stream = 0;  // that owns them
  std::uint32_t number = 0;  // in the stream
};

/// The global order of one epoch: fill() gives the items of any range of positions, each item of
/// the interval set exactly once over [0, size()). Ranks and workers only choose positions, so the
/// order is the same in any world. Memory O(chunks) plus one window of u32 per stream. Not
/// thread-safe (keeps the current windows); make one per thread, they agree.
///
/// kNone: the intervals one after another. kFull: position p has item number `Permutation(size(),
/// derive_key({kOrderVersion, seed, epoch, 4})).at(p)` of that. kWindows is, exactly:
///  1. The numbers 0..n-1 of the n groups of the set are permuted by `shuffle` (rng.h) with
///     Rng(derive_key({kOrderVersion, seed, 1})): the same in all epochs, so that a node that reads
///     some streams reads the same chunks in all of them.
///  2. The groups in that order, joined, are cut in min(streams, size()) streams as Streams (see
///     there) says: each gets pieces of groups, the first and last perhaps not whole ones.
///  3. The pieces of stream c are permuted with Rng(derive_key({kOrderVersion, seed, epoch, 2, c}))
///     and cut in windows: 1 + c % window pieces to the first, so that not all streams change
///     their chunks at the same time, then `window` to each. A window whose items would pass 2^32 -
///     1 ends before the piece that would do so.
///  4. The items of window w, its pieces joined, are permuted with Rng(derive_key({kOrderVersion,
///     seed, epoch, 3, c, w})).
///  5. Position p has item p / streams of stream p % streams.
/// Every line of this is part of the order: running jobs resume by position.
class EpochPlan {
 public:
  /// Throws kInvalidArgument for a window or streams of 0; kUnsupported, when shuffled, for more
  /// than 2^32 - 1 intervals or a piece of more than 2^32 - 1 items.
  EpochPlan(std::shared_ptr<const IntervalSet> set, PlanOptions options);

  [[nodiscard]] std::uint64_t size() const noexcept { return set_->size(); }
  /// Item numbers at positions [position, position + out.size()). Throws kOutOfRange. Sequential
  /// calls cost O(1) per item; a jump costs one window of each stream.
  void fill(std::uint64_t position, std::span<std::uint64_t> out);
  /// Item numbers at these positions, ascending ones. Throws kOutOfRange.
  void items_at(std::span<const std::uint64_t> positions, std::span<std::uint64_t> out);
  /// The same items as places. Throws also kUnsupported, as the constructor, for a set that is too
  /// large for places though the order is not shuffled.
  void places_at(std::span<const std::uint64_t> positions, std::span<ItemPlace> out);

  /// By their begin. None when any chunk may be read at any time (kFull).
  [[nodiscard]] std::span<const PlanWindow> windows() const noexcept { return windows_; }
  /// One interval of each chunk of a window (the chunk may be named twice).
  [[nodiscard]] std::vector<std::uint32_t> intervals_of(const PlanWindow& window) const;
  [[nodiscard]] const Streams& streams() const noexcept { return streams_; }
  [[nodiscard]] const IntervalSet& set() const noexcept { return *set_; }

 private:
  void plan_in_order();
  void plan_streams();
  void add_stream(std::uint32_t stream, std::vector<Piece> pieces);
  void check_positions(std::uint64_t first, std::uint64_t count) const;
  /// Of a position of the set; `interval` is where the last one was, and becomes where it is.
  [[nodiscard]] ItemPlace place_in_set(std::uint64_t position, std::size_t* interval) const;

  std::shared_ptr<const IntervalSet> set_;
  PlanOptions options_;
  Streams streams_;
  std::vector<WindowOrder> orders_;  // of each stream (kWindows)
  std::optional<Permutation> permutation_;
  std::vector<PlanWindow> windows_;
};

}  // namespace stoker
