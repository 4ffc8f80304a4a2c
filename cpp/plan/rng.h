// SPDX-License-Identifier: Apache-2.0
// The one generator of the plan. Its numbers are part of the order and pinned by tests.
#pragma once

#include <cstdint>
#include <span>

namespace stoker {

/// SplitMix64 finaliser: a bijection on 64 bits. Pure.
[[nodiscard]] std::uint64_t mix64(std::uint64_t x) noexcept;

/// A key derived from parts (seed, epoch, purpose, ...). With golden = 0x9E3779B97F4A7C15: starting
/// from 0, every part p makes key = mix64((key + golden) ^ mix64(p + golden)). Order matters, zeros
/// count. Pure.
[[nodiscard]] std::uint64_t derive_key(std::span<const std::uint64_t> parts) noexcept;

/// Counter-based generator (SplitMix64): value n = 0, 1, ... is mix64(key + (n + 1) * golden).
/// Copyable, same on every machine.
class Rng {
 public:
  explicit Rng(std::uint64_t key) noexcept : key_(key) {}

  [[nodiscard]] std::uint64_t next() noexcept;
  /// Uniform in [0, bound), unbiased: the high half of next() * bound, drawn again while the low
  /// half is below 2^64 mod bound (Lemire). REQUIRES: bound > 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept;

 private:
  std::uint64_t key_;
  std::uint64_t counter_ = 0;
};

/// Fisher-Yates from the last element down to the second: values[i] swaps with
/// values[below(i + 1)].
void shuffle(std::span<std::uint32_t> values, Rng& rng) noexcept;

}  // namespace stoker
