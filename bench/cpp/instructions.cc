// SPDX-License-Identifier: Apache-2.0
// A fixed amount of work for `valgrind --tool=callgrind --toggle-collect=measured*`: instructions
// do not depend on how busy a machine is, so a test can gate on them.
//
//   instructions decode|rrc IMAGES    500 x 375 quality 90: whole decode by bare libjpeg-turbo, or
//                                     RandomResizedCrop(224), flip and normalise straight from the
//                                     file
//   instructions records ROWS         rows of {int64, double, float32[16]} through the batch
//   engine, in
//                                     order, without threads
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "bare_decoder.h"
#include "base/coding.h"
#include "engine/loader.h"
#include "format/chunk_builder.h"
#include "io/file.h"
#include "jpeg_samples.h"
#include "vision/image_pipeline.h"

using namespace stoker;

namespace {

constexpr std::uint32_t kSide = 224;

std::vector<std::vector<std::uint8_t>> photos(int count) {
  std::vector<std::vector<std::uint8_t>> files;
  for (int i = 1; i <= count; ++i) {
    const auto photo = test::make_photo(500, 375, 3, static_cast<unsigned>(i), 4.0);
    files.push_back(test::encode_jpeg(photo, {.quality = 90}));
  }
  return files;
}

}  // namespace

// Not inlined and with plain names, so that callgrind finds them.
extern "C" {

[[gnu::noinline]] void measured_decode(bench::BareDecoder& decoder,
                                       const std::vector<std::vector<std::uint8_t>>& files,
                                       std::vector<std::uint8_t>& pixels) {
  for (const auto& file : files) decoder.decode(file, pixels.data());
}

[[gnu::noinline]] void measured_rrc(ImagePipeline& pipeline,
                                    const std::vector<std::vector<std::uint8_t>>& files,
                                    std::vector<std::uint8_t>& pixels) {
  std::uint64_t position = 0;
  for (const auto& file : files) {
    const std::array<std::uint64_t, 1> key{position++};
    pipeline.run_jpeg(file, key, {pixels, {kSide, kSide}});
  }
}

[[gnu::noinline]] void measured_records(Loader& loader) {
  Batch batch;
  while (loader.next(std::chrono::milliseconds(1000), &batch) == Loader::Next::kBatch) {
  }
}

}  // extern "C"

namespace {

void decode(int images) {
  const auto files = photos(images);
  bench::BareDecoder decoder;
  std::vector<std::uint8_t> pixels(std::size_t{500} * 375 * 3);
  decoder.decode(files[0], pixels.data());
  measured_decode(decoder, files, pixels);
}

void rrc(int images) {
  const auto files = photos(images);
  auto steps = std::make_shared<ImageSteps>();
  steps->steps = {RandomResizedCropStep{.size = {kSide, kSide}}, FlipStep{}};
  steps->format.type = PixelType::kFloat32;
  std::vector<std::uint8_t> pixels(steps->format.image_bytes(kSide, kSide));
  ImagePipeline pipeline(steps);
  pipeline.run_jpeg(files[0], std::array<std::uint64_t, 1>{0}, {pixels, {kSide, kSide}});
  measured_rrc(pipeline, files, pixels);
}

void records(int rows) {
  constexpr std::array<std::uint32_t, 3> kSizes{8, 8, 64};
  const auto folder = std::filesystem::temp_directory_path() /
                      ("stoker-instructions-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  std::vector<std::uint8_t> item(12 + 80);
  for (std::size_t i = 0; i < kSizes.size(); ++i) store_u32(item.data() + 4 * i, kSizes[i]);
  ChunkBuilder builder({.max_bytes = std::uint64_t{1} << 30, .max_weight = {}});
  for (int i = 0; i < rows; ++i) builder.append(std::array<ByteSpan, 1>{item}, 1);
  const auto header = builder.header();
  const std::array<ByteSpan, 2> parts{header, builder.body()};
  auto table = std::make_shared<ChunkTable>();
  table->directory = folder;
  table->filenames = {"chunk-0-0.bin"};
  table->items = {builder.items()};
  table->raw_bytes = table->file_bytes = {builder.file_bytes()};
  table->checksums = {0};
  table->has_checksum = {0};
  std::FILE* file = std::fopen(table->path(0).c_str(), "wb");
  for (const ByteSpan& part : parts) std::fwrite(part.data(), 1, part.size(), file);
  std::fclose(file);
  auto spec = std::make_shared<BatchSpec>();
  spec->batch_rows = 4096;
  for (const std::uint32_t size : kSizes) {
    Column column;
    column.row_bytes = size;
    spec->columns.push_back(column);
  }
  spec->lay_out();
  const auto count = static_cast<std::uint64_t>(rows);
  LoaderInput input;
  input.dataset = {std::make_shared<ChunkOpener>(table, Verify::kNever), 42, {count}, {}};
  input.intervals = std::make_shared<IntervalSet>(std::vector<Interval>{{0, count}});
  input.slices = {count, 0, 4096, 0, 1, false};
  input.spec = spec;
  Loader loader(input, {.threads = 0});
  measured_records(loader);
  std::filesystem::remove_all(folder);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string work = argc == 3 ? argv[1] : "";
  const int count = argc == 3 ? std::atoi(argv[2]) : 0;
  if (work == "decode" && count > 0) {
    decode(count);
  } else if (work == "rrc" && count > 0) {
    rrc(count);
  } else if (work == "records" && count > 0) {
    records(count);
  } else {
    std::fprintf(stderr, "usage: instructions decode|rrc IMAGES | instructions records ROWS\n");
    return 2;
  }
  return 0;
}
