// SPDX-License-Identifier: Apache-2.0
// From decoded rows to the caller's image. Used by decoders of this room only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/exif.h"
#include "codec/jpeg.h"

namespace stoker {

/// Bytes of a pixel in the rows that a decoder hands over: red, green, blue, anything. Four,
/// because plain loops over aligned pixels vectorise and loops over three bytes do not.
constexpr std::size_t kRgbxBytes = 4;

/// Where stored pixel (x, y) goes: origin + x * step_x + y * step_y, and step_channel further for
/// each channel. Orientation and layout are nothing but these four numbers.
struct PixelPlacement {
  std::uint8_t* origin;
  std::ptrdiff_t step_x;
  std::ptrdiff_t step_y;
  std::ptrdiff_t step_channel;

  /// True when rows of packed RGB (RGBX) can be decoded right where they belong.
  [[nodiscard]] bool packed_rows() const noexcept { return step_x == 3 && step_channel == 1; }
  [[nodiscard]] bool packed_rgbx_rows() const noexcept {
    return step_x == static_cast<std::ptrdiff_t>(kRgbxBytes) && step_channel == 1;
  }
  [[nodiscard]] std::uint8_t* row(std::size_t y) const noexcept {
    return origin + static_cast<std::ptrdiff_t>(y) * step_y;
  }
};

/// For an image stored as `width` x `height`. REQUIRES: `out` has the size after `orientation`.
[[nodiscard]] PixelPlacement place_pixels(std::uint32_t width, std::uint32_t height,
                                          Orientation orientation, const ImageView& out) noexcept;

/// Moves rows to their places; the first of them is stored row `first`.
void store_rows(const RgbxRows& rows, std::size_t first, const PixelPlacement& to) noexcept;

/// Inverted (Adobe) CMYK to RGBX in place, rounding as Pillow's convert("RGB") does.
void cmyk_to_rgbx(std::uint8_t* pixels, std::size_t count) noexcept;

}  // namespace stoker
