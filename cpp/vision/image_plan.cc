// SPDX-License-Identifier: Apache-2.0
#include "vision/image_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.h"
#include "plan/rng.h"

namespace stoker {
namespace {

/// Uniform numbers of one step.
class Dice {
 public:
  explicit Dice(std::uint64_t key) noexcept : rng_(key) {}

  /// In [low, high): 53 random bits.
  double uniform(const Range& range) noexcept {
    const double unit = static_cast<double>(rng_.next() >> 11) * 0x1.0p-53;
    return range.low + (range.high - range.low) * unit;
  }
  std::uint32_t below(std::uint64_t bound) noexcept {
    return static_cast<std::uint32_t>(rng_.below(bound));
  }
  void shuffle(std::span<std::uint32_t> values) noexcept { stoker::shuffle(values, rng_); }

 private:
  Rng rng_;
};

std::string text(ImageSize size) {
  return std::to_string(size.width) + " x " + std::to_string(size.height);
}

// To even, as Python's round().
std::int64_t half_of(std::int64_t difference) noexcept {
  return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(difference) / 2.0));
}

class Planner {
 public:
  Planner(ImageSize size, std::span<const std::uint64_t> key) : key_(key.begin(), key.end()) {
    start(size);
  }

  void add(const ImageStep& step, std::uint64_t number) {
    std::vector<std::uint64_t> parts = key_;
    parts.push_back(number);
    Dice dice(derive_key(parts));
    std::visit([&](const auto& one) { apply(one, dice); }, step);
  }

  ImagePlan finish() && { return std::move(plan_); }

 private:
  ImageStage& stage() noexcept { return plan_.stages.back(); }
  Resample& resample() noexcept { return stage().resample; }
  [[nodiscard]] ImageSize now() const noexcept { return plan_.size(); }

  void start(ImageSize size) {
    plan_.stages.push_back({Resample{{0, 0, size.width, size.height}, size, 0, 0, size}, {}});
  }
  /// Geometry after colours needs a stage of its own.
  void need_geometry() {
    if (!stage().colours.empty()) start(now());
  }

  /// Keeps a window of the present image; it may pass the edges.
  void crop(std::int64_t x, std::int64_t y, ImageSize size) {
    need_geometry();
    const bool outside =
        x < 0 || y < 0 || x + size.width > now().width || y + size.height > now().height;
    // What a crop has cut away must not come back at the borders of a later one.
    if (outside && (resample().resizes() || resample().padded())) start(now());
    Resample& r = resample();
    // What lies left in a mirrored image lies right in the one it is made from.
    r.x += r.mirrored ? std::int64_t{r.window.width} - x - size.width : x;
    r.y += y;
    r.window = size;
    if (r.resizes() || r.padded()) return;
    r.source.x += static_cast<std::uint32_t>(r.x);
    r.source.y += static_cast<std::uint32_t>(r.y);
    r.source.width = r.scaled.width = size.width;
    r.source.height = r.scaled.height = size.height;
    r.x = r.y = 0;
  }

  void resize(ImageSize size, Interpolation interpolation) {
    if (size == now()) return;
    need_geometry();
    // The nearest pixel is not symmetrical: which one is taken depends on the side one counts from.
    const bool mirrored_nearest = resample().mirrored && interpolation == Interpolation::kNearest;
    if (resample().resizes() || resample().padded() || mirrored_nearest) start(now());
    resample().scaled = resample().window = size;
    resample().interpolation = interpolation;
  }

  void apply(const RandomResizedCropStep& step, Dice& dice) {
    const PixelBox box = random_box(step, dice);
    crop(box.x, box.y, {box.width, box.height});
    resize(step.size, step.interpolation);
  }

  PixelBox random_box(const RandomResizedCropStep& step, Dice& dice) const {
    constexpr int kTries = 10;
    const auto [width, height] = now();
    const double area = static_cast<double>(width) * static_cast<double>(height);
    const Range log_ratio{std::log(step.ratio.low), std::log(step.ratio.high)};
    for (int i = 0; i < kTries; ++i) {
      const double wanted = area * dice.uniform(step.area);
      const double ratio = std::exp(dice.uniform(log_ratio));
      const double w = std::nearbyint(std::sqrt(wanted * ratio));
      const double h = std::nearbyint(std::sqrt(wanted / ratio));
      if (w < 1 || h < 1 || w > width || h > height) continue;
      const auto box_w = static_cast<std::uint32_t>(w);
      const auto box_h = static_cast<std::uint32_t>(h);
      const std::uint32_t y = dice.below(std::uint64_t{height} - box_h + 1);
      const std::uint32_t x = dice.below(std::uint64_t{width} - box_w + 1);
      return {x, y, box_w, box_h};
    }
    return centred_box(step.ratio);
  }

