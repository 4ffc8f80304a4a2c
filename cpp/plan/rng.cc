// SPDX-License-Identifier: Apache-2.0
#include "plan/rng.h"

#include <cstddef>
#include <utility>

namespace stoker {
namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ULL;  // 2^64 / golden ratio, odd

__extension__ using Uint128 = unsigned __int128;

}  // namespace

std::uint64_t mix64(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

std::uint64_t derive_key(std::span<const std::uint64_t> parts) noexcept {
  std::uint64_t key = 0;
  for (const std::uint64_t part : parts) key = mix64((key + kGolden) ^ mix64(part + kGolden));
  return key;
}

std::uint64_t Rng::next() noexcept { return mix64(key_ + ++counter_ * kGolden); }

std::uint64_t Rng::below(std::uint64_t bound) noexcept {
  Uint128 product = Uint128{next()} * bound;
  if (static_cast<std::uint64_t>(product) < bound) [[unlikely]] {
    const std::uint64_t reject = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < reject) product = Uint128{next()} * bound;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

void shuffle(std::span<std::uint32_t> values, Rng& rng) noexcept {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[rng.below(i)]);
}

}  // namespace stoker
