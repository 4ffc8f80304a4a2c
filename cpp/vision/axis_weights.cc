// SPDX-License-Identifier: Apache-2.0
#include "vision/axis_weights.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stoker {
namespace {

double bilinear(double x) noexcept {
  x = std::abs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

// Keys' cubic with a = -0.5, the one of antialiasing resizes.
double bicubic(double x) noexcept {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * kA;
  return 0.0;
}

}  // namespace

void AxisWeights::assign(const AxisSpan& span, Interpolation interpolation, bool reverse) {
  count_ = span.count;
  starts_.resize(count_);
  taps_.resize(count_);
  if (interpolation == Interpolation::kNearest) {
    assign_nearest(span);
  } else {
    assign_filter(span, interpolation);
  }
  lowest_ = *std::ranges::min_element(starts_);
  highest_ = 0;
  for (std::uint32_t j = 0; j < count_; ++j) {
    highest_ = std::max(highest_, starts_[j] + taps_[j]);
  }
  if (reverse) reverse_outputs();
}

// torch's rule, in single precision as there: floor(output * in / out).
void AxisWeights::assign_nearest(const AxisSpan& span) {
  const float scale = static_cast<float>(span.in) / static_cast<float>(span.out);
  stride_ = kGroup;
  precision_ = 1;
  weights_.assign(std::size_t{count_} * stride_, 0);
  for (std::uint32_t j = 0; j < count_; ++j) {
    const auto at =
        static_cast<std::uint32_t>(std::floor(static_cast<float>(span.first + j) * scale));
    starts_[j] = std::min(at, span.in - 1);
    taps_[j] = 1;
    weights_[std::size_t{j} * stride_] = 2;  // 1.0 with one bit of precision
  }
}

void AxisWeights::assign_filter(const AxisSpan& span, Interpolation interpolation) {
  const bool cubic = interpolation == Interpolation::kBicubic;
  const double scale = static_cast<double>(span.in) / static_cast<double>(span.out);
  const double widening = std::max(scale, 1.0);  // antialiasing: the filter covers an output pixel
  const double support = (cubic ? 2.0 : 1.0) * widening;
  const double inverse = scale >= 1.0 ? 1.0 / scale : 1.0;
  const auto most = static_cast<std::uint32_t>(std::ceil(support)) * 2 + 1;
  stride_ = (std::min(most, span.in) + kGroup - 1) / kGroup * kGroup;
  exact_.assign(std::size_t{count_} * stride_, 0.0);

  // The whole axis decides about the precision, so a window has the weights of the whole.
  double largest = 0.0;
  std::vector<double> unwanted(stride_);
  for (std::uint32_t output = 0; output < span.out; ++output) {
    const std::uint32_t j = output - span.first;  // wraps below the window
    const double center = scale * (static_cast<double>(output) + 0.5);
    // Cut towards zero after adding a half, which is not the same as rounding: torch does so.
    const double first = std::max(center - support + 0.5, 0.0);
    const double last = center + support + 0.5;
    const auto begin = static_cast<std::uint32_t>(first);
    const auto end = std::min(static_cast<std::uint32_t>(last), span.in);
    double* weights = j < count_ ? exact_.data() + std::size_t{j} * stride_ : unwanted.data();
    double total = 0.0;
    for (std::uint32_t k = begin; k < end; ++k) {
      const double x = (static_cast<double>(k) - center + 0.5) * inverse;
      weights[k - begin] = cubic ? bicubic(x) : bilinear(x);
      total += weights[k - begin];
    }
    for (std::uint32_t k = 0; k < end - begin; ++k) {
      if (total != 0.0) weights[k] /= total;
      largest = std::max(largest, weights[k]);
    }
    if (j >= count_) continue;
    starts_[j] = begin;
    taps_[j] = end - begin;
  }
  quantise(largest);
}

// The most bits with which the largest weight still fits 16 bits.
void AxisWeights::quantise(double largest) {
  constexpr unsigned kMostBits = 22;
  precision_ = 0;
  while (precision_ < kMostBits) {
    const double next = 0.5 + largest * static_cast<double>(1U << (precision_ + 1));
    if (next >= static_cast<double>(1U << 15)) break;
    ++precision_;
  }
  const auto one = static_cast<double>(1U << precision_);
  weights_.resize(exact_.size());
  std::ranges::transform(exact_, weights_.begin(), [one](double weight) {
    return static_cast<std::int16_t>(weight * one + (weight < 0.0 ? -0.5 : 0.5));
  });
}

void AxisWeights::reverse_outputs() {
  std::ranges::reverse(starts_);
  std::ranges::reverse(taps_);
  for (std::uint32_t a = 0, b = count_ - 1; a < b; ++a, --b) {
    std::swap_ranges(weights_.begin() + std::ptrdiff_t{a} * stride_,
                     weights_.begin() + std::ptrdiff_t{a + 1} * stride_,
                     weights_.begin() + std::ptrdiff_t{b} * stride_);
  }
}

}  // namespace stoker
