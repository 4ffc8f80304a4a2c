// SPDX-License-Identifier: Apache-2.0
// JPEG to RGB through libjpeg-turbo.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "codec/exif.h"

namespace stoker {

struct JpegInfo {
  std::uint32_t width = 0;  // as stored, before orientation
  std::uint32_t height = 0;
  std::uint8_t components = 0;  // 1 gray, 3 YCbCr/RGB, 4 CMYK/YCCK
  bool progressive = false;
  Orientation orientation = Orientation::kNormal;

  /// Size of the image as a viewer shows it.
  [[nodiscard]] std::uint32_t shown_width() const noexcept {
    return swaps_axes(orientation) ? height : width;
  }
  [[nodiscard]] std::uint32_t shown_height() const noexcept {
    return swaps_axes(orientation) ? width : height;
  }
};

enum class PixelLayout : std::uint8_t { kHwc, kChw };

/// Where RGB pixels go: `height` x `width` x 3 bytes in `layout`, no padding. Owned by the caller.
struct ImageView {
  MutableByteSpan pixels;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  PixelLayout layout = PixelLayout::kChw;
};

/// Reads the header only. Throws kCorrupt when it is no JPEG or the header is damaged.
[[nodiscard]] JpegInfo probe_jpeg(ByteSpan jpeg);

/// Decodes to RGB with EXIF orientation applied when `apply_orientation`. Grayscale is repeated to
/// three channels; CMYK/YCCK (Adobe, inverted) is converted as Pillow's convert("RGB") does. Pixels
/// equal libjpeg's defaults (ISLOW, fancy upsampling). `out` must have the shown size, else
/// kInvalidArgument. Throws kCorrupt on damaged data, also when libjpeg only warns that the data
/// ended early: a truncated image is never returned as gray. Reentrant: each call owns its state (a
/// decompressor per thread is reused).
void decode_jpeg_into(ByteSpan jpeg, const ImageView& out, bool apply_orientation = true);

}  // namespace stoker
