// SPDX-License-Identifier: Apache-2.0
// Values of a row: right in every type and layout, equal on every processor, and nothing beyond.
#include "vision/pixel_store.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

namespace stoker {
namespace {

using Buffer = std::vector<std::uint8_t>;
constexpr std::uint8_t kUntouched = 0xA5;

PixelFormat format_of(PixelType type, bool channels_last, int channels) {
  PixelFormat format{type, channels_last, static_cast<std::uint8_t>(channels), {}, {}};
  for (std::size_t c = 0; c < 3; ++c) {
    format.scale[c] = 0.017F + 0.001F * static_cast<float>(c);
    format.offset[c] = -2.1F + 0.1F * static_cast<float>(c);
  }
  return format;
}

/// An image of two rows through `store`, with a margin on both sides that must stay as it was.
Buffer store_image(StoreRow store, const PixelFormat& format, const Buffer& rgbx,
                   std::uint32_t width) {
  constexpr std::size_t kMargin = 64;
  constexpr std::uint32_t kHeight = 2;
  Buffer out(format.image_bytes(width, kHeight) + 2 * kMargin, kUntouched);
  const std::size_t row =
      width * bytes_of(format.type) * (format.channels_last ? format.channels : 1);
  for (std::uint32_t y = kHeight; y-- > 0;) {  // the last row first: spilling would show
    store(format, rgbx.data() + std::size_t{y} * width * 4, width, out.data() + kMargin + y * row,
          row * kHeight);
  }
  for (std::size_t i = 0; i < kMargin; ++i) {
    EXPECT_EQ(out[i], kUntouched);
    EXPECT_EQ(out[out.size() - 1 - i], kUntouched);
  }
  return {out.begin() + kMargin, out.end() - kMargin};
}

class PixelStore : public testing::TestWithParam<std::tuple<PixelType, bool, int, int>> {};

TEST_P(PixelStore, ProcessorsAgreeAndTheFormulaHolds) {
  const auto [type, channels_last, channels, width] = GetParam();
  const auto columns = static_cast<std::uint32_t>(width);
  const PixelFormat format = format_of(type, channels_last, channels);
  std::mt19937 random(3);
  Buffer rgbx(std::size_t{columns} * 2 * 4 + 64);
  for (auto& byte : rgbx) byte = static_cast<std::uint8_t>(random());
  const Buffer plain = store_image(portable_store_row(), format, rgbx, columns);
  if (avx2_store_row() != nullptr) {
    EXPECT_EQ(store_image(avx2_store_row(), format, rgbx, columns), plain);
  }
  for (std::size_t i = 0; i < plain.size() / bytes_of(type); ++i) {
    const auto n = static_cast<std::size_t>(channels);
    const std::size_t pixels = std::size_t{columns} * 2;
    const std::size_t pixel = channels_last ? i / n : i % pixels;
    const std::size_t c = channels_last ? i % n : i / pixels;
    const std::uint8_t byte = rgbx[pixel * 4 + c];
    const float value = static_cast<float>(byte) * format.scale[c] + format.offset[c];
    if (type == PixelType::kUint8) {
      ASSERT_EQ(plain[i], byte);
    } else if (type == PixelType::kFloat32) {
      float stored = 0;
      std::memcpy(&stored, plain.data() + 4 * i, 4);
      ASSERT_EQ(stored, value);
    } else {
      std::uint16_t stored = 0;
      std::memcpy(&stored, plain.data() + 2 * i, 2);
      ASSERT_EQ(stored, type == PixelType::kFloat16 ? to_float16(value) : to_bfloat16(value));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, PixelStore,
                         testing::Combine(testing::Values(PixelType::kUint8, PixelType::kFloat32,
                                                          PixelType::kFloat16,
                                                          PixelType::kBfloat16),
                                          testing::Bool(), testing::Values(1, 3),
                                          testing::Values(1, 2, 5, 7, 8, 9, 31, 224)));

TEST(Float16, RoundsToTheNearestEven) {
  EXPECT_EQ(to_float16(0.0F), 0x0000);
  EXPECT_EQ(to_float16(-0.0F), 0x8000);
  EXPECT_EQ(to_float16(1.0F), 0x3C00);
  EXPECT_EQ(to_float16(-2.0F), 0xC000);
  EXPECT_EQ(to_float16(65504.0F), 0x7BFF);
  EXPECT_EQ(to_float16(65520.0F), 0x7C00);  // half way up to infinity
  EXPECT_EQ(to_float16(1e9F), 0x7C00);
  EXPECT_EQ(to_float16(std::ldexp(1.0F, -14)), 0x0400);
  EXPECT_EQ(to_float16(std::ldexp(1.0F, -24)), 0x0001);
  EXPECT_EQ(to_float16(std::ldexp(1.0F, -25)), 0x0000);         // half way, to even
  EXPECT_EQ(to_float16(std::ldexp(3.0F, -25)), 0x0002);         // half way, to even
  EXPECT_EQ(to_float16(1.0F + std::ldexp(1.0F, -11)), 0x3C00);  // half way, to even
  EXPECT_EQ(to_float16(1.0F + std::ldexp(3.0F, -11)), 0x3C02);
}

TEST(Bfloat16, RoundsToTheNearestEven) {
  EXPECT_EQ(to_bfloat16(1.0F), 0x3F80);
  EXPECT_EQ(to_bfloat16(1.0F + std::ldexp(1.0F, -8)), 0x3F80);
  EXPECT_EQ(to_bfloat16(1.0F + std::ldexp(3.0F, -8)), 0x3F82);
}

}  // namespace
}  // namespace stoker
