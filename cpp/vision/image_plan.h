// SPDX-License-Identifier: Apache-2.0
// Steps with the dice thrown for one image: which pixels are read, how they are resized, what is
// done to their colours. Pure arithmetic.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "codec/jpeg.h"
#include "vision/colour.h"
#include "vision/image_steps.h"

namespace stoker {

/// Crop, resize and crop again, as one resample: the pixels of `source` are resized to `scaled`,
/// and of that the window [x, x + window.width) x [y, y + window.height) is kept. Where the window
/// passes the edges the result is black.
struct Resample {
  PixelBox source;
  ImageSize scaled;
  std::int64_t x = 0;
  std::int64_t y = 0;
  ImageSize window;
  bool mirrored = false;  // the window, left to right
  Interpolation interpolation = Interpolation::kBilinear;

  [[nodiscard]] bool resizes() const noexcept {
    return source.width != scaled.width || source.height != scaled.height;
  }
  [[nodiscard]] bool padded() const noexcept {
    return x < 0 || y < 0 || x + window.width > scaled.width || y + window.height > scaled.height;
  }
};

/// One resample, then changes of colour.
struct ImageStage {
  Resample resample;
  std::vector<ColourOp> colours;
};

/// Stages in order (at least one); the source of each is the result of the one before.
struct ImagePlan {
  std::vector<ImageStage> stages;
  [[nodiscard]] ImageSize size() const noexcept { return stages.back().resample.window; }
};

/// Throws the dice for an image of `size`. `key` (seed, epoch, position ...) is all they depend on;
/// each step has dice of its own, so a step added at the end changes nothing before it. Throws
/// kInvalidArgument when an image is too small for a random crop, kUnsupported when a side would
/// pass 2^31 pixels.
[[nodiscard]] ImagePlan plan_image(const ImageSteps& steps, ImageSize size,
                                   std::span<const std::uint64_t> key);

}  // namespace stoker
