// SPDX-License-Identifier: Apache-2.0
// One Resample: rows of source pixels in, rows of the window out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codec/jpeg.h"
#include "vision/axis_weights.h"
#include "vision/image_plan.h"
#include "vision/resample.h"

namespace stoker {

/// start(), then push() every row of needed(), in order, then row() for every output row. Reusable;
/// memory is kept. Not thread-safe.
class Resampler {
 public:
  /// REQUIRES: the plan's boxes are inside their images.
  void start(const Resample& resample);

  /// Source pixels that any output needs, in the coordinates of the image that holds the source.
  /// Width or height 0: nothing is needed, all is border.
  [[nodiscard]] const PixelBox& needed() const noexcept { return needed_; }

  /// Rows `first` ... of needed(), each as wide as needed(). RGBX, kRowSlack readable bytes after
  /// the last pixel.
  void push(const RgbxRows& rows, std::size_t first);

  /// Row y of the window: RGBX pixels, valid until the next call.
  [[nodiscard]] const std::uint8_t* row(std::uint32_t y);

 private:
  /// The part of an axis that is not border: outputs [first, first + count) of the window are
  /// outputs [scaled_first, ...) of the scaled image.
  struct Part {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    std::uint32_t scaled_first = 0;
  };
  [[nodiscard]] static Part part_of(std::int64_t start, std::uint32_t window, std::uint32_t scaled);
  void make_axes(const Resample& resample);
  void copy_row(const std::uint8_t* from, std::uint8_t* to) const;
  [[nodiscard]] std::uint8_t* kept_row(std::size_t y) noexcept {
    return kept_.data() + y * stride_;
  }

  const ResampleKernels* kernels_ = &resample_kernels();
  bool mirrored_ = false;
  bool scales_x_ = false;
  bool scales_y_ = false;
  Part columns_;
  Part rows_;
  PixelBox needed_;
  AxisWeights x_axis_;
  AxisWeights y_axis_;
  RowFilter x_filter_;
  std::size_t stride_ = 0;            // of kept rows, slack included
  std::vector<std::uint8_t> kept_;    // needed rows, horizontally done
  std::vector<std::uint8_t> output_;  // one row of the window
  std::vector<const std::uint8_t*> taps_;
};

}  // namespace stoker
