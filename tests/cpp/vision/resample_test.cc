// SPDX-License-Identifier: Apache-2.0
// Weights are those of a resize, and all kernels agree to the bit.
#include "vision/resample.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <tuple>

namespace stoker {
namespace {

using Buffer = std::vector<std::uint8_t>;

Buffer noise(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Buffer out(size);
  for (auto& byte : out) byte = static_cast<std::uint8_t>(random());
  return out;
}

class Weights : public testing::TestWithParam<std::tuple<Interpolation, int, int>> {};

TEST_P(Weights, CoverTheInputAndSumToOne) {
  const auto [interpolation, in, out] = GetParam();
  const auto inputs = static_cast<std::uint32_t>(in);
  const auto outputs = static_cast<std::uint32_t>(out);
  AxisWeights axis;
  axis.assign({inputs, outputs, 0, outputs}, interpolation, /*reverse=*/false);
  ASSERT_EQ(axis.count(), outputs);
  std::uint32_t last = 0;
  for (std::uint32_t j = 0; j < outputs; ++j) {
    EXPECT_GE(axis.taps(j), 1U);
    EXPECT_LE(axis.start(j) + axis.taps(j), inputs);
    EXPECT_GE(axis.start(j), last);
    last = axis.start(j);
    const std::int16_t* weights = axis.weights(j);
    const int sum = std::accumulate(weights, weights + axis.stride(), 0);
    EXPECT_NEAR(sum, 1 << axis.precision(), static_cast<int>(axis.taps(j))) << j;
    for (std::uint32_t k = axis.taps(j); k < axis.stride(); ++k) EXPECT_EQ(weights[k], 0);
  }
}

TEST_P(Weights, APartHasTheWeightsOfTheWholeAndReversalReverses) {
  const auto [interpolation, in, out] = GetParam();
  const auto inputs = static_cast<std::uint32_t>(in);
  const auto outputs = static_cast<std::uint32_t>(out);
  AxisWeights whole;
  whole.assign({inputs, outputs, 0, outputs}, interpolation, false);
  const std::uint32_t first = outputs / 3;
  const std::uint32_t count = outputs - first;
  AxisWeights part;
  part.assign({inputs, outputs, first, count}, interpolation, true);
  for (std::uint32_t j = 0; j < count; ++j) {
    const std::uint32_t other = outputs - 1 - j;
    EXPECT_EQ(part.start(j), whole.start(other));
    ASSERT_EQ(part.taps(j), whole.taps(other));
    ASSERT_EQ(part.precision(), whole.precision());
    for (std::uint32_t k = 0; k < part.taps(j); ++k) {
      EXPECT_EQ(part.weights(j)[k], whole.weights(other)[k]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Weights,
                         testing::Combine(testing::Values(Interpolation::kNearest,
                                                          Interpolation::kBilinear,
                                                          Interpolation::kBicubic),
                                          testing::Values(1, 7, 100, 375),
                                          testing::Values(1, 8, 99, 224)));

class Kernels : public testing::TestWithParam<std::tuple<Interpolation, int, int>> {};

TEST_P(Kernels, AgreeToTheBit) {
  const ResampleKernels* fast = avx2_resample_kernels();
  if (fast == nullptr) GTEST_SKIP() << "this processor has no AVX2";
  const ResampleKernels& plain = portable_resample_kernels();
  const auto [interpolation, in, out] = GetParam();
  const auto inputs = static_cast<std::uint32_t>(in);
  const auto outputs = static_cast<std::uint32_t>(out);
  AxisWeights axis;
  axis.assign({inputs, outputs, 0, outputs}, interpolation, false);
  RowFilter filter;
  filter.assign(axis);
  const Buffer row = noise(std::size_t{inputs} * 4 + kRowSlack, 1);
  Buffer a(std::size_t{outputs} * 4 + kRowSlack);
  Buffer b = a;
  plain.horizontal(filter, row.data() + std::size_t{axis.lowest()} * 4, a.data());
  fast->horizontal(filter, row.data() + std::size_t{axis.lowest()} * 4, b.data());
  a.resize(std::size_t{outputs} * 4);
  b.resize(a.size());
  EXPECT_EQ(a, b);

  constexpr std::size_t kBytes = 77;
  std::vector<Buffer> rows;
  std::vector<const std::uint8_t*> pointers;
  for (std::uint32_t k = 0; k < inputs; ++k) rows.push_back(noise(kBytes + kRowSlack, k));
  for (const Buffer& one : rows) pointers.push_back(one.data());
  for (std::uint32_t j = 0; j < outputs; ++j) {
    Buffer c(kBytes + kRowSlack);
    Buffer d = c;
    const auto run = [&](const ResampleKernels& kernels, Buffer& to) {
      kernels.vertical(pointers.data() + axis.start(j), axis.weights(j), axis.taps(j),
                       axis.precision(), kBytes, to.data());
      to.resize(kBytes);
    };
    run(plain, c);
    run(*fast, d);
    ASSERT_EQ(c, d);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Kernels,
                         testing::Combine(testing::Values(Interpolation::kNearest,
                                                          Interpolation::kBilinear,
                                                          Interpolation::kBicubic),
                                          testing::Values(1, 5, 64, 301),
                                          testing::Values(1, 3, 33, 224)));

}  // namespace
}  // namespace stoker
