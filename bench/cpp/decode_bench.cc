// SPDX-License-Identifier: Apache-2.0
// Question: what does decode_jpeg_into cost over the bare libjpeg-turbo loop?
//
// The limit is the shortest libjpeg program: one decompressor and one buffer for all images, RGB
// rows straight into the buffer. `ratio` is its CPU time divided by ours, both taken in turn on one
// thread: 0.97 means that we lose 3 %. Lines named hwc do exactly the limit's work and should be
// 0.97 or more. Lines named chw also separate the channels, and rotated ones turn the image by its
// EXIF orientation, which the limit leaves out. Quick check: --benchmark_min_time=0.01
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bare_decoder.h"
#include "codec/jpeg.h"
#include "jpeg_samples.h"
#include "paired.h"

namespace stoker::bench {
namespace {

void decode(benchmark::State& state, std::uint32_t width, std::uint32_t height, int quality,
            PixelLayout layout, bool rotated) {
  test::EncodeOptions options{.quality = quality};
  if (rotated) {  // EXIF with the one entry "orientation 6"
    options.app1 = {'E',  'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0,
                    0x12, 1,   3,   0,   1, 0, 0,   0,   6,  0, 0, 0, 0, 0, 0, 0};
  }
  const std::vector<std::uint8_t> jpeg =
      test::encode_jpeg(test::make_photo(width, height, 3, 1, 4.0), options);
  const JpegInfo info = probe_jpeg(jpeg);
  std::vector<std::uint8_t> pixels(std::size_t{width} * height * 3);
  const ImageView view{pixels, info.shown_width(), info.shown_height(), layout};
  BareDecoder bare;
  run_paired(
      state, [&] { bare.decode(jpeg, pixels.data()); }, [&] { decode_jpeg_into(jpeg, view); });
  state.counters["jpeg_bytes"] = static_cast<double>(jpeg.size());
}

#define STOKER_DECODE_BENCH(name, ...) \
  BENCHMARK_CAPTURE(decode, name, __VA_ARGS__)->UseManualTime()->Unit(benchmark::kMicrosecond)
STOKER_DECODE_BENCH(500x375_hwc, 500, 375, 90, PixelLayout::kHwc, false);
STOKER_DECODE_BENCH(500x375_chw, 500, 375, 90, PixelLayout::kChw, false);
STOKER_DECODE_BENCH(500x375_chw_rotated, 500, 375, 90, PixelLayout::kChw, true);
STOKER_DECODE_BENCH(256x256_hwc, 256, 256, 95, PixelLayout::kHwc, false);
STOKER_DECODE_BENCH(256x256_chw, 256, 256, 95, PixelLayout::kChw, false);
STOKER_DECODE_BENCH(64x64_hwc, 64, 64, 90, PixelLayout::kHwc, false);
STOKER_DECODE_BENCH(64x64_chw, 64, 64, 90, PixelLayout::kChw, false);

}  // namespace
}  // namespace stoker::bench

BENCHMARK_MAIN();