  [[nodiscard]] PixelBox centred_box(const Range& ratio) const {
    const auto [width, height] = now();
    const double shape = static_cast<double>(width) / height;
    std::uint32_t w = width;
    std::uint32_t h = height;
    if (shape < ratio.low) {
      h = static_cast<std::uint32_t>(std::nearbyint(width / ratio.low));
    } else if (shape > ratio.high) {
      w = static_cast<std::uint32_t>(std::nearbyint(height * ratio.high));
    }
    w = std::clamp(w, 1U, width);
    h = std::clamp(h, 1U, height);
    return {(width - w) / 2, (height - h) / 2, w, h};
  }

  void apply(const ResizeStep& step, Dice& /*dice*/) {
    resize(step.shorter == 0 ? step.size : scaled_size(step), step.interpolation);
  }

  [[nodiscard]] ImageSize scaled_size(const ResizeStep& step) const {
    const auto [width, height] = now();
    const bool wide = width > height;
    const std::uint64_t low = wide ? height : width;
    const std::uint64_t high = wide ? width : height;
    std::uint64_t shorter = step.shorter;
    std::uint64_t longer = shorter * high / low;
    if (step.longest != 0 && longer > step.longest) {
      shorter = std::max<std::uint64_t>(step.longest * shorter / longer, 1);
      longer = step.longest;
    }
    if (longer > INT32_MAX) {
      throw Error(ErrorCode::kUnsupported, "resizing an image of " + text(now()) +
                                               " to a shorter side of " +
                                               std::to_string(step.shorter) + " is too large");
    }
    const auto small = static_cast<std::uint32_t>(shorter);
    const auto large = static_cast<std::uint32_t>(longer);
    return wide ? ImageSize{large, small} : ImageSize{small, large};
  }

  void apply(const CenterCropStep& step, Dice& /*dice*/) {
    const auto [width, height] = now();
    const auto start_of = [](std::uint32_t whole, std::uint32_t part) -> std::int64_t {
      if (whole < part) return -(std::int64_t{part} - whole) / 2;
      return half_of(std::int64_t{whole} - part);
    };
    crop(start_of(width, step.size.width), start_of(height, step.size.height), step.size);
  }

  void apply(const RandomCropStep& step, Dice& dice) {
    const auto [left, top, right, bottom] = step.padding;
    std::int64_t x = -std::int64_t{left};
    std::int64_t y = -std::int64_t{top};
    std::int64_t width = std::int64_t{now().width} + left + right;
    std::int64_t height = std::int64_t{now().height} + top + bottom;
    const auto extend = [&](std::int64_t& start, std::int64_t& length, std::uint32_t wanted) {
      if (!step.pad_if_needed || length >= wanted) return;
      const std::int64_t missing = wanted - length;  // on each side
      start -= missing;
      length += 2 * missing;
    };
    extend(x, width, step.size.width);
    extend(y, height, step.size.height);
    if (width < step.size.width || height < step.size.height) {
      throw Error(ErrorCode::kInvalidArgument,
                  "RandomCrop to " + text(step.size) + " (width x height): the image has " +
                      text(now()) +
                      " pixels. Use pad_if_needed=True, padding, or a Resize before it");
    }
    y += dice.below(static_cast<std::uint64_t>(height - step.size.height) + 1);
    x += dice.below(static_cast<std::uint64_t>(width - step.size.width) + 1);
    crop(x, y, step.size);
  }

  void apply(const FlipStep& step, Dice& dice) {
    if (dice.uniform({0.0, 1.0}) >= step.probability) return;
    resample().mirrored = !resample().mirrored;  // whatever its colours: they are pixel by pixel
  }

  void apply(const ColorJitterStep& step, Dice& dice) {
    std::array<std::uint32_t, 4> order{0, 1, 2, 3};
    dice.shuffle(order);
    const std::array<std::pair<const std::optional<Range>&, ColourChange>, 4> changes{{
        {step.brightness, ColourChange::kBrightness},
        {step.contrast, ColourChange::kContrast},
        {step.saturation, ColourChange::kSaturation},
        {step.hue, ColourChange::kHue},
    }};
    std::array<float, 4> amounts{};
    for (std::size_t i = 0; i < amounts.size(); ++i) {
      if (changes[i].first) amounts[i] = static_cast<float>(dice.uniform(*changes[i].first));
    }
    for (const std::uint32_t i : order) {
      if (changes[i].first) stage().colours.push_back({changes[i].second, amounts[i]});
    }
  }

  void apply(const GrayscaleStep& /*step*/, Dice& /*dice*/) {
    stage().colours.push_back({ColourChange::kGrey, 1.0F});
  }

  std::vector<std::uint64_t> key_;
  ImagePlan plan_;
};

}  // namespace

ImagePlan plan_image(const ImageSteps& steps, ImageSize size, std::span<const std::uint64_t> key) {
  Planner planner(size, key);
  std::uint64_t number = 0;
  for (const ImageStep& step : steps.steps) planner.add(step, number++);
  return std::move(planner).finish();
}

}  // namespace stoker
