// SPDX-License-Identifier: Apache-2.0
#include "vision/resampler.h"

#include <algorithm>
#include <cstring>

namespace stoker {
namespace {

constexpr std::size_t kPixel = 4;

}  // namespace

Resampler::Part Resampler::part_of(std::int64_t start, std::uint32_t window, std::uint32_t scaled) {
  const std::int64_t begin = std::clamp<std::int64_t>(start, 0, scaled);
  const std::int64_t end = std::clamp<std::int64_t>(start + window, 0, scaled);
  if (begin >= end) return {};
  return {static_cast<std::uint32_t>(begin - start), static_cast<std::uint32_t>(end - begin),
          static_cast<std::uint32_t>(begin)};
}

void Resampler::start(const Resample& resample) {
  mirrored_ = resample.mirrored;
  const ImageSize& window = resample.window;
  columns_ = part_of(resample.x, window.width, resample.scaled.width);
  rows_ = part_of(resample.y, window.height, resample.scaled.height);
  if (mirrored_) columns_.first = window.width - columns_.first - columns_.count;
  stride_ = columns_.count * kPixel + kRowSlack;
  output_.assign(window.width * kPixel + kRowSlack, 0);
  needed_ = {resample.source.x, resample.source.y, 0, 0};
  if (columns_.count == 0 || rows_.count == 0) {
    columns_.count = rows_.count = 0;
    return;
  }
  make_axes(resample);
  kept_.resize(needed_.height * stride_ + kRowSlack);
}

void Resampler::make_axes(const Resample& resample) {
  const PixelBox& source = resample.source;
  scales_x_ = source.width != resample.scaled.width;
  scales_y_ = source.height != resample.scaled.height;
  needed_.x += columns_.scaled_first;
  needed_.width = columns_.count;
  needed_.y += rows_.scaled_first;
  needed_.height = rows_.count;
  if (scales_x_) {
    x_axis_.assign({source.width, resample.scaled.width, columns_.scaled_first, columns_.count},
                   resample.interpolation, mirrored_);
    x_filter_.assign(x_axis_);
    needed_.x = source.x + x_axis_.lowest();
    needed_.width = x_axis_.highest() - x_axis_.lowest();
  }
  if (scales_y_) {
    y_axis_.assign({source.height, resample.scaled.height, rows_.scaled_first, rows_.count},
                   resample.interpolation, /*reverse=*/false);
    needed_.y = source.y + y_axis_.lowest();
    needed_.height = y_axis_.highest() - y_axis_.lowest();
  }
}

void Resampler::push(const RgbxRows& rows, std::size_t first) {
  for (std::size_t y = 0; y < rows.count; ++y) {
    const std::uint8_t* from = rows.pixels + y * rows.stride;
    std::uint8_t* to = kept_row(first + y);
    if (scales_x_) {
      kernels_->horizontal(x_filter_, from, to);
    } else {
      copy_row(from, to);
    }
  }
}

void Resampler::copy_row(const std::uint8_t* from, std::uint8_t* to) const {
  if (!mirrored_) {
    std::memcpy(to, from, columns_.count * kPixel);
    return;
  }
  from += std::size_t{columns_.count - 1} * kPixel;
  for (std::uint32_t x = 0; x < columns_.count; ++x, from -= kPixel, to += kPixel) {
    std::memcpy(to, from, kPixel);
  }
}

const std::uint8_t* Resampler::row(std::uint32_t y) {
  const std::size_t bytes = columns_.count * kPixel;
  std::uint8_t* inside = output_.data() + columns_.first * kPixel;
  if (y < rows_.first || y >= rows_.first + rows_.count) {
    std::memset(inside, 0, bytes);
    return output_.data();
  }
  const std::uint32_t j = y - rows_.first;
  const bool bordered = output_.size() != bytes + kRowSlack;
  if (!scales_y_) {
    if (!bordered) return kept_row(j);
    std::memcpy(inside, kept_row(j), bytes);
    return output_.data();
  }
  const std::uint32_t first = y_axis_.start(j) - y_axis_.lowest();
  const std::uint32_t taps = y_axis_.taps(j);
  taps_.resize(taps);
  for (std::uint32_t k = 0; k < taps; ++k) taps_[k] = kept_row(first + k);
  kernels_->vertical(taps_.data(), y_axis_.weights(j), taps, y_axis_.precision(), bytes, inside);
  if (bordered) std::memset(inside + bytes, 0, output_.size() - columns_.first * kPixel - bytes);
  return output_.data();
}

}  // namespace stoker
