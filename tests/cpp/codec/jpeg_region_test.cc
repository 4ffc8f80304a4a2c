// SPDX-License-Identifier: Apache-2.0
// A region has the pixels of the whole image there, for every kind of JPEG.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <tuple>

#include "base/error.h"
#include "codec/jpeg.h"
#include "error_of.h"
#include "jpeg_samples.h"

namespace stoker {
namespace {

using test::error_of;
using Buffer = std::vector<std::uint8_t>;

/// The region's pixels as packed RGB; fails when rows do not come in order.
Buffer region_of(ByteSpan jpeg, const PixelBox& box) {
  Buffer out;
  JpegImage image(jpeg);
  image.decode_region(box, [&](const RgbxRows& rows, std::size_t first) {
    EXPECT_EQ(rows.width, box.width);
    EXPECT_EQ(out.size(), first * box.width * 3);
    for (std::size_t y = 0; y < rows.count; ++y) {
      for (std::size_t x = 0; x < rows.width; ++x) {
        const std::uint8_t* pixel = rows.pixels + y * rows.stride + 4 * x;
        out.insert(out.end(), pixel, pixel + 3);
      }
    }
  });
  return out;
}

Buffer crop_of(const test::Raster& image, const PixelBox& box) {
  Buffer out;
  for (std::uint32_t y = box.y; y < box.y + box.height; ++y) {
    for (std::uint32_t x = box.x; x < box.x + box.width; ++x) {
      for (std::size_t c = 0; c < 3; ++c) out.push_back(image.at(x, y, c));
    }
  }
  return out;
}

struct Kind {
  std::string name;
  test::EncodeOptions options;
  int channels = 3;
};

class JpegRegion : public testing::TestWithParam<Kind> {};

TEST_P(JpegRegion, HasThePixelsOfTheWholeImage) {
  std::mt19937 random(7);
  const auto below = [&](std::uint32_t bound) {
    return static_cast<std::uint32_t>(random() % bound);
  };
  for (const auto& [width, height] :
       {std::pair{160U, 120U}, std::pair{161U, 97U}, std::pair{37U, 250U}, std::pair{16U, 16U}}) {
    const Buffer jpeg =
        test::encode_jpeg(test::make_photo(width, height, GetParam().channels), GetParam().options);
    test::Raster whole{width, height, 3, Buffer(std::size_t{width} * height * 3)};
    decode_jpeg_into(jpeg, {whole.bytes, width, height, PixelLayout::kHwc});
    for (int i = 0; i < 60; ++i) {
      const std::uint32_t w = 1 + below(width);
      const std::uint32_t h = 1 + below(height);
      const PixelBox box{below(width - w + 1), below(height - h + 1), w, h};
      ASSERT_EQ(region_of(jpeg, box), crop_of(whole, box))
          << box.x << "," << box.y << " " << w << "x" << h << " of " << width << "x" << height;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, JpegRegion,
    testing::Values(
        Kind{"h2v2", {}}, Kind{"h2v1", {.luma_x = 2, .luma_y = 1}},
        Kind{"h1v2", {.luma_x = 1, .luma_y = 2}}, Kind{"h1v1", {.luma_x = 1, .luma_y = 1}},
        Kind{"h4v1", {.luma_x = 4, .luma_y = 1}}, Kind{"progressive", {.progressive = true}},
        Kind{"restarts", {.restart_rows = 2}},
        Kind{"gray",
             {.raster = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .luma_x = 1, .luma_y = 1},
             1},
        Kind{"cmyk", {.raster = JCS_CMYK, .stored = JCS_CMYK, .luma_x = 1, .luma_y = 1}, 4},
        Kind{"ycck", {.raster = JCS_CMYK, .stored = JCS_YCCK}, 4}),
    [](const auto& param) { return param.param.name; });

TEST(JpegRegion, BoxesOutsideAreErrors) {
  const Buffer jpeg = test::encode_jpeg(test::make_photo(40, 30), {});
  for (const PixelBox& box :
       {PixelBox{0, 0, 41, 1}, PixelBox{0, 0, 1, 31}, PixelBox{40, 0, 1, 1}, PixelBox{0, 0, 0, 5},
        PixelBox{0, 0, 5, 0}, PixelBox{0xFFFFFFFF, 0, 2, 2}}) {
    const Error error = error_of([&] { return region_of(jpeg, box); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(error.message().find("40 x 30"), std::string::npos) << error.message();
  }
}

TEST(JpegRegion, DamageInsideIsAnErrorAndTheThreadGoesOn) {
  const test::Raster photo = test::make_photo(160, 120);
  const Buffer good = test::encode_jpeg(photo, {});
  Buffer cut = good;
  cut.resize(cut.size() / 2);
  EXPECT_EQ(error_of([&] { return region_of(cut, {0, 100, 20, 20}); }).code(), ErrorCode::kCorrupt);
  EXPECT_EQ(region_of(cut, {0, 0, 20, 8}), region_of(good, {0, 0, 20, 8}));
  EXPECT_EQ(error_of([&] {
              JpegImage(good).decode_region({0, 0, 9, 9}, [](const RgbxRows&, std::size_t) {
                throw Error(ErrorCode::kInternal, "the sink gave up");
              });
              return 0;
            }).code(),
            ErrorCode::kInternal);
  EXPECT_EQ(region_of(good, {3, 4, 5, 6}).size(), 90U);
}

TEST(JpegRegion, RgbxLayoutHoldsTheSamePixels) {
  const Buffer jpeg = test::encode_jpeg(test::make_photo(45, 33), {});
  Buffer packed(45 * 33 * 3);
  decode_jpeg_into(jpeg, {packed, 45, 33, PixelLayout::kHwc});
  Buffer rgbx(45 * 33 * 4);
  decode_jpeg_into(jpeg, {rgbx, 45, 33, PixelLayout::kRgbx});
  for (std::size_t i = 0; i < std::size_t{45} * 33 * 3; ++i) {
    ASSERT_EQ(packed[i], rgbx[i / 3 * 4 + i % 3]);
  }
}

}  // namespace
}  // namespace stoker
