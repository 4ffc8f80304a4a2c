// SPDX-License-Identifier: Apache-2.0
// The filter of one axis of a resize, as integer weights.
#pragma once

#include <cstdint>
#include <vector>

namespace stoker {

enum class Interpolation : std::uint8_t { kNearest, kBilinear, kBicubic };

/// Outputs [first, first + count) of a resize of `in` samples to `out` samples; the rest of the
/// outputs is not wanted (it is cropped away).
struct AxisSpan {
  std::uint32_t in = 0;
  std::uint32_t out = 0;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// Weights of the antialiased filters that Pillow and torch use for 8-bit images: output j is
/// (half + sum of weight(j)[k] * input[start(j) + k]) >> precision, clamped to 0..255. Integers,
/// so every machine gets the same pixels. Reusable: assign() keeps the memory.
class AxisWeights {
 public:
  /// Taps come in groups of this many, zeros at the end, for the kernels.
  static constexpr std::uint32_t kGroup = 4;

  /// REQUIRES: in, out, count > 0 and first + count <= out. `reverse` gives the outputs in reverse
  /// order (a mirrored image).
  void assign(const AxisSpan& span, Interpolation interpolation, bool reverse);

  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] unsigned precision() const noexcept { return precision_; }
  /// First input of output j, and how many weights (without padding) it has.
  [[nodiscard]] std::uint32_t start(std::uint32_t j) const noexcept { return starts_[j]; }
  [[nodiscard]] std::uint32_t taps(std::uint32_t j) const noexcept { return taps_[j]; }
  /// taps(j) weights, then zeros up to stride().
  [[nodiscard]] const std::int16_t* weights(std::uint32_t j) const noexcept {
    return weights_.data() + std::size_t{j} * stride_;
  }
  [[nodiscard]] std::uint32_t stride() const noexcept { return stride_; }

  /// Inputs that any output needs: [lowest(), highest()).
  [[nodiscard]] std::uint32_t lowest() const noexcept { return lowest_; }
  [[nodiscard]] std::uint32_t highest() const noexcept { return highest_; }

 private:
  void assign_nearest(const AxisSpan& span);
  void assign_filter(const AxisSpan& span, Interpolation interpolation);
  void quantise(double largest);
  void reverse_outputs();

  std::uint32_t count_ = 0;
  std::uint32_t stride_ = kGroup;
  unsigned precision_ = 0;
  std::uint32_t lowest_ = 0;
  std::uint32_t highest_ = 0;
  std::vector<std::uint32_t> starts_;
  std::vector<std::uint32_t> taps_;
  std::vector<std::int16_t> weights_;
  std::vector<double> exact_;  // as weights_, before quantise()
};

}  // namespace stoker
