// SPDX-License-Identifier: Apache-2.0
// From rows of RGBX pixels to the values of a batch: normalised, converted, in planes or packed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace stoker {

enum class PixelType : std::uint8_t { kUint8, kFloat32, kFloat16, kBfloat16 };

[[nodiscard]] constexpr std::size_t bytes_of(PixelType type) noexcept {
  return type == PixelType::kUint8 ? 1 : type == PixelType::kFloat32 ? 4 : 2;
}

/// How one image lies in memory. A value is pixel * scale[channel] + offset[channel] (not for
/// kUint8), computed in float32 with both steps rounded, then rounded to the nearest even value of
/// the type.
struct PixelFormat {
  PixelType type = PixelType::kUint8;
  bool channels_last = false;
  std::uint8_t channels = 3;  // 1: the first channel only
  std::array<float, 3> scale{1.0F, 1.0F, 1.0F};
  std::array<float, 3> offset{0.0F, 0.0F, 0.0F};

  [[nodiscard]] std::size_t image_bytes(std::uint32_t width, std::uint32_t height) const noexcept {
    return std::size_t{width} * height * channels * bytes_of(type);
  }
};

/// Stores `width` pixels. Planes: value of channel c at `to` + c * `plane` bytes; packed: `to` is
/// the row and `plane` is unused. Writes nothing but the row.
using StoreRow = void (*)(const PixelFormat& format, const std::uint8_t* rgbx, std::size_t width,
                          std::uint8_t* to, std::size_t plane);

/// The fastest function for this processor; all give the same bits. Any thread.
[[nodiscard]] StoreRow store_row() noexcept;
[[nodiscard]] StoreRow portable_store_row() noexcept;
/// Null when this processor or build has no AVX2.
[[nodiscard]] StoreRow avx2_store_row() noexcept;

/// Nearest even, with denormals and overflow to infinity.
[[nodiscard]] std::uint16_t to_float16(float value) noexcept;
[[nodiscard]] std::uint16_t to_bfloat16(float value) noexcept;

}  // namespace stoker
