// SPDX-License-Identifier: Apache-2.0
// Images for tests and benchmarks: made here, encoded with libjpeg, decoded by its plainest loop.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>  // jpeglib.h needs it and does not include it
#include <cstdlib>
#include <random>
#include <vector>
// clang-format off
#include <jpeglib.h>
// clang-format on

#include "base/bytes.h"

namespace stoker::test {

/// Interleaved pixels, `channels` bytes each.
struct Raster {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  int channels = 3;
  std::vector<std::uint8_t> bytes;

  [[nodiscard]] std::uint8_t at(std::size_t x, std::size_t y, std::size_t channel) const {
    return bytes[(y * width + x) * static_cast<std::size_t>(channels) + channel];
  }
};

/// Smooth gradients, edges and grain: compresses about as photographs do.
inline Raster make_photo(std::uint32_t width, std::uint32_t height, int channels = 3,
                         unsigned seed = 1, double grain = 8) {
  Raster image{width, height, channels, {}};
  image.bytes.reserve(std::size_t{width} * height * static_cast<std::size_t>(channels));
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(0, grain);
  for (std::uint32_t y = 0; y < height; ++y) {
    for (std::uint32_t x = 0; x < width; ++x) {
      const double edge = (x / 37 + y / 29) % 3 == 0 ? 40 : 0;
      const double shared = edge + noise(random);
      for (int c = 0; c < channels; ++c) {
        const double wave = 60 * std::sin(0.021 * x * (c + 1) + seed) * std::cos(0.017 * y + c);
        const double value = 110 + wave + shared + 25 * c;
        image.bytes.push_back(static_cast<std::uint8_t>(std::fmin(255, std::fmax(0, value))));
      }
    }
  }
  return image;
}

inline Raster make_flat(std::uint32_t width, std::uint32_t height,
                        const std::vector<std::uint8_t>& pixel) {
  Raster image{width, height, static_cast<int>(pixel.size()), {}};
  for (std::size_t i = 0; i < std::size_t{width} * height; ++i) {
    image.bytes.insert(image.bytes.end(), pixel.begin(), pixel.end());
  }
  return image;
}

struct EncodeOptions {
  J_COLOR_SPACE raster = JCS_RGB;    // what the bytes are
  J_COLOR_SPACE stored = JCS_YCbCr;  // what the file holds
  int quality = 90;
  int luma_x = 2;  // sampling factors of the first component: 2, 2 is 4:2:0
  int luma_y = 2;
  bool progressive = false;
  bool arithmetic = false;
  bool own_tables = false;  // optimal Huffman tables instead of the standard ones
  int restart_rows = 0;
  std::vector<std::uint8_t> app1 = {};  // written as an APP1 segment when not empty
};

/// A JPEG file. A libjpeg error ends the process: these are the test's own inputs.
inline std::vector<std::uint8_t> encode_jpeg(const Raster& image, const EncodeOptions& options) {
  jpeg_compress_struct cinfo{};
  jpeg_error_mgr errors{};
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_compress(&cinfo);
  unsigned char* out = nullptr;
  unsigned long out_size = 0;
  jpeg_mem_dest(&cinfo, &out, &out_size);
  cinfo.image_width = image.width;
  cinfo.image_height = image.height;
  cinfo.input_components = image.channels;
  cinfo.in_color_space = options.raster;
  jpeg_set_defaults(&cinfo);
  jpeg_set_colorspace(&cinfo, options.stored);
  jpeg_set_quality(&cinfo, options.quality, TRUE);
  cinfo.comp_info[0].h_samp_factor = options.luma_x;
  cinfo.comp_info[0].v_samp_factor = options.luma_y;
  cinfo.optimize_coding = options.own_tables ? TRUE : FALSE;
  cinfo.arith_code = options.arithmetic ? TRUE : FALSE;
  cinfo.restart_in_rows = options.restart_rows;
  if (options.progressive) jpeg_simple_progression(&cinfo);
  jpeg_start_compress(&cinfo, TRUE);
  if (!options.app1.empty()) {
    jpeg_write_marker(&cinfo, JPEG_APP0 + 1, options.app1.data(),
                      static_cast<unsigned>(options.app1.size()));
  }
  const std::size_t stride = std::size_t{image.width} * static_cast<std::size_t>(image.channels);
  while (cinfo.next_scanline < cinfo.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(image.bytes.data() + stride * cinfo.next_scanline);
    jpeg_write_scanlines(&cinfo, &row, 1);
  }
  jpeg_finish_compress(&cinfo);
  jpeg_destroy_compress(&cinfo);
  std::vector<std::uint8_t> file(out, out + out_size);
  std::free(out);
  return file;
}

/// libjpeg with nothing of ours around it and no reuse: what the pixels should be. For whole files.
inline Raster plain_decode(ByteSpan jpeg, J_COLOR_SPACE colors = JCS_RGB) {
  jpeg_decompress_struct cinfo{};
  jpeg_error_mgr errors{};
  cinfo.err = jpeg_std_error(&errors);
  errors.emit_message = [](j_common_ptr, int) {};
  jpeg_create_decompress(&cinfo);
  jpeg_mem_src(&cinfo, jpeg.data(), jpeg.size());
  jpeg_read_header(&cinfo, TRUE);
  cinfo.out_color_space = colors;
  jpeg_start_decompress(&cinfo);
  Raster image{cinfo.output_width, cinfo.output_height, cinfo.output_components, {}};
  const std::size_t stride = std::size_t{image.width} * static_cast<std::size_t>(image.channels);
  image.bytes.resize(stride * image.height);
  while (cinfo.output_scanline < cinfo.output_height) {
    JSAMPROW row = image.bytes.data() + stride * cinfo.output_scanline;
    jpeg_read_scanlines(&cinfo, &row, 1);
  }
  jpeg_finish_decompress(&cinfo);
  jpeg_destroy_decompress(&cinfo);
  return image;
}

}  // namespace stoker::test
