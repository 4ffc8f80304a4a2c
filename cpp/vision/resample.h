// SPDX-License-Identifier: Apache-2.0
// The two passes of a separable resize over rows of RGBX pixels (4 bytes each, the last unused).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "vision/axis_weights.h"

namespace stoker {

/// Readable bytes that must follow the last pixel of every row given to a kernel: they may load
/// whole vectors of which only a part counts.
constexpr std::size_t kRowSlack = 64;

/// AxisWeights as the horizontal kernel wants them: for every output where it starts, and per group
/// of four taps the weights w0 w1 (four times), w2 w3 (four times).
struct RowFilter {
  const AxisWeights* weights = nullptr;
  std::vector<std::int16_t> expanded;  // `groups` of 16 numbers for each output
  std::vector<std::uint32_t> offsets;  // of each output: bytes from the lowest input to its start
  std::uint32_t groups = 1;            // that the output with the most taps needs
  std::vector<std::uint32_t> used;     // groups that each output needs: more would read too far

  void assign(const AxisWeights& axis);
};

/// Functions that do the same arithmetic to the bit, one set per kind of processor.
struct ResampleKernels {
  const char* name;
  /// One row: `filter.weights->count()` output pixels from `in`, whose pixel 0 is the lowest input
  /// of the axis.
  void (*horizontal)(const RowFilter& filter, const std::uint8_t* in, std::uint8_t* out);
  /// One output row of `bytes` bytes: the weighted sum of `taps` rows. `rows[k]` are readable for
  /// `bytes` + kRowSlack, `out` is writable for that much.
  void (*vertical)(const std::uint8_t* const* rows, const std::int16_t* weights, std::uint32_t taps,
                   unsigned precision, std::size_t bytes, std::uint8_t* out);
};

/// The fastest set that this processor runs. Any thread.
[[nodiscard]] const ResampleKernels& resample_kernels() noexcept;
[[nodiscard]] const ResampleKernels& portable_resample_kernels() noexcept;
/// Null when this processor or build has no AVX2.
[[nodiscard]] const ResampleKernels* avx2_resample_kernels() noexcept;

}  // namespace stoker
