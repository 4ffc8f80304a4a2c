// SPDX-License-Identifier: Apache-2.0
#include "base/coding.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <random>
#include <vector>

namespace stoker {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(CodingTest, LoadsAreLittleEndianAtAnyAddress) {
  const std::array<std::uint8_t, 11> bytes{0xff, 0xff, 0xff, 0x01, 0x02, 0x03,
                                           0x04, 0x05, 0x06, 0x07, 0x88};
  EXPECT_EQ(load_u32(bytes.data() + 3), 0x04030201U);
  EXPECT_EQ(load_u64(bytes.data() + 3), 0x8807060504030201U);
  EXPECT_LT(load_i64(bytes.data() + 3), 0);
  EXPECT_EQ(load_u32_be(bytes.data() + 3), 0x01020304U);
  EXPECT_EQ(load_u32_be(bytes.data()), 0xffffff01U);
}

TEST(CodingTest, LoadsIeeeDoubles) {
  const std::array<std::uint8_t, 9> bytes{0xaa, 0, 0, 0, 0, 0, 0, 0xf8, 0xbf};
  EXPECT_EQ(load_f64(bytes.data() + 1), -1.5);
}

TEST(CodingTest, StoresTouchOnlyTheirBytes) {
  std::vector<std::uint8_t> bytes(14, 0xee);
  store_u32(bytes.data() + 1, 0xa1b2c3d4U);
  store_u64(bytes.data() + 5, 0x1122334455667788U);
  const std::vector<std::uint8_t> expected{0xee, 0xd4, 0xc3, 0xb2, 0xa1, 0x88, 0x77,
                                           0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0xee};
  EXPECT_EQ(bytes, expected);
}

TEST(CodingTest, CheckedArithmeticAtTheEdge) {
  EXPECT_EQ(checked_add(kMax, 0), kMax);
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_FALSE(checked_add(kMax, 1));
  EXPECT_FALSE(checked_add(kMax, kMax));
  EXPECT_EQ(checked_mul(0, kMax), 0U);
  EXPECT_EQ(checked_mul(kMax, 1), kMax);
  EXPECT_FALSE(checked_mul(kMax / 2 + 1, 2));
  EXPECT_FALSE(checked_mul(std::uint64_t{1} << 32, std::uint64_t{1} << 32));
}

TEST(CodingTest, CheckedArithmeticAgreesWithWiderIntegers) {
  __extension__ using Wide = unsigned __int128;
  std::mt19937_64 random(20240601);
  for (int i = 0; i < 20'000; ++i) {
    // All magnitudes, not only numbers near 2^64.
    const std::uint64_t a = random() >> (random() % 64);
    const std::uint64_t b = random() >> (random() % 64);
    const Wide sum = static_cast<Wide>(a) + b;
    const Wide product = static_cast<Wide>(a) * b;
    ASSERT_EQ(checked_add(a, b).has_value(), sum <= kMax) << a << " + " << b;
    ASSERT_EQ(checked_mul(a, b).has_value(), product <= kMax) << a << " * " << b;
    if (sum <= kMax) {
      ASSERT_EQ(*checked_add(a, b), static_cast<std::uint64_t>(sum));
    }
    if (product <= kMax) {
      ASSERT_EQ(*checked_mul(a, b), static_cast<std::uint64_t>(product));
    }
  }
}

}  // namespace
}  // namespace stoker
