// SPDX-License-Identifier: Apache-2.0
// The limit of JPEG decoding: the shortest libjpeg-turbo program.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>  // jpeglib.h needs it and does not include it
// clang-format off
#include <jpeglib.h>
// clang-format on

#include "base/bytes.h"

namespace stoker::bench {

/// One decompressor for all images, packed RGB rows straight into the buffer.
class BareDecoder {
 public:
  BareDecoder() {
    cinfo_.err = jpeg_std_error(&errors_);
    jpeg_create_decompress(&cinfo_);
  }
  ~BareDecoder() { jpeg_destroy_decompress(&cinfo_); }
  BareDecoder(const BareDecoder&) = delete;
  BareDecoder& operator=(const BareDecoder&) = delete;

  void decode(ByteSpan jpeg, std::uint8_t* out) {
    constexpr JDIMENSION kRows = 8;
    jpeg_mem_src(&cinfo_, jpeg.data(), jpeg.size());
    jpeg_read_header(&cinfo_, TRUE);
    cinfo_.out_color_space = JCS_RGB;
    jpeg_start_decompress(&cinfo_);
    const std::size_t stride = std::size_t{cinfo_.output_width} * 3;
    JSAMPROW rows[kRows];
    while (cinfo_.output_scanline < cinfo_.output_height) {
      const JDIMENSION first = cinfo_.output_scanline;
      const JDIMENSION count = std::min(kRows, cinfo_.output_height - first);
      for (JDIMENSION i = 0; i < count; ++i) rows[i] = out + stride * (first + i);
      jpeg_read_scanlines(&cinfo_, rows, count);
    }
    jpeg_finish_decompress(&cinfo_);
  }

 private:
  jpeg_decompress_struct cinfo_{};
  jpeg_error_mgr errors_{};
};

}  // namespace stoker::bench
