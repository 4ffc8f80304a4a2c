// SPDX-License-Identifier: Apache-2.0
#include "codec/zstd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "error_of.h"

namespace stoker {
namespace {

using test::error_of;
using Buffer = std::vector<std::uint8_t>;

// "stoker " twenty times, compressed by the zstandard module of PyPI (zstd 1.5.7): with content
// size and checksum, and streamed (neither).
const Buffer kSizedFrame{0x28, 0xb5, 0x2f, 0xfd, 0x24, 0x8c, 0x75, 0x00, 0x00,
                         0x38, 0x73, 0x74, 0x6f, 0x6b, 0x65, 0x72, 0x20, 0x01,
                         0x00, 0x02, 0x51, 0xc5, 0x08, 0x36, 0x56, 0x7a, 0xcd};
const Buffer kStreamedFrame{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x75, 0x00, 0x00, 0x38, 0x73, 0x74,
                            0x6f, 0x6b, 0x65, 0x72, 0x20, 0x01, 0x00, 0x02, 0x51, 0xc5, 0x08};
// A skippable frame of three bytes: not content, to be passed over.
const Buffer kSkippableFrame{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3};

std::string stoker_text() {
  std::string text;
  for (int i = 0; i < 20; ++i) text += "stoker ";
  return text;
}

// Half noise, half repetition: neither stored raw nor trivial.
Buffer mixed(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Buffer bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::uint8_t>(i / 64 % 2 == 0 ? random() : i);
  }
  return bytes;
}

Buffer joined(std::initializer_list<ByteSpan> parts) {
  Buffer all;
  for (const ByteSpan part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

bool same(ByteSpan a, ByteSpan b) { return std::ranges::equal(a, b); }

ErrorCode decompress_code(ByteSpan frame, std::size_t size) {
  Buffer out(size);
  const auto decompress = [&] {
    zstd_decompress_into(frame, out);
    return 0;
  };
  return error_of(decompress).code();
}

TEST(Zstd, RoundTripsEverySizeAndLevel) {
  for (const int level : {kZstdMinLevel, kZstdDefaultLevel, 19, kZstdMaxLevel}) {
    for (const std::size_t size : {0u, 1u, 100u, 4096u, 300'000u}) {
      const Buffer data = mixed(size, 7);
      const Bytes frame = zstd_compress(data, level);
      EXPECT_EQ(zstd_content_size(frame.span()), size);
      EXPECT_TRUE(same(zstd_decompress(frame.span(), size).span(), data)) << level << " " << size;
    }
  }
}

TEST(Zstd, RefusesLevelsOutsideTheRange) {
  const Buffer data = mixed(10, 1);
  for (const int level : {kZstdMinLevel - 1, -5, kZstdMaxLevel + 1}) {
    EXPECT_EQ(error_of([&] { return zstd_compress(data, level); }).code(),
              ErrorCode::kInvalidArgument);
  }
}

TEST(Zstd, ReadsFramesOfOtherWriters) {
  const std::string text = stoker_text();
  EXPECT_TRUE(same(zstd_decompress(kSizedFrame, text.size()).span(), as_bytes(text)));
  EXPECT_TRUE(same(zstd_decompress(kStreamedFrame, text.size()).span(), as_bytes(text)));
}

TEST(Zstd, ContentSizeIsWhatTheHeaderSays) {
  EXPECT_EQ(zstd_content_size(kSizedFrame), 140u);
  EXPECT_EQ(zstd_content_size(kStreamedFrame), std::nullopt);
  EXPECT_EQ(zstd_content_size(kSkippableFrame), std::nullopt);
  EXPECT_EQ(zstd_content_size({}), std::nullopt);
  EXPECT_EQ(zstd_content_size(as_bytes("a classic chunk header")), std::nullopt);
  for (std::size_t size = 0; size < 6; ++size) {
    EXPECT_EQ(zstd_content_size(ByteSpan(kSizedFrame).first(size)), std::nullopt) << size;
  }
}

TEST(Zstd, FramesOneAfterAnotherAreOneContent) {
  const Buffer first = mixed(5000, 1);
  const Buffer second = mixed(77, 2);
  const std::string text = stoker_text();
  const Buffer frames = joined({zstd_compress(first).span(), kSkippableFrame, kStreamedFrame,
                                zstd_compress(Buffer{}).span(), zstd_compress(second, 19).span()});
  const Buffer expected = joined({first, as_bytes(text), second});
  EXPECT_TRUE(same(zstd_decompress(frames, expected.size()).span(), expected));
}

TEST(Zstd, TheSizeMustBeExact) {
  const Buffer data = mixed(1000, 3);
  const Bytes frame = zstd_compress(data);
  EXPECT_NO_THROW(static_cast<void>(zstd_decompress(frame.span(), 1000)));
  for (const std::size_t size : {0u, 1u, 999u, 1001u, 5000u}) {
    EXPECT_EQ(decompress_code(frame.span(), size), ErrorCode::kCorrupt) << size;
  }
  EXPECT_EQ(error_of([&] { return zstd_decompress(frame.span(), 1001); }).code(),
            ErrorCode::kCorrupt);
}

TEST(Zstd, NothingIsNotAFrame) {
  EXPECT_EQ(decompress_code({}, 0), ErrorCode::kCorrupt);
  EXPECT_EQ(decompress_code({}, 10), ErrorCode::kCorrupt);
}

TEST(Zstd, EveryTruncationIsNoticed) {
  const Buffer data = mixed(3000, 4);
  const Bytes frame = zstd_compress(data);
  for (std::size_t size = 0; size < frame.size(); ++size) {
    EXPECT_EQ(decompress_code(frame.span().first(size), data.size()), ErrorCode::kCorrupt) << size;
  }
}

TEST(Zstd, BytesAfterTheLastFrameAreNoticed) {
  const Buffer frame = joined({kSizedFrame, as_bytes("x")});
  EXPECT_EQ(decompress_code(frame, 140), ErrorCode::kCorrupt);
}

TEST(Zstd, AFlippedBitNeverPassesTheFrameChecksum) {
  const std::string text = stoker_text();
  for (std::size_t bit = 0; bit < kSizedFrame.size() * 8; ++bit) {
    Buffer frame = kSizedFrame;
    frame[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    Buffer out(text.size());
    // The header's spare bits and the flag "has a checksum" are not covered by it.
    try {
      zstd_decompress_into(frame, out);
      EXPECT_TRUE(same(out, as_bytes(text))) << bit;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << bit;
    }
  }
}

TEST(Zstd, AHeaderThatPromisesTerabytesAllocatesNothing) {
  // Single segment, 8-byte content size of 2^42, then an empty last block.
  const Buffer frame{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 4, 0, 0, 1, 0, 0};
  EXPECT_EQ(zstd_content_size(frame), std::uint64_t{1} << 42);
  EXPECT_EQ(error_of([&] { return zstd_decompress(frame, 100); }).code(), ErrorCode::kCorrupt);
}

TEST(Zstd, ThreadsDoNotShareTheirContexts) {
  std::vector<int> wrong(8, 0);
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < wrong.size(); ++t) {
      threads.emplace_back([t, &wrong] {
        for (unsigned i = 0; i < 30; ++i) {
          const Buffer data = mixed(10'000 + 100 * i, t * 100 + i);
          const Bytes frame = zstd_compress(data, 1 + static_cast<int>(i % 5));
          wrong[t] += same(zstd_decompress(frame.span(), data.size()).span(), data) ? 0 : 1;
        }
      });
    }
  }
  EXPECT_EQ(wrong, std::vector<int>(8, 0));
}

}  // namespace
}  // namespace stoker
