// SPDX-License-Identifier: Apache-2.0
#include "vision/image_pipeline.h"

#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "codec/jpeg.h"
#include "vision/resampler.h"

namespace stoker {
namespace {

constexpr std::size_t kPixel = 4;
constexpr std::size_t kRgbPixel = 3;

std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

[[noreturn]] void throw_invalid(const std::string& problem) {
  throw Error(ErrorCode::kInvalidArgument, problem);
}

void check_range(const Range& range, double low, double high, const char* name) {
  if (range.low >= low && range.low <= range.high && range.high <= high) return;
  throw_invalid(std::string(name) + " from " + std::to_string(range.low) + " to " +
                std::to_string(range.high) + " is no range inside " + std::to_string(low) + " to " +
                std::to_string(high));
}

struct StepChecks {
  static constexpr double kHuge = 1e9;

  static void size(ImageSize size) {
    constexpr std::uint32_t kMost = 1U << 20;
    if (size.width > 0 && size.height > 0 && size.width <= kMost && size.height <= kMost) return;
    throw_invalid("an image of " + std::to_string(size.width) + " x " +
                  std::to_string(size.height) + " pixels is impossible");
  }
  void operator()(const RandomResizedCropStep& step) const {
    size(step.size);
    check_range(step.area, 1e-9, 1.0, "scale");
    check_range(step.ratio, 1e-6, 1e6, "ratio");
  }
  void operator()(const ResizeStep& step) const {
    step.shorter == 0 ? size(step.size) : size({step.shorter, step.shorter});
  }
  void operator()(const CenterCropStep& step) const { size(step.size); }
  void operator()(const RandomCropStep& step) const { size(step.size); }
  void operator()(const FlipStep& step) const {
    check_range({step.probability, step.probability}, 0.0, 1.0, "p");
  }
  void operator()(const ColorJitterStep& step) const {
    if (step.brightness) check_range(*step.brightness, 0.0, kHuge, "brightness");
    if (step.contrast) check_range(*step.contrast, 0.0, kHuge, "contrast");
    if (step.saturation) check_range(*step.saturation, 0.0, kHuge, "saturation");
    if (step.hue) check_range(*step.hue, -0.5, 0.5, "hue");
  }
  void operator()(const GrayscaleStep& /*step*/) const {}
};

}  // namespace

class ImagePipeline::Impl {
 public:
  explicit Impl(std::shared_ptr<const ImageSteps> steps) : steps_(std::move(steps)) {
    for (const ImageStep& step : steps_->steps) std::visit(StepChecks{}, step);
  }

  [[nodiscard]] ImageSize output_size(ImageSize input) const {
    const std::array<std::uint64_t, 1> any{0};
    return plan_image(*steps_, input, any).size();
  }

  void run_jpeg(ByteSpan jpeg, std::span<const std::uint64_t> key, const ImageTarget& target) {
    times_ = {};
    began_ = now_ns();
    JpegImage image(jpeg);
    const JpegInfo& info = image.info();
    prepare({info.shown_width(), info.shown_height()}, key, target);
    if (is_plain()) {  // the decoder writes the pixels where they belong
      image.decode_into({target.pixels, target.size.width, target.size.height,
                         steps_->format.channels_last ? PixelLayout::kHwc : PixelLayout::kChw});
      times_.decode = now_ns() - began_;
      return;
    }
    resampler_.start(plan_.stages.front().resample);
    if (info.orientation == Orientation::kNormal) {
      const PixelBox& needed = resampler_.needed();
      if (needed.width > 0) {
        image.decode_region(
            needed, [this](const RgbxRows& rows, std::size_t first) { push_decoded(rows, first); });
      }
    } else {
      Tile& tile = tiles_[1];
      tile.reset({info.shown_width(), info.shown_height()});
      image.decode_into({tile.packed(), tile.size.width, tile.size.height, PixelLayout::kRgbx});
      push_tile(tile);
    }
    times_.decode += now_ns() - began_;
    times_.decode -= times_.resample;
    finish(target);
  }

  void run_rgb(const RgbImage& image, std::span<const std::uint64_t> key,
               const ImageTarget& target) {
    times_ = {};
    began_ = now_ns();
    const ImageSize size = image.size;
    if (size.width == 0 || size.height == 0 ||
        image.pixels.size() != std::size_t{size.width} * size.height * kRgbPixel) {
      throw_invalid("the image holds " + std::to_string(image.pixels.size()) + " bytes, not " +
                    std::to_string(size.height) + " x " + std::to_string(size.width) + " x 3");
    }
    prepare(size, key, target);
    resampler_.start(plan_.stages.front().resample);
    Tile& tile = tiles_[1];
    tile.reset(size);
    const std::uint8_t* from = image.pixels.data();
    std::uint8_t* to = tile.pixels.data();
    for (std::size_t i = 0; i < std::size_t{size.width} * size.height; ++i) {
      std::memcpy(to + kPixel * i, from + kRgbPixel * i, kRgbPixel);
    }
    push_tile(tile);
    finish(target);
  }

  [[nodiscard]] const ImageTimes& times() const noexcept { return times_; }

