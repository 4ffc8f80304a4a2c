// SPDX-License-Identifier: Apache-2.0
// The numbers below come from a program of its own that follows the text of plan/rng.h. They never
// change: running jobs resume by position.
#include "plan/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

namespace stoker {
namespace {

using Numbers = std::vector<std::uint64_t>;

constexpr std::uint64_t kMax = ~std::uint64_t{0};

std::uint64_t key_of(const Numbers& parts) { return derive_key(parts); }

Numbers first_numbers(std::uint64_t key, std::size_t count) {
  Rng rng(key);
  Numbers numbers(count);
  for (std::uint64_t& number : numbers) number = rng.next();
  return numbers;
}

TEST(Mix64Test, Pinned) {
  EXPECT_EQ(mix64(0), 0U);
  EXPECT_EQ(mix64(1), 0x5692161D100B05E5ULL);
  EXPECT_EQ(mix64(2), 0xDBD238973A2B148AULL);
  EXPECT_EQ(mix64(kMax), 0xB4D055FCF2CBBD7BULL);
  EXPECT_EQ(mix64(0x9E3779B97F4A7C15ULL), 0xE220A8397B1DCDAFULL);
}

TEST(Mix64Test, NoTwoValuesMeet) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t x = 0; x < 20'000; ++x) {
    seen.insert(mix64(x));
    seen.insert(mix64(kMax - x));
  }
  EXPECT_EQ(seen.size(), 40'000U);
}

TEST(DeriveKeyTest, Pinned) {
  EXPECT_EQ(key_of({}), 0U);
  EXPECT_EQ(key_of({0}), 0x0397AB29740681D9ULL);
  EXPECT_EQ(key_of({0, 0}), 0x0776B0770431BCC2ULL);
  EXPECT_EQ(key_of({1}), 0xDDC1ED05282D1D64ULL);
  EXPECT_EQ(key_of({1, 2}), 0x7947B6CB424A7ED5ULL);
  EXPECT_EQ(key_of({2, 1}), 0xEF340A833C3E538DULL);
  EXPECT_EQ(key_of({1, 42, 1, 2, 7}), 0xC31F69FB7C41976FULL);
}

TEST(DeriveKeyTest, EveryPartCounts) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t a = 0; a < 20; ++a) {
    seen.insert(key_of({a}));
    for (std::uint64_t b = 0; b < 20; ++b) {
      seen.insert(key_of({a, b}));
      for (std::uint64_t c = 0; c < 20; ++c) seen.insert(key_of({a, b, c}));
    }
  }
  EXPECT_EQ(seen.size(), 20U + 400U + 8000U);
}

TEST(RngTest, NextPinned) {
  EXPECT_EQ(first_numbers(0, 4), (Numbers{0xE220A8397B1DCDAFULL, 0x6E789E6AA1B965F4ULL,
                                          0x06C45D188009454FULL, 0xF88BB8A8724C81ECULL}));
  EXPECT_EQ(first_numbers(1, 4), (Numbers{0x910A2DEC89025CC1ULL, 0xBEEB8DA1658EEC67ULL,
                                          0xF893A2EEFB32555EULL, 0x71C18690EE42C90BULL}));
  EXPECT_EQ(first_numbers(42, 4), (Numbers{0xBDD732262FEB6E95ULL, 0x28EFE333B266F103ULL,
                                           0x47526757130F9F52ULL, 0x581CE1FF0E4AE394ULL}));
  EXPECT_EQ(first_numbers(kMax, 4), (Numbers{0xE4D971771B652C20ULL, 0xE99FF867DBF682C9ULL,
                                             0x382FF84CB27281E9ULL, 0x6D1DB36CCBA982D2ULL}));
}

TEST(RngTest, ACopyGoesOnByItself) {
  Rng rng(42);
  static_cast<void>(rng.next());
  Rng copy = rng;
  EXPECT_EQ(copy.next(), 0x28EFE333B266F103ULL);
  EXPECT_EQ(copy.next(), 0x47526757130F9F52ULL);
  EXPECT_EQ(rng.next(), 0x28EFE333B266F103ULL);
}

TEST(RngTest, BelowPinned) {
  Rng rng(7);
  Numbers numbers(16);
  for (std::uint64_t& number : numbers) number = rng.below(10);
  EXPECT_EQ(numbers, (Numbers{3, 0, 9, 5, 4, 2, 4, 3, 1, 4, 1, 9, 9, 8, 8, 5}));
}

