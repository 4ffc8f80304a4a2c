// SPDX-License-Identifier: Apache-2.0
// Plans run as their steps say, from JPEG and from pixels alike.
#include "vision/image_pipeline.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "base/error.h"
#include "codec/jpeg.h"
#include "error_of.h"
#include "jpeg_samples.h"

namespace stoker {
namespace {

using test::error_of;
using Buffer = std::vector<std::uint8_t>;

constexpr std::array<std::uint64_t, 3> kKey{42, 1, 7};

ImagePipeline pipeline(std::vector<ImageStep> steps, PixelFormat format = {}) {
  return ImagePipeline(std::make_shared<const ImageSteps>(ImageSteps{std::move(steps), format}));
}

Buffer run(ImagePipeline& p, const test::Raster& image, std::span<const std::uint64_t> key = kKey) {
  const ImageSize size = p.output_size({image.width, image.height});
  Buffer out(std::size_t{size.width} * size.height * 3);
  p.run_rgb({image.bytes, {image.width, image.height}}, key, {out, size});
  return out;
}

/// What a step list gives in packed RGB.
Buffer run(std::vector<ImageStep> steps, const test::Raster& image) {
  ImagePipeline p = pipeline(std::move(steps), {.channels_last = true});
  return run(p, image);
}

TEST(ImagePipeline, WithoutStepsTheImage) {
  const test::Raster image = test::make_photo(37, 21);
  EXPECT_EQ(run({}, image), image.bytes);
}

TEST(ImagePipeline, FlipsMirror) {
  const test::Raster image = test::make_photo(13, 5);
  const Buffer flipped = run({FlipStep{1.0}}, image);
  for (std::size_t y = 0; y < 5; ++y) {
    for (std::size_t x = 0; x < 13; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        ASSERT_EQ(flipped[(y * 13 + x) * 3 + c], image.at(12 - x, y, c));
      }
    }
  }
}

TEST(ImagePipeline, BordersAreBlackAndTheMiddleIsTheImage) {
  const test::Raster image = test::make_photo(6, 4);
  for (const bool mirrored : {false, true}) {
    const Buffer out = run({FlipStep{mirrored ? 1.0 : 0.0}, CenterCropStep{{11, 7}}}, image);
    for (std::size_t y = 0; y < 7; ++y) {
      for (std::size_t x = 0; x < 11; ++x) {
        const bool inside = x >= 2 && x < 8 && y >= 1 && y < 5;
        for (std::size_t c = 0; c < 3; ++c) {
          const std::uint8_t expected = !inside ? 0 : image.at(mirrored ? 7 - x : x - 2, y - 1, c);
          ASSERT_EQ(out[(y * 11 + x) * 3 + c], expected) << x << "," << y << " " << mirrored;
        }
      }
    }
  }
}

TEST(ImagePipeline, ConstantImagesStayConstantWhateverTheResize) {
  const test::Raster image = test::make_flat(100, 60, {7, 200, 255});
  for (const auto interpolation :
       {Interpolation::kNearest, Interpolation::kBilinear, Interpolation::kBicubic}) {
    for (const ImageSize size : {ImageSize{33, 200}, ImageSize{101, 60}, ImageSize{1, 1}}) {
      const Buffer out = run({ResizeStep{.size = size, .interpolation = interpolation}}, image);
      for (std::size_t i = 0; i < out.size(); i += 3) {
        ASSERT_EQ(out[i], 7);
        ASSERT_EQ(out[i + 1], 200);
        ASSERT_EQ(out[i + 2], 255);
      }
    }
  }
}

TEST(ImagePipeline, AWindowOfAResizeIsThatPartOfTheWholeResize) {
  const test::Raster image = test::make_photo(200, 150);
  const Buffer whole = run({ResizeStep{.size = {90, 70}}}, image);
  const Buffer window = run({ResizeStep{.size = {90, 70}}, CenterCropStep{{40, 30}}}, image);
  for (std::size_t y = 0; y < 30; ++y) {
    for (std::size_t x = 0; x < 40 * 3; ++x) {
      ASSERT_EQ(window[y * 120 + x], whole[(y + 20) * 270 + 25 * 3 + x]);
    }
  }
}

TEST(ImagePipeline, JpegsGiveThePixelsOfTheirFullDecode) {
  std::mt19937 random(5);
  for (const int luma : {1, 2}) {
    const Buffer jpeg =
        test::encode_jpeg(test::make_photo(250, 187), {.luma_x = luma, .luma_y = luma});
    test::Raster decoded{250, 187, 3, Buffer(250 * 187 * 3)};
    decode_jpeg_into(jpeg, {decoded.bytes, 250, 187, PixelLayout::kHwc});
    ImagePipeline p = pipeline(
        {RandomResizedCropStep{{64, 48}}, FlipStep{},
         ColorJitterStep{Range{0.6, 1.4}, Range{0.6, 1.4}, Range{0.6, 1.4}, Range{-0.1, 0.1}}});
    for (std::uint64_t i = 0; i < 50; ++i) {
      const std::array<std::uint64_t, 2> key{1, i};
      Buffer from_jpeg(64 * 48 * 3);
      p.run_jpeg(jpeg, key, {from_jpeg, {64, 48}});
      EXPECT_EQ(from_jpeg, run(p, decoded, key)) << i;
    }
  }
}

TEST(ImagePipeline, OrientedJpegsAreTurnedFirst) {
  const test::Raster photo = test::make_photo(50, 40);
  const Buffer turned = test::encode_jpeg(
      photo, {.app1 = {'E',  'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0,
                       0x12, 1,   3,   0,   1, 0, 0,   0,   6,  0, 0, 0, 0, 0, 0, 0}});
  test::Raster shown{40, 50, 3, Buffer(50 * 40 * 3)};
  decode_jpeg_into(turned, {shown.bytes, 40, 50, PixelLayout::kHwc});
  ImagePipeline p = pipeline({RandomResizedCropStep{{20, 24}}, FlipStep{}});
  Buffer out(20 * 24 * 3);
  p.run_jpeg(turned, kKey, {out, {20, 24}});
  EXPECT_EQ(out, run(p, shown));
}

TEST(ImagePipeline, GreyKeepsOneOrThreeChannels) {
  const test::Raster image = test::make_photo(9, 8);
  ImagePipeline three = pipeline({GrayscaleStep{}}, {.channels_last = true});
  const Buffer grey = run(three, image);
  ImagePipeline one = pipeline({GrayscaleStep{}}, {.channels = 1});
  Buffer single(9 * 8);
  one.run_rgb({image.bytes, {9, 8}}, kKey, {single, {9, 8}});
  for (std::size_t i = 0; i < single.size(); ++i) {
    const auto expected =
        static_cast<std::uint8_t>(0.2989F * image.bytes[3 * i] + 0.587F * image.bytes[3 * i + 1] +
                                  0.114F * image.bytes[3 * i + 2]);
    ASSERT_EQ(single[i], expected);
    for (std::size_t c = 0; c < 3; ++c) ASSERT_EQ(grey[3 * i + c], expected);
  }
}

TEST(ImagePipeline, WrongSizesAreErrorsWithBoth) {
  ImagePipeline p = pipeline({});
  const test::Raster image = test::make_photo(30, 20);
  Buffer out(64 * 64 * 3);
  const Error size = error_of([&] {
    p.run_rgb({image.bytes, {30, 20}}, kKey, {out, {64, 64}});
    return 0;
  });
  EXPECT_EQ(size.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(size.message().find("20 x 30"), std::string::npos) << size.message();
  EXPECT_NE(size.message().find("64 x 64"), std::string::npos) << size.message();
  const Error bytes = error_of([&] {
    p.run_rgb({image.bytes, {31, 20}}, kKey, {out, {31, 20}});
    return 0;
  });
  EXPECT_EQ(bytes.code(), ErrorCode::kInvalidArgument);
}

TEST(ImagePipeline, ImpossibleStepsAreRefusedAtOnce) {
  const auto refused = [](ImageStep step) {
    EXPECT_EQ(error_of([&] { return pipeline({step}); }).code(), ErrorCode::kInvalidArgument);
  };
  refused(RandomResizedCropStep{{0, 5}});
  refused(RandomResizedCropStep{.size = {5, 5}, .area = {0.5, 0.1}});
  refused(RandomResizedCropStep{.size = {5, 5}, .ratio = {0.0, 1.0}});
  refused(ResizeStep{});
  refused(CenterCropStep{{5, 1U << 21}});
  refused(FlipStep{1.5});
  refused(ColorJitterStep{.hue = Range{-0.6, 0.1}});
  refused(ColorJitterStep{.brightness = Range{-1.0, 1.0}});
}

}  // namespace
}  // namespace stoker
