// SPDX-License-Identifier: Apache-2.0
// Any bytes as a JPEG: an Error or an image, every pixel of it written, and no trace left for the
// next image.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "codec/jpeg.h"
#include "fuzz/seeds.h"
#include "jpeg_samples.h"

namespace stoker::fuzz {
namespace {

using Pixels = std::vector<std::uint8_t>;

// A few bytes may announce 65535 x 65535 pixels: that is the caller's to refuse.
constexpr std::uint64_t kMaxPixels = std::uint64_t{1} << 20;

constexpr std::uint8_t kExif[] = {'E',  'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0,
                                  0x12, 1,   3,   0,   1, 0, 0,   0,   6,  0, 0, 0, 0, 0, 0, 0};

void require_about_the_bytes(const Error& error) {
  require(error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kUnsupported);
}

std::optional<JpegInfo> probe(ByteSpan jpeg) {
  try {
    return probe_jpeg(jpeg);
  } catch (const Error& error) {
    require_about_the_bytes(error);
    return std::nullopt;
  }
}

// Nothing when the image is refused.
std::optional<Pixels> decode(ByteSpan jpeg, const JpegInfo& info, PixelLayout layout,
                             std::uint8_t fill) {
  Pixels pixels(std::size_t{info.width} * info.height * 3, fill);
  try {
    decode_jpeg_into(jpeg, {pixels, info.shown_width(), info.shown_height(), layout});
    return pixels;
  } catch (const Error& error) {
    require_about_the_bytes(error);
    return std::nullopt;
  }
}

// The layouts take different ways through the decoder. Their buffers begin with different bytes, so
// that a pixel nobody wrote differs too.
void check_image(ByteSpan jpeg, const JpegInfo& info) {
  const auto rows = decode(jpeg, info, PixelLayout::kHwc, 0x00);
  const auto planes = decode(jpeg, info, PixelLayout::kChw, 0xFF);
  require(rows.has_value() == planes.has_value());
  if (!rows) return;
  const std::size_t plane = rows->size() / 3;
  for (std::size_t i = 0; i < plane; ++i) {
    for (std::size_t c = 0; c < 3; ++c) require((*rows)[3 * i + c] == (*planes)[c * plane + i]);
  }
}

// The decompressor is reused: a good image is the same after any other one.
void check_next_image() {
  static const Seed kGood = make_seeds().front();
  static const JpegInfo kInfo = probe_jpeg(kGood);
  static const auto kPixels = decode(kGood, kInfo, PixelLayout::kChw, 0);
  require(decode(kGood, kInfo, PixelLayout::kChw, 1) == kPixels);
}

Seed encode(std::uint32_t width, std::uint32_t height, int channels,
            const test::EncodeOptions& options) {
  return test::encode_jpeg(test::make_photo(width, height, channels), options);
}

}  // namespace

std::vector<Seed> make_seeds() {
  const std::vector<std::uint8_t> exif(std::begin(kExif), std::end(kExif));
  std::vector<Seed> seeds;
  seeds.push_back(encode(24, 18, 3, {}));
  seeds.push_back(encode(17, 9, 3, {.luma_x = 2, .luma_y = 1, .own_tables = true}));
  seeds.push_back(encode(33, 7, 3, {.luma_x = 1, .luma_y = 1, .restart_rows = 1}));
  seeds.push_back(encode(20, 12, 3, {.progressive = true}));
  seeds.push_back(encode(19, 21, 3, {.arithmetic = true}));
  seeds.push_back(encode(21, 10, 3, {.app1 = exif}));
  const test::EncodeOptions gray{
      .raster = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .luma_x = 1, .luma_y = 1};
  seeds.push_back(encode(16, 16, 1, gray));
  const test::EncodeOptions cmyk{
      .raster = JCS_CMYK, .stored = JCS_CMYK, .luma_x = 1, .luma_y = 1, .app1 = exif};
  seeds.push_back(encode(10, 11, 4, cmyk));
  seeds.push_back(encode(10, 11, 4, {.raster = JCS_CMYK, .stored = JCS_YCCK, .progressive = true}));
  return seeds;
}

}  // namespace stoker::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fuzz = stoker::fuzz;
  const stoker::ByteSpan jpeg(data, size);
  static_cast<void>(stoker::exif_orientation(jpeg));
  if (const auto info = fuzz::probe(jpeg)) {
    if (std::uint64_t{info->width} * info->height <= fuzz::kMaxPixels) {
      fuzz::check_image(jpeg, *info);
    }
  }
  fuzz::check_next_image();
  return 0;
}
