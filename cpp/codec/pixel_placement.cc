// SPDX-License-Identifier: Apache-2.0
#include "codec/pixel_placement.h"

#include <cstdlib>
#include <utility>

namespace stoker {
namespace {

/// One row of RGBX pixels to three planes; with kStep known the compiler vectorises it.
template <std::ptrdiff_t kStep>
void store_planes(const std::uint8_t* __restrict rgbx, std::size_t width,
                  std::uint8_t* __restrict r, std::uint8_t* __restrict g,
                  std::uint8_t* __restrict b) noexcept {
  for (std::size_t i = 0; i < width; ++i) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(i) * kStep;
    r[at] = rgbx[kRgbxBytes * i];
    g[at] = rgbx[kRgbxBytes * i + 1];
    b[at] = rgbx[kRgbxBytes * i + 2];
  }
}

void store_run(const std::uint8_t* from, std::size_t from_step, std::size_t count, std::uint8_t* to,
               std::ptrdiff_t to_step, std::ptrdiff_t step_channel) noexcept {
  for (std::size_t i = 0; i < count; ++i, from += from_step, to += to_step) {
    to[0] = from[0];
    to[step_channel] = from[1];
    to[2 * step_channel] = from[2];
  }
}

}  // namespace

PixelPlacement place_pixels(std::uint32_t width, std::uint32_t height, Orientation orientation,
                            const ImageView& out) noexcept {
  using enum Orientation;
  const bool planes = out.layout == PixelLayout::kChw;
  const std::ptrdiff_t pixel = planes                            ? 1
                               : out.layout == PixelLayout::kHwc ? 3
                                                                 : std::ptrdiff_t{kRgbxBytes};
  const std::ptrdiff_t row = pixel * out.width;
  PixelPlacement to{out.pixels.data(), pixel, row, planes ? row * out.height : 1};
  if (swaps_axes(orientation)) std::swap(to.step_x, to.step_y);
  if (orientation == kFlipHorizontal || orientation == kRotate180 || orientation == kTransverse ||
      orientation == kRotate270) {
    to.origin += to.step_x * (std::ptrdiff_t{width} - 1);
    to.step_x = -to.step_x;
  }
  if (orientation == kFlipVertical || orientation == kRotate180 || orientation == kRotate90 ||
      orientation == kTransverse) {
    to.origin += to.step_y * (std::ptrdiff_t{height} - 1);
    to.step_y = -to.step_y;
  }
  return to;
}

void store_rows(const RgbxRows& rows, std::size_t first, const PixelPlacement& to) noexcept {
  if (std::abs(to.step_y) < std::abs(to.step_x)) {  // axes swapped: a stored column lies together
    for (std::size_t x = 0; x < rows.width; ++x) {
      store_run(rows.pixels + x * kRgbxBytes, rows.stride, rows.count,
                to.row(first) + static_cast<std::ptrdiff_t>(x) * to.step_x, to.step_y,
                to.step_channel);
    }
    return;
  }
  for (std::size_t y = 0; y < rows.count; ++y) {
    const std::uint8_t* from = rows.pixels + y * rows.stride;
    std::uint8_t* r = to.row(first + y);
    if (to.step_x == 1) {
      store_planes<1>(from, rows.width, r, r + to.step_channel, r + 2 * to.step_channel);
    } else if (to.step_x == -1) {
      store_planes<-1>(from, rows.width, r, r + to.step_channel, r + 2 * to.step_channel);
    } else {
      store_run(from, kRgbxBytes, rows.width, r, to.step_x, to.step_channel);
    }
  }
}

void cmyk_to_rgbx(std::uint8_t* pixels, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i, pixels += kRgbxBytes) {
    const unsigned white = pixels[3];
    for (std::size_t c = 0; c < 3; ++c) {
      const unsigned product = (255u - pixels[c]) * white + 128;
      const unsigned ink = (product + (product >> 8)) >> 8;  // (255 - c) * white / 255, rounded
      pixels[c] = static_cast<std::uint8_t>(white - ink);
    }
  }
}

}  // namespace stoker