 private:
  /// A whole RGBX image, rows packed, slack at the end.
  struct Tile {
    ImageSize size;
    std::vector<std::uint8_t> pixels;

    void reset(ImageSize wanted) {
      size = wanted;
      pixels.resize(std::size_t{size.width} * size.height * kPixel + kRowSlack);
    }
    [[nodiscard]] std::size_t stride() const noexcept { return size.width * kPixel; }
    [[nodiscard]] MutableByteSpan packed() noexcept {
      return MutableByteSpan(pixels).first(stride() * size.height);
    }
  };

  void prepare(ImageSize input, std::span<const std::uint64_t> key, const ImageTarget& target) {
    plan_ = plan_image(*steps_, input, key);
    whole_ = {0, 0, input.width, input.height};
    const ImageSize size = plan_.size();
    if (size != target.size) {
      throw_invalid("the image has " + std::to_string(size.height) + " x " +
                    std::to_string(size.width) + " pixels (height x width), expected " +
                    std::to_string(target.size.height) + " x " + std::to_string(target.size.width));
    }
    if (target.pixels.size() != steps_->format.image_bytes(size.width, size.height)) {
      throw_invalid("the target of the image has " + std::to_string(target.pixels.size()) +
                    " bytes");
    }
  }

  /// The whole image as it is, in bytes.
  [[nodiscard]] bool is_plain() const noexcept {
    const ImageStage& stage = plan_.stages.front();
    const Resample& resample = stage.resample;
    return plan_.stages.size() == 1 && stage.colours.empty() && !resample.mirrored &&
           !resample.resizes() && !resample.padded() && resample.source == whole_ &&
           steps_->format.type == PixelType::kUint8 && steps_->format.channels == 3;
  }

  void push_decoded(const RgbxRows& rows, std::size_t first) {
    const std::uint64_t start = now_ns();
    resampler_.push(rows, first);
    times_.resample += now_ns() - start;
  }

  void push_tile(const Tile& tile) {
    const PixelBox& box = resampler_.needed();
    if (box.width == 0) return;
    const std::uint8_t* first = tile.pixels.data() + box.y * tile.stride() + box.x * kPixel;
    resampler_.push({first, tile.stride(), box.width, box.height}, 0);
  }

  /// Everything after the first resample has its pixels.
  void finish(const ImageTarget& target) {
    const std::uint64_t start = now_ns();
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
      const ImageStage& stage = plan_.stages[i];
      if (i > 0) {
        resampler_.start(stage.resample);
        push_tile(tiles_[0]);
      }
      const bool last = i + 1 == plan_.stages.size();
      if (last && stage.colours.empty()) {
        store(target, [this](std::uint32_t y) { return resampler_.row(y); });
        break;
      }
      Tile& tile = tiles_[0];
      tile.reset(stage.resample.window);
      for (std::uint32_t y = 0; y < tile.size.height; ++y) {
        std::memcpy(tile.pixels.data() + y * tile.stride(), resampler_.row(y), tile.stride());
      }
      for (const ColourOp& op : stage.colours) {
        apply_colour(op, {tile.pixels.data(), tile.stride(), tile.size.width, tile.size.height});
      }
      if (last) {
        store(target, [&tile](std::uint32_t y) { return tile.pixels.data() + y * tile.stride(); });
      }
    }
    times_.resample += now_ns() - start;
  }

  template <typename RowOf>
  void store(const ImageTarget& target, const RowOf& row_of) {
    const PixelFormat& format = steps_->format;
    const auto [width, height] = target.size;
    const std::size_t row =
        std::size_t{width} * bytes_of(format.type) * (format.channels_last ? format.channels : 1);
    for (std::uint32_t y = 0; y < height; ++y) {
      store_(format, row_of(y), width, target.pixels.data() + y * row, row * height);
    }
  }

  std::shared_ptr<const ImageSteps> steps_;
  StoreRow store_ = store_row();
  ImagePlan plan_;
  PixelBox whole_;
  Resampler resampler_;
  std::array<Tile, 2> tiles_;  // between stages; a decoded or given image
  ImageTimes times_;
  std::uint64_t began_ = 0;
};

ImagePipeline::ImagePipeline(std::shared_ptr<const ImageSteps> steps)
    : impl_(std::make_unique<Impl>(std::move(steps))) {}
ImagePipeline::~ImagePipeline() = default;
ImagePipeline::ImagePipeline(ImagePipeline&&) noexcept = default;
ImagePipeline& ImagePipeline::operator=(ImagePipeline&&) noexcept = default;

ImageSize ImagePipeline::output_size(ImageSize input) const { return impl_->output_size(input); }

void ImagePipeline::run_jpeg(ByteSpan jpeg, std::span<const std::uint64_t> key,
                             const ImageTarget& target) {
  impl_->run_jpeg(jpeg, key, target);
}

void ImagePipeline::run_rgb(const RgbImage& image, std::span<const std::uint64_t> key,
                            const ImageTarget& target) {
  impl_->run_rgb(image, key, target);
}

const ImageTimes& ImagePipeline::times() const noexcept { return impl_->times(); }

}  // namespace stoker
