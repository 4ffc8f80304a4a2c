// SPDX-License-Identifier: Apache-2.0
// Question: what does a training image cost over decoding it?
//
// rrc224: RandomResizedCrop(224) + flip + normalise straight from a JPEG of 500 x 375, beside the
// full decode of the same file by the shortest libjpeg-turbo program. `ratio` is the CPU time of
// the full decode divided by ours, in turn on one thread: above 1 the whole transform is cheaper
// than decoding all pixels, because only the crop is decoded. resample: the same without decoding,
// from a region of 340 x 300; there the limit is copying the result.
#include <benchmark/benchmark.h>

#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "bare_decoder.h"
#include "jpeg_samples.h"
#include "paired.h"
#include "vision/image_pipeline.h"
#include "vision/resampler.h"

namespace stoker::bench {
namespace {

constexpr std::uint32_t kSide = 224;

PixelFormat normalised(PixelType type, bool channels_last) {
  PixelFormat format{type, channels_last, 3, {}, {}};
  const std::array<float, 3> mean{0.485F, 0.456F, 0.406F};
  const std::array<float, 3> deviation{0.229F, 0.224F, 0.225F};
  for (std::size_t c = 0; c < 3; ++c) {
    format.scale[c] = 1.0F / (255.0F * deviation[c]);
    format.offset[c] = -mean[c] / deviation[c];
  }
  return format;
}

void rrc224(benchmark::State& state, PixelType type, bool channels_last) {
  constexpr int kPhotos = 16;
  std::vector<std::vector<std::uint8_t>> photos;
  for (unsigned i = 1; i <= kPhotos; ++i) {
    photos.push_back(test::encode_jpeg(test::make_photo(500, 375, 3, i, 4.0), {.quality = 90}));
  }
  const auto steps = std::make_shared<const ImageSteps>(
      ImageSteps{{RandomResizedCropStep{.size = {kSide, kSide}}, FlipStep{}},
                 normalised(type, channels_last)});
  ImagePipeline pipeline(steps);
  std::vector<std::uint8_t> out(steps->format.image_bytes(kSide, kSide));
  std::vector<std::uint8_t> whole(std::size_t{500} * 375 * 3);
  BareDecoder bare;
  std::uint64_t position = 0;
  run_paired(
      state,
      [&] {
        for (const auto& photo : photos) bare.decode(photo, whole.data());
      },
      [&] {
        for (const auto& photo : photos) {
          const std::array<std::uint64_t, 1> key{position++};
          pipeline.run_jpeg(photo, key, {out, {kSide, kSide}});
        }
      });
  state.counters["images"] = kPhotos;
}

/// The kernels on pixels that are in the cache, as they are when they come from the decoder.
void resample(benchmark::State& state, PixelType type) {
  constexpr std::uint32_t kWidth = 340;
  constexpr std::uint32_t kHeight = 300;
  constexpr std::size_t kRows = 8;
  Resample plan{{0, 0, kWidth, kHeight}, {kSide, kSide}, 0, 0, {kSide, kSide}};
  plan.mirrored = true;
  const std::vector<std::uint8_t> rows(kRows * kWidth * 4 + kRowSlack, 100);
  const PixelFormat format = normalised(type, false);
  std::vector<std::uint8_t> out(format.image_bytes(kSide, kSide));
  std::vector<std::uint8_t> copy(out.size());
  Resampler resampler;
  const std::size_t row = kSide * bytes_of(type);
  run_paired(
      state, [&] { std::memcpy(copy.data(), out.data(), out.size()); },
      [&] {
        resampler.start(plan);
        const PixelBox& needed = resampler.needed();
        for (std::size_t y = 0; y < needed.height; y += kRows) {
          resampler.push({rows.data(), kWidth * 4, needed.width,
                          std::min<std::size_t>(kRows, needed.height - y)},
                         y);
        }
        for (std::uint32_t y = 0; y < kSide; ++y) {
          store_row()(format, resampler.row(y), kSide, out.data() + y * row, row * kSide);
        }
      });
}

#define STOKER_VISION_BENCH(kind, name, ...) \
  BENCHMARK_CAPTURE(kind, name, __VA_ARGS__)->UseManualTime()->Unit(benchmark::kMicrosecond)
STOKER_VISION_BENCH(rrc224, float32_chw, PixelType::kFloat32, false);
STOKER_VISION_BENCH(rrc224, bfloat16_chw, PixelType::kBfloat16, false);
STOKER_VISION_BENCH(rrc224, uint8_hwc, PixelType::kUint8, true);
STOKER_VISION_BENCH(resample, float32_chw, PixelType::kFloat32);
STOKER_VISION_BENCH(resample, bfloat16_chw, PixelType::kBfloat16);

}  // namespace
}  // namespace stoker::bench

BENCHMARK_MAIN();
