// SPDX-License-Identifier: Apache-2.0
// What a user asked to be done with every image: steps with their ranges, before any dice are
// thrown. Names and meanings as in torchvision.transforms.v2.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "vision/axis_weights.h"
#include "vision/pixel_store.h"

namespace stoker {

struct ImageSize {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

/// Uniform in [low, high].
struct Range {
  double low = 0.0;
  double high = 0.0;
};

/// A crop of random area and aspect ratio, resized. Ten tries, then the largest centred crop whose
/// ratio is allowed.
struct RandomResizedCropStep {
  ImageSize size = {};
  Range area{0.08, 1.0};       // part of the image
  Range ratio{0.75, 4.0 / 3};  // width / height
  Interpolation interpolation = Interpolation::kBilinear;
};

/// To `size`; or, with `shorter` set, the shorter side to that many pixels, the longer one at most
/// `longest` (0 = any).
struct ResizeStep {
  ImageSize size = {};
  std::uint32_t shorter = 0;
  std::uint32_t longest = 0;
  Interpolation interpolation = Interpolation::kBilinear;
};

/// The middle; black borders where the image is smaller.
struct CenterCropStep {
  ImageSize size = {};
};

/// Anywhere, after black borders of left, top, right, bottom pixels; `pad_if_needed` adds more on
/// both sides of an axis that is still too short.
struct RandomCropStep {
  ImageSize size = {};
  std::array<std::uint32_t, 4> padding{};
  bool pad_if_needed = false;
};

struct FlipStep {
  double probability = 0.5;
};

/// The changes that are set, in random order.
struct ColorJitterStep {
  std::optional<Range> brightness = std::nullopt;
  std::optional<Range> contrast = std::nullopt;
  std::optional<Range> saturation = std::nullopt;
  std::optional<Range> hue = std::nullopt;
};

struct GrayscaleStep {};

using ImageStep = std::variant<RandomResizedCropStep, ResizeStep, CenterCropStep, RandomCropStep,
                               FlipStep, ColorJitterStep, GrayscaleStep>;

/// Steps in order, then the form in which the pixels are stored.
struct ImageSteps {
  std::vector<ImageStep> steps;
  PixelFormat format;
};

}  // namespace stoker
