// SPDX-License-Identifier: Apache-2.0
// Changes of colour on 8-bit RGBX pixels in place, as torchvision.transforms.v2 defines them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace stoker {

enum class ColourChange : std::uint8_t {
  kBrightness,  // value * amount
  kContrast,    // away from the mean of the grey image
  kSaturation,  // away from the grey image
  kHue,         // turned by `amount` of the colour circle, -0.5 to 0.5
  kGrey,        // no amount
};

struct ColourOp {
  ColourChange change = ColourChange::kGrey;
  float amount = 1.0F;
};

/// Rows of `width` pixels, `stride` bytes apart.
struct PixelRows {
  std::uint8_t* pixels = nullptr;
  std::size_t stride = 0;
  std::size_t width = 0;
  std::size_t height = 0;
};

/// Applies one change. Values are computed in float32 and cut to whole numbers, as torch does.
void apply_colour(const ColourOp& op, const PixelRows& rows) noexcept;

}  // namespace stoker
