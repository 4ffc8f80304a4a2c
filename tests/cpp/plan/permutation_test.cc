// SPDX-License-Identifier: Apache-2.0
#include "plan/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "error_of.h"

namespace stoker {
namespace {

using Numbers = std::vector<std::uint64_t>;

Numbers all_of(std::uint64_t size, std::uint64_t key) {
  Numbers out(size);
  Permutation(size, key).fill(0, out);
  return out;
}

// Orders of running jobs depend on them.
TEST(PermutationTest, Pinned) {
  EXPECT_EQ(all_of(10, 1), (Numbers{7, 1, 8, 0, 9, 4, 2, 5, 3, 6}));
  EXPECT_EQ(all_of(10, 2), (Numbers{0, 1, 5, 7, 8, 9, 6, 4, 2, 3}));
  const Permutation large(1'000'000'007, 42);
  EXPECT_EQ((Numbers{large.at(0), large.at(1), large.at(1'000'000'006)}),
            (Numbers{778312433, 793629709, 23567913}));
}

TEST(PermutationTest, EachNumberOnce) {
  const auto check = [](std::uint64_t size, std::uint64_t key) {
    Numbers found = all_of(size, key);
    std::ranges::sort(found);
    Numbers expected(size);
    std::iota(expected.begin(), expected.end(), std::uint64_t{0});
    ASSERT_EQ(found, expected) << size << " numbers, key " << key;
  };
  for (std::uint64_t size = 0; size < 600; ++size) check(size, size * 7919);
  for (const std::uint64_t size : {4096U, 4097U, 65535U, 100'003U, 262'145U}) check(size, 3);
}

TEST(PermutationTest, PiecesAndSingleNumbersAgree) {
  const Numbers whole = all_of(5000, 9);
  const Permutation permutation(5000, 9);
  for (std::uint64_t i = 0; i < 5000; i += 7) EXPECT_EQ(permutation.at(i), whole[i]);
  Numbers piece(100);
  permutation.fill(1234, piece);
  EXPECT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + 1234));
}

// Chi-square of where number 0 goes over many keys, and of the differences of neighbours.
TEST(PermutationTest, LooksRandom) {
  constexpr std::uint64_t kSize = 1000;
  constexpr std::uint64_t kBins = 20;
  const auto chi_square = [](const Numbers& counts, double expected) {
    double sum = 0;
    for (const std::uint64_t count : counts) {
      const double off = static_cast<double>(count) - expected;
      sum += off * off / expected;
    }
    return sum;
  };
  Numbers places(kBins);
  Numbers steps(kBins);
  for (std::uint64_t key = 0; key < 4000; ++key) {
    const Permutation permutation(kSize, key);
    const std::uint64_t first = permutation.at(0);
    ++places[first * kBins / kSize];
    ++steps[(permutation.at(1) + kSize - first) % kSize * kBins / kSize];
  }
  EXPECT_LT(chi_square(places, 4000.0 / kBins), 50);  // 19 degrees of freedom: 1 in 8000
  EXPECT_LT(chi_square(steps, 4000.0 / kBins), 50);
}

TEST(PermutationTest, PastTheEnd) {
  const Permutation permutation(10, 1);
  Numbers out(3);
  EXPECT_EQ(test::error_of([&] { return permutation.at(10); }).code(), ErrorCode::kOutOfRange);
  const auto fill = [&](std::uint64_t first) {
    return test::error_of([&] {
      permutation.fill(first, out);
      return 0;
    });
  };
  EXPECT_EQ(fill(8).code(), ErrorCode::kOutOfRange);
  EXPECT_EQ(fill(~std::uint64_t{0}).code(), ErrorCode::kOutOfRange);
}

}  // namespace
}  // namespace stoker
