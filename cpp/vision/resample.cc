// SPDX-License-Identifier: Apache-2.0
#include "vision/resample.h"

#include <algorithm>

namespace stoker {
namespace {

constexpr std::size_t kPixel = 4;

std::uint8_t rounded(std::int32_t sum, unsigned precision) noexcept {
  return static_cast<std::uint8_t>(std::clamp(sum >> precision, 0, 255));
}

void horizontal(const RowFilter& filter, const std::uint8_t* in, std::uint8_t* out) {
  const AxisWeights& axis = *filter.weights;
  const std::int32_t half = 1 << (axis.precision() - 1);
  for (std::uint32_t j = 0; j < axis.count(); ++j, out += kPixel) {
    const std::int16_t* weights = axis.weights(j);
    const std::uint8_t* pixel = in + filter.offsets[j];
    std::int32_t sums[3] = {half, half, half};
    for (std::uint32_t k = 0; k < axis.taps(j); ++k, pixel += kPixel) {
      for (std::size_t c = 0; c < 3; ++c) sums[c] += weights[k] * pixel[c];
    }
    for (std::size_t c = 0; c < 3; ++c) out[c] = rounded(sums[c], axis.precision());
    out[3] = 0;
  }
}

void vertical(const std::uint8_t* const* rows, const std::int16_t* weights, std::uint32_t taps,
              unsigned precision, std::size_t bytes, std::uint8_t* out) {
  const std::int32_t half = 1 << (precision - 1);
  for (std::size_t i = 0; i < bytes; ++i) {
    std::int32_t sum = half;
    for (std::uint32_t k = 0; k < taps; ++k) sum += weights[k] * rows[k][i];
    out[i] = rounded(sum, precision);
  }
}

}  // namespace

void RowFilter::assign(const AxisWeights& axis) {
  constexpr std::size_t kCopies = 4;  // one per channel
  weights = &axis;
  offsets.resize(axis.count());
  used.resize(axis.count());
  std::uint32_t most = 1;
  for (std::uint32_t j = 0; j < axis.count(); ++j) {
    offsets[j] = static_cast<std::uint32_t>(kPixel) * (axis.start(j) - axis.lowest());
    used[j] = (axis.taps(j) + AxisWeights::kGroup - 1) / AxisWeights::kGroup;
    most = std::max(most, used[j]);
  }
  groups = most;
  expanded.resize(std::size_t{axis.count()} * groups * AxisWeights::kGroup * kCopies);
  std::int16_t* to = expanded.data();
  for (std::uint32_t j = 0; j < axis.count(); ++j) {
    const std::int16_t* from = axis.weights(j);
    for (std::uint32_t pair = 0; pair < groups * AxisWeights::kGroup / 2; ++pair, from += 2) {
      for (std::size_t copy = 0; copy < kCopies; ++copy) {
        *to++ = from[0];
        *to++ = from[1];
      }
    }
  }
}

const ResampleKernels& portable_resample_kernels() noexcept {
  static constexpr ResampleKernels kKernels{"portable", horizontal, vertical};
  return kKernels;
}

const ResampleKernels& resample_kernels() noexcept {
  static const ResampleKernels& chosen =
      avx2_resample_kernels() != nullptr ? *avx2_resample_kernels() : portable_resample_kernels();
  return chosen;
}

}  // namespace stoker
