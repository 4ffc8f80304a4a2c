// SPDX-License-Identifier: Apache-2.0
#include "plan/permutation.h"

#include <bit>
#include <string>

#include "base/error.h"
#include "plan/rng.h"

namespace stoker {

Permutation::Permutation(std::uint64_t size, std::uint64_t key) noexcept : size_(size) {
  const auto bits = static_cast<unsigned>(std::bit_width(size > 1 ? size - 1 : 1));
  half_bits_ = (bits + 1) / 2;
  for (unsigned r = 0; r < kRounds; ++r) {
    const std::array<std::uint64_t, 2> parts{key, r};
    keys_[r] = derive_key(parts);
  }
}

std::uint64_t Permutation::once(std::uint64_t i) const noexcept {
  std::uint64_t left = i >> half_bits_;
  std::uint64_t right = i & ((std::uint64_t{1} << half_bits_) - 1);
  for (const std::uint64_t key : keys_) {
    const std::uint64_t mixed = left ^ (mix64(right ^ key) >> (64 - half_bits_));
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

// Following the cycle of a bijection of more numbers from a number below `size` comes back below
// it.
std::uint64_t Permutation::walk(std::uint64_t i) const noexcept {
  do {
    i = once(i);
  } while (i >= size_);
  return i;
}

std::uint64_t Permutation::at(std::uint64_t i) const {
  if (i >= size_) {
    throw Error(ErrorCode::kOutOfRange,
                "number " + std::to_string(i) + " of a permutation of " + std::to_string(size_));
  }
  return walk(i);
}

void Permutation::fill(std::uint64_t first, std::span<std::uint64_t> out) const {
  if (first > size_ || out.size() > size_ - first) {
    throw Error(ErrorCode::kOutOfRange, std::to_string(out.size()) + " numbers from " +
                                            std::to_string(first) + " on, of a permutation of " +
                                            std::to_string(size_));
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = walk(first + i);
}

}  // namespace stoker
