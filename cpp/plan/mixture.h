// SPDX-License-Identifier: Apache-2.0
// Which source each draw of a mixed dataset comes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace stoker {

/// Draws 0, 1, ... size() - 1 from sources that hold `left` units each. Exactly, for blocks k = 0,
/// 1, ... of kBlock draws (the last may be shorter):
///  1. With the cumulative shares F_0 = 0 <= F_1 <= ... <= F_S = T of the sources, B the draws of
///     the block and u = Rng(derive_key({key, 1, k})).below(T), source i is drawn floor((F_i B + u)
///     / T) - floor((F_(i-1) B + u) / T) times: its share of B, rounded up or down. The shares are
///     the weights, or with `exhaust` what each source has left (then B <= T, so that B * left / T,
///     also rounded up, is at most what is left: all sources end together, each unit is drawn
///     once).
///  2. The sources, each as often as that, in their order, are permuted by `shuffle` (rng.h) with
///     Rng(derive_key({key, 2, k})).
/// With `exhaust` it ends when all sources are empty, else before the first draw from an empty one.
/// Every line of this is part of the order: running jobs resume by position. Not thread-safe (keeps
/// the current block).
class Mixture {
 public:
  static constexpr std::uint64_t kBlock = 1024;

  /// Finds the end: O(blocks x sources). Throws kInvalidArgument when there are no sources, `left`
  /// and `weights` differ in length, the weights add up to 0 or to 2^40 or more (they do not matter
  /// with `exhaust`), or `left` adds up to 2^63 or more.
  Mixture(std::vector<std::uint64_t> left, std::vector<std::uint64_t> weights, std::uint64_t key,
          bool exhaust);

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// The sources of draws [first, first + out.size()). Throws kOutOfRange. Sequential calls cost
  /// O(1) per draw; a jump costs up to kStride blocks.
  void fill(std::uint64_t first, std::span<std::uint32_t> out);
  /// Draws of each source in [0, draw). Throws kOutOfRange past size().
  [[nodiscard]] std::vector<std::uint64_t> drawn_before(std::uint64_t draw);

 private:
  static constexpr std::uint64_t kStride = 256;  // blocks between kept counts
  static constexpr std::uint64_t kNoBlock = std::numeric_limits<std::uint64_t>::max();

  void find_end();
  /// Draws of block k by source, given what was drawn before it. Its size.
  [[nodiscard]] std::uint64_t count_block(std::uint64_t k, std::span<const std::uint64_t> drawn,
                                          std::span<std::uint64_t> counts) const;
  void shuffle_block(std::uint64_t k, std::span<const std::uint64_t> counts);
  /// Makes block k the current one.
  void go_to(std::uint64_t k);
  [[nodiscard]] std::size_t sources() const noexcept { return left_.size(); }

  std::vector<std::uint64_t> left_;
  std::vector<std::uint64_t> weights_;
  std::uint64_t key_;
  bool exhaust_;
  std::uint64_t total_ = 0;  // units of all sources
  std::uint64_t size_ = 0;
  std::vector<std::uint64_t> kept_;     // drawn before block 0, kStride, 2 kStride, ...
  std::uint64_t block_ = kNoBlock;      // the current one
  std::vector<std::uint64_t> drawn_;    // before it
  std::vector<std::uint64_t> counts_;   // in it
  std::vector<std::uint32_t> sources_;  // of its draws
};

}  // namespace stoker
