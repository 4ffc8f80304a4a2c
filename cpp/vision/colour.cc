// SPDX-License-Identifier: Apache-2.0
#include "vision/colour.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace stoker {
namespace {

constexpr std::size_t kPixel = 4;
using Table = std::array<std::uint8_t, 256>;

std::uint8_t cut(float value) noexcept {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F));
}

std::uint8_t grey_of(const std::uint8_t* pixel) noexcept {
  return static_cast<std::uint8_t>(0.2989F * static_cast<float>(pixel[0]) +
                                   0.587F * static_cast<float>(pixel[1]) +
                                   0.114F * static_cast<float>(pixel[2]));
}

template <typename Change>
void for_each_pixel(const PixelRows& rows, const Change& change) noexcept {
  for (std::size_t y = 0; y < rows.height; ++y) {
    std::uint8_t* pixel = rows.pixels + y * rows.stride;
    for (std::size_t x = 0; x < rows.width; ++x, pixel += kPixel) change(pixel);
  }
}

/// value * amount + other * (1 - amount) for every value, when `other` is one number.
Table blend_table(float amount, float other) noexcept {
  Table table{};
  for (std::size_t v = 0; v < table.size(); ++v) {
    table[v] = cut(static_cast<float>(v) * amount + other * (1.0F - amount));
  }
  return table;
}

void apply_table(const Table& table, const PixelRows& rows) noexcept {
  for_each_pixel(rows, [&](std::uint8_t* pixel) {
    for (std::size_t c = 0; c < 3; ++c) pixel[c] = table[pixel[c]];
  });
}

float mean_grey(const PixelRows& rows) noexcept {
  std::uint64_t sum = 0;
  for_each_pixel(rows, [&](const std::uint8_t* pixel) { sum += grey_of(pixel); });
  return static_cast<float>(static_cast<double>(sum) / static_cast<double>(std::max<std::size_t>(
                                                           rows.width * rows.height, 1)));
}

void saturate(float amount, const PixelRows& rows) noexcept {
  for_each_pixel(rows, [amount](std::uint8_t* pixel) {
    const float grey = static_cast<float>(grey_of(pixel)) * (1.0F - amount);
    for (std::size_t c = 0; c < 3; ++c)
      pixel[c] = cut(static_cast<float>(pixel[c]) * amount + grey);
  });
}

struct Hsv {
  float hue;  // 0 to 1
  float saturation;
  float value;
};

Hsv to_hsv(float r, float g, float b) noexcept {
  const float most = std::max({r, g, b});
  const float range = most - std::min({r, g, b});
  if (range == 0.0F) return {0.0F, 0.0F, most};
  const float red = (most - r) / range;
  const float green = (most - g) / range;
  const float blue = (most - b) / range;
  const float sector = most == r   ? blue - green
                       : most == g ? 2.0F + red - blue
                                   : 4.0F + green - red;
  const float turned = sector / 6.0F + 1.0F;
  return {turned - std::floor(turned), range / most, most};
}

std::array<float, 3> to_rgb(const Hsv& hsv) noexcept {
  const float six = hsv.hue * 6.0F;
  const float whole = std::floor(six);
  const float part = six - whole;
  const auto clamped = [](float v) { return std::clamp(v, 0.0F, 1.0F); };
  const float v = hsv.value;
  const float p = clamped(v * (1.0F - hsv.saturation));
  const float q = clamped(v * (1.0F - hsv.saturation * part));
  const float t = clamped(v * (1.0F - hsv.saturation * (1.0F - part)));
  switch (static_cast<int>(whole) % 6) {
    case 0:
      return {v, t, p};
    case 1:
      return {q, v, p};
    case 2:
      return {p, v, t};
    case 3:
      return {p, q, v};
    case 4:
      return {t, p, v};
    default:
      return {v, p, q};
  }
}

void turn_hue(float amount, const PixelRows& rows) noexcept {
  constexpr float kSteps = 255.999F;  // torch's way from 0..1 back to bytes
  for_each_pixel(rows, [amount](std::uint8_t* pixel) {
    Hsv hsv = to_hsv(static_cast<float>(pixel[0]) / 255.0F, static_cast<float>(pixel[1]) / 255.0F,
                     static_cast<float>(pixel[2]) / 255.0F);
    hsv.hue += amount;
    hsv.hue -= std::floor(hsv.hue);
    const std::array<float, 3> rgb = to_rgb(hsv);
    for (std::size_t c = 0; c < 3; ++c) pixel[c] = cut(rgb[c] * kSteps);
  });
}

}  // namespace

void apply_colour(const ColourOp& op, const PixelRows& rows) noexcept {
  switch (op.change) {
    case ColourChange::kBrightness:
      return apply_table(blend_table(op.amount, 0.0F), rows);
    case ColourChange::kContrast:
      return apply_table(blend_table(op.amount, mean_grey(rows)), rows);
    case ColourChange::kSaturation:
      return saturate(op.amount, rows);
    case ColourChange::kHue:
      return turn_hue(op.amount, rows);
    case ColourChange::kGrey:
      return for_each_pixel(rows, [](std::uint8_t* pixel) {
        const std::uint8_t grey = grey_of(pixel);
        std::fill_n(pixel, 3, grey);
      });
  }
}

}  // namespace stoker
