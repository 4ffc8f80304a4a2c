// SPDX-License-Identifier: Apache-2.0
#include "vision/pixel_store.h"

#include <bit>
#include <cstring>

namespace stoker {
namespace {

constexpr std::size_t kPixel = 4;

template <typename Value>
void store(Value value, std::uint8_t* to) noexcept {
  std::memcpy(to, &value, sizeof(value));
}

/// One channel of a row; consecutive values lie `step` bytes apart.
void store_channel(const PixelFormat& format, std::size_t channel, const std::uint8_t* rgbx,
                   std::size_t width, std::uint8_t* to, std::size_t step) noexcept {
  const float scale = format.scale[channel];
  const float offset = format.offset[channel];
  const std::uint8_t* from = rgbx + channel;
  for (std::size_t i = 0; i < width; ++i, from += kPixel, to += step) {
    const float value = static_cast<float>(*from) * scale + offset;
    switch (format.type) {
      case PixelType::kUint8:
        *to = *from;
        break;
      case PixelType::kFloat32:
        store(value, to);
        break;
      case PixelType::kFloat16:
        store(to_float16(value), to);
        break;
      case PixelType::kBfloat16:
        store(to_bfloat16(value), to);
        break;
    }
  }
}

void store_portable(const PixelFormat& format, const std::uint8_t* rgbx, std::size_t width,
                    std::uint8_t* to, std::size_t plane) {
  const std::size_t value = bytes_of(format.type);
  const std::size_t step = format.channels_last ? value * format.channels : value;
  const std::size_t next = format.channels_last ? value : plane;
  for (std::size_t c = 0; c < format.channels; ++c) {
    store_channel(format, c, rgbx, width, to + c * next, step);
  }
}

}  // namespace

std::uint16_t to_bfloat16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

std::uint16_t to_float16(float value) noexcept {
  constexpr std::uint32_t kInfinity = 0x7C00;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude >= 0x47800000) return static_cast<std::uint16_t>(sign | kInfinity);  // 65536
  if (magnitude >= 0x38800000) {  // a normal number: 2^-14 and more
    const std::uint32_t rebiased = magnitude - 0x38000000;
    return static_cast<std::uint16_t>(sign | ((rebiased + 0xFFF + ((rebiased >> 13) & 1)) >> 13));
  }
  // A multiple of 2^-24: adding 0.5 shifts the bits below it out, rounded to even.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
  return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000));
}

StoreRow portable_store_row() noexcept { return store_portable; }

StoreRow store_row() noexcept {
  static const StoreRow chosen =
      avx2_store_row() != nullptr ? avx2_store_row() : portable_store_row();
  return chosen;
}

}  // namespace stoker
