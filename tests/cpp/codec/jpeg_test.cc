// SPDX-License-Identifier: Apache-2.0
// Whole files: every kind of JPEG, both layouts, all orientations. Damage: jpeg_damage_test.cc.
#include "codec/jpeg.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "error_of.h"
#include "jpeg_samples.h"

namespace stoker {
namespace {

using test::EncodeOptions;
using test::error_of;
using test::Raster;
using Buffer = std::vector<std::uint8_t>;

constexpr std::array kLayouts{PixelLayout::kHwc, PixelLayout::kChw};

// "Exif", little-endian TIFF, one directory with one entry.
Buffer exif_app1(int orientation) {
  const auto value = static_cast<std::uint8_t>(orientation);
  return {'E',  'x', 'i', 'f', 0, 0, 'I', 'I', 42,    0, 8, 0, 0, 0, 1, 0,
          0x12, 1,   3,   0,   1, 0, 0,   0,   value, 0, 0, 0, 0, 0, 0, 0};
}

// The pixels in HWC order, whatever the layout they were decoded in. The memory is filled first, so
// that a pixel that was not written does not go unnoticed.
Raster decode(ByteSpan jpeg, PixelLayout layout, bool apply_orientation = true,
              std::uint8_t fill = 0xa5) {
  const JpegInfo info = probe_jpeg(jpeg);
  const std::uint32_t width = apply_orientation ? info.shown_width() : info.width;
  const std::uint32_t height = apply_orientation ? info.shown_height() : info.height;
  const std::size_t plane = std::size_t{width} * height;
  Buffer out(plane * 3, fill);
  decode_jpeg_into(jpeg, {out, width, height, layout}, apply_orientation);
  Raster image{width, height, 3, out};
  if (layout == PixelLayout::kChw) {
    for (std::size_t i = 0; i < image.bytes.size(); ++i) {
      image.bytes[i] = out[i % 3 * plane + i / 3];
    }
  }
  return image;
}

struct Kind {
  std::string name;
  int channels;
  EncodeOptions options;
};

std::vector<Kind> kinds() {
  return {{"gray", 1, {.raster = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .luma_x = 1, .luma_y = 1}},
          {"4:2:0", 3, {}},
          {"4:2:2", 3, {.luma_y = 1}},
          {"4:4:0", 3, {.luma_x = 1}},
          {"4:4:4", 3, {.luma_x = 1, .luma_y = 1}},
          {"4:1:1", 3, {.luma_x = 4, .luma_y = 1}},
          {"stored as RGB", 3, {.stored = JCS_RGB, .luma_x = 1, .luma_y = 1}},
          {"progressive", 3, {.progressive = true}},
          {"arithmetic", 3, {.arithmetic = true}},
          {"own tables", 3, {.own_tables = true}},
          {"restart markers", 3, {.restart_rows = 1}},
          {"worst quality", 3, {.quality = 1}}};
}

TEST(Jpeg, PixelsAreThoseOfPlainLibjpegInBothLayouts) {
  for (const Kind& kind : kinds()) {
    for (const auto& [width, height] : {std::pair{1u, 1u},
                                        {8u, 8u},
                                        {17u, 33u},
                                        {200u, 3u},
                                        {3u, 200u},
                                        {64u, 48u},
                                        {501u, 21u}}) {
      const Buffer jpeg =
          test::encode_jpeg(test::make_photo(width, height, kind.channels), kind.options);
      const Raster expected = test::plain_decode(jpeg);
      for (const PixelLayout layout : kLayouts) {
        const Raster found = decode(jpeg, layout);
        EXPECT_EQ(found.bytes, expected.bytes) << kind.name << " " << width << " x " << height;
      }
    }
  }
}

TEST(Jpeg, ColorsComeOutInTheRightChannels) {
  const Raster orange = test::make_flat(24, 16, {250, 120, 10});
  const Raster decoded = decode(test::encode_jpeg(orange, {.quality = 100}), PixelLayout::kChw);
  EXPECT_NEAR(decoded.at(5, 5, 0), 250, 2);
  EXPECT_NEAR(decoded.at(5, 5, 1), 120, 2);
  EXPECT_NEAR(decoded.at(5, 5, 2), 10, 2);
}

TEST(Jpeg, GrayIsRepeated) {
  const Raster gray = test::make_photo(20, 20, 1);
  const Raster decoded = decode(
      test::encode_jpeg(gray, {.raster = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .quality = 100}),
      PixelLayout::kChw);
  for (std::size_t i = 0; i < gray.bytes.size(); ++i) {
    EXPECT_NEAR(decoded.bytes[3 * i], gray.bytes[i], 2);
    EXPECT_EQ(decoded.bytes[3 * i], decoded.bytes[3 * i + 1]);
    EXPECT_EQ(decoded.bytes[3 * i], decoded.bytes[3 * i + 2]);
  }
}

// (stored C, M, Y, K) and what Pillow 13 makes of them with convert("RGB"). At quality 100 a flat
// CMYK image keeps its values exactly.
TEST(Jpeg, CmykIsConvertedAsPillowDoes) {
  struct Case {
    Buffer stored;
    Buffer rgb;
  };
  const std::vector<Case> cases{
      {{255, 255, 255, 255}, {255, 255, 255}}, {{0, 255, 255, 255}, {0, 255, 255}},
      {{255, 255, 255, 0}, {0, 0, 0}},         {{245, 235, 225, 215}, {207, 198, 190}},
      {{55, 155, 205, 230}, {50, 140, 185}},   {{238, 0, 127, 156}, {146, 0, 78}},
      {{254, 253, 252, 1}, {1, 1, 1}},         {{178, 124, 53, 195}, {136, 95, 41}}};
  for (const Case& example : cases) {
    const Buffer jpeg = test::encode_jpeg(
        test::make_flat(19, 11, example.stored),
        {.raster = JCS_CMYK, .stored = JCS_CMYK, .quality = 100, .luma_x = 1, .luma_y = 1});
    ASSERT_EQ(probe_jpeg(jpeg).components, 4);
    for (const PixelLayout layout : kLayouts) {
      EXPECT_EQ(decode(jpeg, layout).bytes, test::make_flat(19, 11, example.rgb).bytes);
    }
  }
}

TEST(Jpeg, YcckIsCmykAfterItsColorTransform) {
  const Buffer jpeg =
      test::encode_jpeg(test::make_photo(45, 37, 4), {.raster = JCS_CMYK, .stored = JCS_YCCK});
  const Raster cmyk = test::plain_decode(jpeg, JCS_CMYK);
  for (const PixelLayout layout : kLayouts) {
    const Raster rgb = decode(jpeg, layout);
    for (std::size_t i = 0; i < rgb.bytes.size(); ++i) {
      const double k = cmyk.bytes[i / 3 * 4 + 3];
      const double exact = cmyk.bytes[i / 3 * 4 + i % 3] * k / 255;
      ASSERT_NEAR(rgb.bytes[i], exact, 0.5001);
    }
  }
}

// For each orientation, which stored pixel is shown at (x, y) of the upright image. Written from
// the TIFF table "the 0th row represents the visual ..., the 0th column the visual ...".
std::pair<std::size_t, std::size_t> stored_position(int orientation, std::size_t x, std::size_t y,
                                                    std::size_t stored_width,
                                                    std::size_t stored_height) {
  const std::size_t right = stored_width - 1;
  const std::size_t bottom = stored_height - 1;
  switch (orientation) {
    case 1:
      return {x, y};  // row 0 top, column 0 left
    case 2:
      return {right - x, y};  // top, right
    case 3:
      return {right - x, bottom - y};  // bottom, right
    case 4:
      return {x, bottom - y};  // bottom, left
    case 5:
      return {y, x};  // left, top
    case 6:
      return {y, bottom - x};  // right, top
    case 7:
      return {right - y, bottom - x};  // right, bottom
    default:
      return {right - y, x};  // left, bottom
  }
}

TEST(Jpeg, AppliesEveryOrientationInBothLayouts) {
  for (const int channels : {3, 4}) {
    for (const auto& [width, height] : {std::pair{45u, 23u}, {1u, 9u}, {9u, 1u}, {3u, 40u}}) {
      const Raster photo = test::make_photo(width, height, channels);
      EncodeOptions options;
      if (channels == 4) options.raster = options.stored = JCS_CMYK;
      const Raster stored = decode(test::encode_jpeg(photo, options), PixelLayout::kHwc);
      for (int orientation = 1; orientation <= 8; ++orientation) {
        options.app1 = exif_app1(orientation);
        const Buffer jpeg = test::encode_jpeg(photo, options);
        for (const PixelLayout layout : kLayouts) {
          const Raster shown = decode(jpeg, layout);
          ASSERT_EQ(shown.width, orientation < 5 ? width : height);
          ASSERT_EQ(shown.height, orientation < 5 ? height : width);
          for (std::size_t i = 0; i < shown.bytes.size(); ++i) {
            const auto [x, y] = stored_position(orientation, i / 3 % shown.width,
                                                i / 3 / shown.width, width, height);
            ASSERT_EQ(shown.bytes[i], stored.at(x, y, i % 3)) << orientation << " at " << i;
          }
          EXPECT_EQ(decode(jpeg, layout, false).bytes, stored.bytes) << orientation;
        }
      }
    }
  }
}

TEST(Jpeg, ExifIsFoundAfterOtherApp1Segments) {
  const std::string xmp = "http://ns.adobe.com/xap/1.0/";
  Buffer jpeg = test::encode_jpeg(test::make_photo(20, 10), {.app1 = exif_app1(6)});
  Buffer segment{0xff, 0xe1, 0, static_cast<std::uint8_t>(xmp.size() + 3)};
  segment.insert(segment.end(), xmp.c_str(), xmp.c_str() + xmp.size() + 1);
  jpeg.insert(jpeg.begin() + 2, segment.begin(), segment.end());
  EXPECT_EQ(probe_jpeg(jpeg).orientation, Orientation::kRotate90);
}

TEST(Jpeg, ProbeReadsTheHeaderOnly) {
  for (const Kind& kind : kinds()) {
    EncodeOptions options = kind.options;
    options.app1 = exif_app1(8);
    const Buffer jpeg = test::encode_jpeg(test::make_photo(70, 50, kind.channels), options);
    const JpegInfo info = probe_jpeg(ByteSpan(jpeg).first(jpeg.size() - 20));
    EXPECT_EQ(info.width, 70u);
    EXPECT_EQ(info.height, 50u);
    EXPECT_EQ(info.shown_width(), 50u);
    EXPECT_EQ(info.shown_height(), 70u);
    EXPECT_EQ(info.components, kind.channels);
    EXPECT_EQ(info.progressive, kind.options.progressive);
    EXPECT_EQ(info.orientation, Orientation::kRotate270);
  }
}

TEST(Jpeg, AViewOfAnotherSizeIsRefusedAndLeftAlone) {
  const Buffer jpeg = test::encode_jpeg(test::make_photo(20, 10), {.app1 = exif_app1(6)});
  Buffer memory(700, 0x5a);
  const auto decode_to = [&](std::size_t bytes, std::uint32_t width, std::uint32_t height) {
    decode_jpeg_into(jpeg, {MutableByteSpan(memory).first(bytes), width, height});
    return 0;
  };
  const auto refused = [&](std::size_t bytes, std::uint32_t width, std::uint32_t height) {
    return error_of([&] { return decode_to(bytes, width, height); }).code() ==
           ErrorCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused(600, 20, 10));  // the stored size, not the shown one
  EXPECT_TRUE(refused(600, 11, 20));
  EXPECT_TRUE(refused(600, 10, 19));
  EXPECT_TRUE(refused(599, 10, 20));
  EXPECT_TRUE(refused(601, 10, 20));
  EXPECT_TRUE(refused(0, 0, 0));
  EXPECT_EQ(memory, Buffer(700, 0x5a));
  EXPECT_NO_THROW(decode_to(600, 10, 20));
  EXPECT_NE(memory, Buffer(700, 0x5a));
}

// What an image brings must not reach the next one on the same thread.
TEST(Jpeg, ImagesOfDifferentKindsDoNotDisturbEachOther) {
  std::vector<Buffer> files;
  std::vector<Buffer> expected;
  for (const Kind& kind : kinds()) {
    files.push_back(test::encode_jpeg(test::make_photo(60, 40, kind.channels), kind.options));
    expected.push_back(test::plain_decode(files.back()).bytes);
  }
  for (std::size_t first = 0; first < files.size(); ++first) {
    for (std::size_t second = 0; second < files.size(); ++second) {
      EXPECT_EQ(decode(files[first], PixelLayout::kHwc).bytes, expected[first]);
      EXPECT_EQ(decode(files[second], PixelLayout::kChw).bytes, expected[second]);
    }
  }
}

TEST(Jpeg, ThreadsDecodeSideBySide) {
  std::vector<Buffer> files;
  std::vector<Buffer> expected;
  for (const Kind& kind : kinds()) {
    files.push_back(test::encode_jpeg(test::make_photo(90, 70, kind.channels), kind.options));
    expected.push_back(test::plain_decode(files.back()).bytes);
  }
  std::vector<int> wrong(6, 0);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < wrong.size(); ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < 8 * files.size(); ++i) {
          const std::size_t which = (i * (t + 1) + t) % files.size();
          const Raster found = decode(files[which], kLayouts[i % 2]);
          wrong[t] += found.bytes == expected[which] ? 0 : 1;
        }
      });
    }
  }
  EXPECT_EQ(wrong, std::vector<int>(6, 0));
}

}  // namespace
}  // namespace stoker
