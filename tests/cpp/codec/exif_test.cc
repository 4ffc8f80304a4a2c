// SPDX-License-Identifier: Apache-2.0
#include "codec/exif.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace stoker {
namespace {

using Buffer = std::vector<std::uint8_t>;

struct Entry {
  std::uint16_t tag = 0x0112;
  std::uint16_t type = 3;
  std::uint32_t count = 1;
  std::uint32_t value = 1;  // written in 2 bytes for type 3, else in 4
};

// An APP1 payload written field by field in either byte order.
class ExifWriter {
 public:
  explicit ExifWriter(bool big_endian) : big_endian_(big_endian) {}

  Buffer write(const std::vector<Entry>& entries, std::uint32_t directory = 8) {
    bytes_ = {'E', 'x', 'i', 'f', 0, 0};
    bytes_.insert(bytes_.end(), 2, big_endian_ ? 'M' : 'I');
    number(42, 2);
    number(directory, 4);
    bytes_.resize(6 + directory);  // a gap, when the directory is not right here
    number(static_cast<std::uint32_t>(entries.size()), 2);
    for (const Entry& entry : entries) {
      number(entry.tag, 2);
      number(entry.type, 2);
      number(entry.count, 4);
      number(entry.value, entry.type == 3 ? 2 : 4);
      if (entry.type == 3) number(0, 2);
    }
    number(0, 4);
    return bytes_;
  }

 private:
  void number(std::uint32_t value, int width) {
    for (int i = 0; i < width; ++i) {
      const int shift = 8 * (big_endian_ ? width - 1 - i : i);
      bytes_.push_back(static_cast<std::uint8_t>(value >> shift));
    }
  }

  bool big_endian_;
  Buffer bytes_;
};

int orientation(const Buffer& app1) { return static_cast<int>(exif_orientation(app1)); }

class Exif : public ::testing::TestWithParam<bool> {
 protected:
  ExifWriter writer_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(ByteOrders, Exif, ::testing::Bool());

TEST_P(Exif, ReadsEveryOrientation) {
  for (std::uint32_t value = 1; value <= 8; ++value) {
    EXPECT_EQ(orientation(writer_.write({{.value = value}})), static_cast<int>(value));
  }
}

TEST_P(Exif, ReadsItAsLongToo) {
  EXPECT_EQ(orientation(writer_.write({{.type = 4, .value = 6}})), 6);
}

TEST_P(Exif, FindsItAmongOtherEntriesAndFarAway) {
  const std::vector<Entry> entries{{0x010f, 2, 20, 200}, {0x0110, 2, 4, 0}, {.value = 8}, {0x011a}};
  EXPECT_EQ(orientation(writer_.write(entries)), 8);
  EXPECT_EQ(orientation(writer_.write(entries, 5000)), 8);
}

TEST_P(Exif, ValuesOutsideTheTableAreNormal) {
  for (const std::uint32_t value : {0u, 9u, 255u, 256u, 0x0600u}) {
    EXPECT_EQ(orientation(writer_.write({{.value = value}})), 1) << value;
  }
  EXPECT_EQ(orientation(writer_.write({{.type = 4, .value = 0x10006}})), 1);
}

TEST_P(Exif, OtherTypesAndCountsAreNormal) {
  EXPECT_EQ(orientation(writer_.write({{.type = 2, .value = 0x06060606}})), 1);
  EXPECT_EQ(orientation(writer_.write({{.count = 0, .value = 6}})), 1);
  EXPECT_EQ(orientation(writer_.write({{.count = 2, .value = 6}})), 1);
}

TEST_P(Exif, ADirectoryThatIsCutOffCountsAsFarAsItGoes) {
  Buffer app1 = writer_.write({{.value = 3}});
  app1[6 + 8] = app1[6 + 9] = 0xff;  // 65535 entries in either byte order
  EXPECT_EQ(orientation(app1), 3);
}

TEST_P(Exif, EveryTruncationIsReadableOrNormal) {
  const Buffer app1 = writer_.write({{0x010f, 2, 20, 200}, {.value = 5}});
  const std::size_t needed = app1.size() - 4;  // all but the link to the next directory
  for (std::size_t size = 0; size <= app1.size(); ++size) {
    const Buffer part(app1.begin(), app1.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(orientation(part), size < needed ? 1 : 5) << size;
  }
}

TEST_P(Exif, DirectoriesOutsideTheSegmentAreNormal) {
  for (const std::uint8_t high : {std::uint8_t{0x01}, std::uint8_t{0x7f}, std::uint8_t{0xff}}) {
    Buffer app1 = writer_.write({{.value = 6}});
    app1[10] = app1[11] = app1[12] = app1[13] = high;
    EXPECT_EQ(orientation(app1), 1);
  }
}

TEST_P(Exif, WrongSignaturesAreNormal) {
  for (const std::size_t at : {0u, 3u, 4u, 5u, 6u, 7u, 8u, 9u}) {
    Buffer app1 = writer_.write({{.value = 6}});
    app1[at] ^= 0x21;
    EXPECT_EQ(orientation(app1), 1) << at;
  }
}

TEST_P(Exif, NoiseIsAlwaysInsideTheTable) {
  std::mt19937 random(3);
  const Buffer app1 = writer_.write({{0x010f, 2, 20, 200}, {.value = 5}});
  for (int round = 0; round < 20'000; ++round) {
    Buffer noisy = app1;
    for (int i = 0; i < 3; ++i)
      noisy[random() % noisy.size()] = static_cast<std::uint8_t>(random());
    const int value = orientation(noisy);
    ASSERT_TRUE(value >= 1 && value <= 8) << value;
  }
}

TEST(ExifAxes, SwapForTheQuarterTurns) {
  for (int value = 1; value <= 8; ++value) {
    EXPECT_EQ(swaps_axes(static_cast<Orientation>(value)), value >= 5);
  }
}

}  // namespace
}  // namespace stoker
