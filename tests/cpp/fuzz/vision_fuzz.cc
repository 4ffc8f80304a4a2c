// SPDX-License-Identifier: Apache-2.0
// Any bytes through image steps: the first ones choose the steps, the rest is the JPEG. An Error or
// an image, every value of it written, and the same from a region as from the whole image.
#include <algorithm>
#include <array>
#include <memory>

#include "base/error.h"
#include "codec/jpeg.h"
#include "fuzz/seeds.h"
#include "jpeg_samples.h"
#include "vision/image_pipeline.h"

namespace stoker::fuzz {
namespace {

using Pixels = std::vector<std::uint8_t>;
constexpr std::size_t kChoices = 6;
constexpr std::uint64_t kMaxPixels = std::uint64_t{1} << 18;
constexpr std::array<std::uint64_t, 2> kKey{7, 1};

ImageStep step_of(std::uint8_t choice) {
  const ImageSize size{1U + choice / 8, 1U + (choice * 7U) % 40};
  const auto interpolation = static_cast<Interpolation>(choice % 3);
  switch (choice % 8) {
    case 0:
      return RandomResizedCropStep{.size = size, .interpolation = interpolation};
    case 1:
      return ResizeStep{.size = size, .interpolation = interpolation};
    case 2:
      return ResizeStep{.shorter = size.width, .longest = size.width + 40};
    case 3:
      return CenterCropStep{size};
    case 4:
      return RandomCropStep{.size = size, .padding = {choice, 3, 0, choice}, .pad_if_needed = true};
    case 5:
      return FlipStep{1.0};
    case 6:
      return ColorJitterStep{Range{0.1, 3.0}, Range{0.1, 3.0}, Range{0.1, 3.0}, Range{-0.5, 0.5}};
    default:
      return GrayscaleStep{};
  }
}

std::shared_ptr<const ImageSteps> steps_of(ByteSpan choices) {
  auto steps = std::make_shared<ImageSteps>();
  for (const std::uint8_t choice : choices.first(kChoices - 1)) {
    if (choice != 0) steps->steps.push_back(step_of(choice));
  }
  const std::uint8_t form = choices[kChoices - 1];
  steps->format.type = static_cast<PixelType>(form % 4);
  steps->format.channels_last = (form & 4) != 0;
  steps->format.channels = (form & 8) != 0 ? 1 : 3;
  return steps;
}

/// The result, from the file or from its whole decode; `fill` shows what nobody wrote.
template <typename Run>
Pixels run(const ImageSteps& steps, ImageSize size, std::uint8_t fill, const Run& pipeline_run) {
  Pixels out(steps.format.image_bytes(size.width, size.height), fill);
  pipeline_run(ImageTarget{out, size});
  return out;
}

void check(ByteSpan jpeg, const std::shared_ptr<const ImageSteps>& steps) {
  ImagePipeline pipeline(steps);
  const JpegInfo info = probe_jpeg(jpeg);
  const ImageSize whole{info.shown_width(), info.shown_height()};
  if (std::uint64_t{whole.width} * whole.height > kMaxPixels) return;
  const ImageSize size = pipeline.output_size(whole);
  if (std::uint64_t{size.width} * size.height > kMaxPixels) return;
  const Pixels fused = run(*steps, size, 0x00, [&](const ImageTarget& target) {
    pipeline.run_jpeg(jpeg, kKey, target);
  });
  const Pixels again = run(*steps, size, 0xFF, [&](const ImageTarget& target) {
    pipeline.run_jpeg(jpeg, kKey, target);
  });
  require(fused == again);
  Pixels decoded(std::size_t{whole.width} * whole.height * 3);
  decode_jpeg_into(jpeg, {decoded, whole.width, whole.height, PixelLayout::kHwc});
  require(fused == run(*steps, size, 0x55, [&](const ImageTarget& target) {
            pipeline.run_rgb({decoded, whole}, kKey, target);
          }));
}

}  // namespace

std::vector<Seed> make_seeds() {
  std::vector<Seed> seeds;
  for (std::uint8_t i = 0; i < 16; ++i) {
    const Seed jpeg =
        test::encode_jpeg(test::make_photo(20U + i, 31U - i), {.luma_x = 1 + i % 2, .luma_y = 1});
    Seed seed{static_cast<std::uint8_t>(8 * i + 1), static_cast<std::uint8_t>(5 * i), i, 0, 0, i};
    seed.insert(seed.end(), jpeg.begin(), jpeg.end());
    seeds.push_back(seed);
  }
  return seeds;
}

}  // namespace stoker::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fuzz = stoker::fuzz;
  if (size < fuzz::kChoices) return 0;
  const stoker::ByteSpan input(data, size);
  try {
    fuzz::check(input.subspan(fuzz::kChoices), fuzz::steps_of(input));
  } catch (const stoker::Error& error) {
    // Steps and bytes can both be at fault.
    fuzz::require(error.code() == stoker::ErrorCode::kCorrupt ||
                  error.code() == stoker::ErrorCode::kUnsupported ||
                  error.code() == stoker::ErrorCode::kInvalidArgument);
  }
  return 0;
}
