// SPDX-License-Identifier: Apache-2.0
// The only place that knows byte order: unaligned little-endian loads and stores, and checked sums.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

namespace stoker {

static_assert(std::endian::native == std::endian::little, "stoker supports little-endian hosts");

[[nodiscard]] inline std::uint32_t load_u32(const std::uint8_t* p) noexcept {
  std::uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
[[nodiscard]] inline std::uint64_t load_u64(const std::uint8_t* p) noexcept {
  std::uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
[[nodiscard]] inline std::int64_t load_i64(const std::uint8_t* p) noexcept {
  std::int64_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
[[nodiscard]] inline double load_f64(const std::uint8_t* p) noexcept {
  double v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
/// Big-endian u32: used by the `tensor` leaf header only.
[[nodiscard]] inline std::uint32_t load_u32_be(const std::uint8_t* p) noexcept {
  return (std::uint32_t{p[0]} << 24) | (std::uint32_t{p[1]} << 16) | (std::uint32_t{p[2]} << 8) |
         std::uint32_t{p[3]};
}
inline void store_u32(std::uint8_t* p, std::uint32_t v) noexcept { std::memcpy(p, &v, sizeof v); }
inline void store_u64(std::uint8_t* p, std::uint64_t v) noexcept { std::memcpy(p, &v, sizeof v); }

/// a + b, or nothing when it does not fit in 64 bits.
[[nodiscard]] inline std::optional<std::uint64_t> checked_add(std::uint64_t a,
                                                              std::uint64_t b) noexcept {
  if (b > std::numeric_limits<std::uint64_t>::max() - a) return std::nullopt;
  return a + b;
}
/// a * b, or nothing when it does not fit in 64 bits.
[[nodiscard]] inline std::optional<std::uint64_t> checked_mul(std::uint64_t a,
                                                              std::uint64_t b) noexcept {
  if (a != 0 && b > std::numeric_limits<std::uint64_t>::max() / a) return std::nullopt;
  return a * b;
}

}  // namespace stoker
