// SPDX-License-Identifier: Apache-2.0
// A keyed bijection of 0..n-1 that needs no table.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace stoker {

/// at(0), at(1), ... at(size - 1) are the numbers below `size`, each once, in an order that looks
/// random. Exactly: with 2b the smallest even number of bits that hold size - 1 (at least 2), the
/// number is cut in halves (left, right) of b bits; each of kRounds rounds r makes (left, right) =
/// (right, left ^ top b bits of mix64(right ^ key_r)), key_r = derive_key({key, r}); all of it is
/// repeated while the result is not below `size` (4 times at most on average). Pure, any thread.
/// Part of the order: running jobs resume by it.
class Permutation {
 public:
  static constexpr unsigned kRounds = 6;

  /// REQUIRES: size < 2^63.
  Permutation(std::uint64_t size, std::uint64_t key) noexcept;

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// Throws kOutOfRange for i >= size().
  [[nodiscard]] std::uint64_t at(std::uint64_t i) const;
  /// at(first), at(first + 1), ... Throws kOutOfRange as above.
  void fill(std::uint64_t first, std::span<std::uint64_t> out) const;

 private:
  [[nodiscard]] std::uint64_t once(std::uint64_t i) const noexcept;
  [[nodiscard]] std::uint64_t walk(std::uint64_t i) const noexcept;

  std::uint64_t size_;
  unsigned half_bits_ = 1;
  std::array<std::uint64_t, kRounds> keys_{};
};

}  // namespace stoker
