// SPDX-License-Identifier: Apache-2.0
// Files that are cut off, flipped, or odd but whole: an error or the right pixels, nothing between.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "codec/jpeg.h"
#include "error_of.h"
#include "jpeg_samples.h"

namespace stoker {
namespace {

using Buffer = std::vector<std::uint8_t>;

// CHW pixels, or the error code. Memory starts as `fill`.
struct Outcome {
  std::optional<ErrorCode> error;
  std::string message;
  Buffer pixels;
};

Outcome decode(ByteSpan jpeg, std::uint8_t fill = 0) {
  Outcome outcome;
  try {
    const JpegInfo info = probe_jpeg(jpeg);
    const std::size_t bytes = std::size_t{info.width} * info.height * 3;
    if (bytes > 10'000'000) {  // a flipped size: nobody would have memory for it
      outcome.error = ErrorCode::kInvalidArgument;
      return outcome;
    }
    outcome.pixels.assign(bytes, fill);
    decode_jpeg_into(jpeg, {outcome.pixels, info.shown_width(), info.shown_height()});
  } catch (const Error& error) {
    outcome.error = error.code();
    outcome.message = error.what();
  }
  return outcome;
}

// Offset of the first marker `code` (its 0xff byte), walking from segment to segment.
std::size_t find_marker(const Buffer& jpeg, std::uint8_t code) {
  std::size_t at = 2;
  while (jpeg.at(at + 1) != code) at += 2 + (std::size_t{jpeg[at + 2]} << 8 | jpeg[at + 3]);
  return at;
}

std::size_t segment_size(const Buffer& jpeg, std::size_t at) {
  return 2 + (std::size_t{jpeg[at + 2]} << 8 | jpeg[at + 3]);
}

Buffer without(const Buffer& jpeg, std::uint8_t marker) {
  Buffer shorter = jpeg;
  for (std::size_t at = 2; shorter[at + 1] != 0xda;) {
    const auto from = shorter.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t size = segment_size(shorter, at);
    if (shorter[at + 1] == marker) {
      shorter.erase(from, from + static_cast<std::ptrdiff_t>(size));
    } else {
      at += size;
    }
  }
  return shorter;
}

Buffer with_inserted(const Buffer& jpeg, std::size_t at, const Buffer& bytes) {
  Buffer longer = jpeg;
  longer.insert(longer.begin() + static_cast<std::ptrdiff_t>(at), bytes.begin(), bytes.end());
  return longer;
}

struct Sample {
  std::string name;
  int channels;
  test::EncodeOptions options;
};

std::vector<Sample> samples() {
  return {{"baseline", 3, {}},
          {"gray", 1, {.raster = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .luma_x = 1, .luma_y = 1}},
          {"restart markers", 3, {.restart_rows = 1}},
          {"CMYK", 4, {.raster = JCS_CMYK, .stored = JCS_CMYK}},
          {"progressive", 3, {.progressive = true}},
          {"arithmetic", 3, {.arithmetic = true}}};
}

TEST(JpegDamage, EveryTruncationIsAnError) {
  for (const Sample& sample : samples()) {
    const Buffer jpeg =
        test::encode_jpeg(test::make_photo(61, 45, sample.channels), sample.options);
    ASSERT_FALSE(decode(jpeg).error) << sample.name;
    for (std::size_t size = 0; size < jpeg.size(); ++size) {
      const Buffer part(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(size));
      ASSERT_EQ(decode(part).error, ErrorCode::kCorrupt) << sample.name << " cut at " << size;
    }
  }
}

TEST(JpegDamage, AnEndMarkerInTheMiddleIsAnError) {
  for (const Sample& sample : samples()) {
    if (sample.options.arithmetic) continue;  // there the missing rest is zeros by definition
    Buffer jpeg = test::encode_jpeg(test::make_photo(160, 120, sample.channels), sample.options);
    const std::size_t data = find_marker(jpeg, 0xda);
    jpeg.resize(data + (jpeg.size() - data) / 2);
    jpeg.insert(jpeg.end(), {0xff, 0xd9});
    const Outcome found = decode(jpeg);
    EXPECT_EQ(found.error, ErrorCode::kCorrupt) << sample.name;
  }
}

TEST(JpegDamage, FlippedBitsNeverLeaveAPixelUnwritten) {
  std::mt19937 random(11);
  for (const Sample& sample : samples()) {
    const Buffer jpeg =
        test::encode_jpeg(test::make_photo(61, 45, sample.channels), sample.options);
    int decoded = 0;
    int refused = 0;
    for (int round = 0; round < 1500; ++round) {
      Buffer flipped = jpeg;
      for (unsigned i = 0; i <= random() % 3; ++i) {
        flipped[random() % flipped.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
      }
      const Outcome dark = decode(flipped, 0x00);
      const Outcome bright = decode(flipped, 0xff);
      ASSERT_EQ(dark.error, bright.error) << sample.name << " round " << round;
      if (dark.error) {
        ASSERT_NE(*dark.error, ErrorCode::kInternal);
        ++refused;
      } else {
        ASSERT_EQ(dark.pixels, bright.pixels) << sample.name << " round " << round;
        ++decoded;
      }
    }
    EXPECT_GT(decoded, 0) << sample.name;
    EXPECT_GT(refused, 0) << sample.name;
  }
}

TEST(JpegDamage, OtherFilesAreCorrupt) {
  const std::string png = "\x89PNG\r\n\x1a\n and so on";
  const Buffer only_start{0xff, 0xd8};
  const Buffer start_and_end{0xff, 0xd8, 0xff, 0xd9};
  for (const ByteSpan file :
       {ByteSpan{}, as_bytes(png), ByteSpan(only_start), ByteSpan(start_and_end), as_bytes("x")}) {
    EXPECT_EQ(decode(file).error, ErrorCode::kCorrupt);
  }
}

TEST(JpegDamage, TheMessageSaysWhatAndWhere) {
  Buffer jpeg = test::encode_jpeg(test::make_photo(160, 120), {});
  const std::string size = std::to_string(jpeg.size() / 2);
  jpeg.resize(jpeg.size() / 2);
  const std::string message = decode(jpeg).message;
  EXPECT_NE(message.find("Premature end"), std::string::npos) << message;
  EXPECT_NE(message.find("(byte "), std::string::npos) << message;
  EXPECT_TRUE(message.ends_with(" of " + size + ")")) << message;
}

TEST(JpegDamage, LostDataInTheMiddleIsAnError) {
  const Buffer jpeg = test::encode_jpeg(test::make_photo(160, 120), {.restart_rows = 1});
  Buffer lost;  // the second restart marker and what follows up to the third
  std::vector<std::size_t> restarts;
  for (std::size_t i = find_marker(jpeg, 0xda); i + 1 < jpeg.size(); ++i) {
    if (jpeg[i] == 0xff && jpeg[i + 1] >= 0xd0 && jpeg[i + 1] <= 0xd7) restarts.push_back(i);
  }
  ASSERT_GE(restarts.size(), 4u);
  lost.assign(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(restarts[1]));
  lost.insert(lost.end(), jpeg.begin() + static_cast<std::ptrdiff_t>(restarts[2]), jpeg.end());
  EXPECT_EQ(decode(lost).error, ErrorCode::kCorrupt);
}

TEST(JpegDamage, OddButWholeFilesAreRead) {
  const Buffer jpeg = test::encode_jpeg(test::make_photo(61, 45), {});
  const Buffer expected = decode(jpeg).pixels;
  const std::size_t tables = find_marker(jpeg, 0xdb);

  EXPECT_EQ(decode(with_inserted(jpeg, tables, {0, 1, 2, 3})).pixels, expected)
      << "bytes before a marker";
  EXPECT_EQ(decode(with_inserted(jpeg, jpeg.size() - 2, {0, 1, 2, 3})).pixels, expected)
      << "bytes before the end marker";
  EXPECT_EQ(decode(with_inserted(jpeg, jpeg.size(), {0xff, 0xd8, 0xff, 0, 7})).pixels, expected)
      << "bytes after the end";
  const Buffer adobe{0xff, 0xee, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 9};
  EXPECT_EQ(decode(with_inserted(without(jpeg, 0xe0), 2, adobe)).pixels, expected)
      << "a color transform that Adobe does not know";
  Buffer future = jpeg;
  future[find_marker(jpeg, 0xe0) + 9] = 7;
  EXPECT_EQ(decode(future).pixels, expected) << "JFIF 7";
  for (const Buffer& odd : {with_inserted(jpeg, tables, {0, 1, 2, 3}), future}) {
    EXPECT_FALSE(decode(odd).error) << decode(odd).message;
  }
}

TEST(JpegDamage, WhatLibjpegCannotDoIsUnsupported) {
  Buffer deep = test::encode_jpeg(test::make_photo(61, 45), {});
  deep[find_marker(deep, 0xc0) + 4] = 12;  // bits per sample
  EXPECT_EQ(decode(deep).error, ErrorCode::kUnsupported);

  Buffer lossless = test::encode_jpeg(test::make_photo(61, 45), {});
  lossless[find_marker(lossless, 0xc0) + 1] = 0xc3;
  EXPECT_EQ(decode(lossless).error, ErrorCode::kUnsupported);

  const Buffer two =
      test::encode_jpeg(test::make_photo(61, 45, 2),
                        {.raster = JCS_UNKNOWN, .stored = JCS_UNKNOWN, .luma_x = 1, .luma_y = 1});
  EXPECT_EQ(decode(two).error, ErrorCode::kUnsupported);
}

TEST(JpegDamage, TheThreadGoesOnAfterAnyError) {
  const Buffer good = test::encode_jpeg(test::make_photo(61, 45), {.progressive = true});
  const Buffer expected = decode(good).pixels;
  for (const Sample& sample : samples()) {
    const Buffer jpeg =
        test::encode_jpeg(test::make_photo(61, 45, sample.channels), sample.options);
    for (std::size_t size = 0; size < jpeg.size(); size += 97) {
      const Buffer part(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(size));
      ASSERT_TRUE(decode(part).error);
      ASSERT_EQ(decode(good).pixels, expected) << sample.name << " cut at " << size;
    }
  }
}

// Motion JPEG frames bring no Huffman tables and mean the standard ones; libjpeg would use those
// that the file before left behind.
TEST(JpegDamage, TablesOfAnotherFileAreNeverUsed) {
  const Buffer frame = test::encode_jpeg(test::make_photo(61, 45), {});
  const Buffer bare_frame = without(frame, 0xc4);
  const Buffer no_quantisation = without(frame, 0xdb);
  const Buffer stranger =
      test::encode_jpeg(test::make_photo(90, 45, 3, 5), {.quality = 40, .own_tables = true});
  Outcome fresh;
  std::jthread([&] { fresh = decode(bare_frame); }).join();
  ASSERT_EQ(fresh.pixels, decode(frame).pixels);
  for (int round = 0; round < 3; ++round) {
    ASSERT_FALSE(decode(stranger).error);
    EXPECT_EQ(decode(bare_frame).pixels, fresh.pixels);
    ASSERT_FALSE(decode(stranger).error);
    EXPECT_EQ(decode(no_quantisation).error, ErrorCode::kCorrupt);
  }
}

}  // namespace
}  // namespace stoker