TEST(RngTest, BelowOneIsZeroAndUsesANumber) {
  Rng rng(7);
  EXPECT_EQ(rng.below(1), 0U);
  EXPECT_EQ(rng.below(1), 0U);
  EXPECT_EQ(rng.next(), 0xE6984080BAB12A02ULL);  // the third
}

// For 2^63 + 1 about half of all numbers are drawn again; here one of five.
TEST(RngTest, BelowOfLargeBoundsPinned) {
  Rng rng(9);
  const std::uint64_t bound = (std::uint64_t{1} << 63) + 1;
  Numbers numbers(4);
  for (std::uint64_t& number : numbers) number = rng.below(bound);
  EXPECT_EQ(numbers, (Numbers{0x5757A97F5F383032ULL, 0x6016C52F43D7F531ULL, 0x6474C66B4B98B030ULL,
                              0x219B59BC17AC43D0ULL}));
  EXPECT_EQ(rng.next(), first_numbers(9, 6)[5]);  // five were used

  Rng other(9);
  EXPECT_EQ(other.below(kMax), 0xAEAF52FEBE706063ULL);
  EXPECT_EQ(other.below(kMax), 0xC02D8A5E87AFEA61ULL);
}

// Each value of 70'000 draws of 7 comes 10'000 times, give or take 5 standard deviations (93 each).
TEST(RngTest, BelowIsEvenForASmallBound) {
  Rng rng(1);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70'000; ++i) ++counts.at(rng.below(7));
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 465);
}

// A bound of 3 * 2^62: without the second draw the values that are 0 modulo 3 would come twice as
// often as the others (10'000 and 5'000 of 20'000 instead of a third each).
TEST(RngTest, BelowIsEvenForALargeBound) {
  Rng rng(2);
  std::array<int, 3> counts{};
  for (int i = 0; i < 21'000; ++i) ++counts.at(rng.below(std::uint64_t{3} << 62) % 3);
  for (const int count : counts) EXPECT_NEAR(count, 7'000, 350);
}

std::vector<std::uint32_t> shuffled(std::uint32_t count, std::uint64_t key) {
  std::vector<std::uint32_t> values(count);
  std::iota(values.begin(), values.end(), 0U);
  Rng rng(key);
  shuffle(values, rng);
  return values;
}

TEST(ShuffleTest, Pinned) {
  using Values = std::vector<std::uint32_t>;
  EXPECT_EQ(shuffled(10, 7), (Values{9, 5, 8, 6, 1, 2, 4, 7, 0, 3}));
  EXPECT_EQ(shuffled(10, 8), (Values{2, 7, 4, 9, 1, 0, 3, 8, 5, 6}));
  EXPECT_EQ(shuffled(2, 7), (Values{1, 0}));
}

TEST(ShuffleTest, UsesOneNumberLessThanThereAreValues) {
  for (const std::uint32_t count : {0U, 1U, 2U, 10U}) {
    std::vector<std::uint32_t> values(count);
    Rng rng(7);
    shuffle(values, rng);
    EXPECT_EQ(rng.next(), first_numbers(7, 10)[count == 0 ? 0 : count - 1]);
  }
}

TEST(ShuffleTest, IsAPermutation) {
  for (std::uint32_t count = 0; count < 100; ++count) {
    auto values = shuffled(count, count);
    std::ranges::sort(values);
    for (std::uint32_t i = 0; i < count; ++i) ASSERT_EQ(values[i], i);
  }
}

// All 24 orders of four values, 24'000 times: 1'000 each, give or take 5 standard deviations (31).
TEST(ShuffleTest, EveryOrderIsAsLikely) {
  Rng rng(3);
  std::array<int, 256> counts{};
  for (int i = 0; i < 24'000; ++i) {
    std::vector<std::uint32_t> values{0, 1, 2, 3};
    shuffle(values, rng);
    ++counts.at(values[0] | values[1] << 2 | values[2] << 4 | values[3] << 6);
  }
  EXPECT_EQ(std::ranges::count_if(counts, [](int n) { return n > 0; }), 24);
  for (const int count : counts) EXPECT_TRUE(count == 0 || std::abs(count - 1000) < 155) << count;
}

}  // namespace
}  // namespace stoker
