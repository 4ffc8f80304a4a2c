// SPDX-License-Identifier: Apache-2.0
// JPEG to RGB through libjpeg-turbo.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

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

/// kRgbx: as kHwc with a fourth byte per pixel, of any value.
enum class PixelLayout : std::uint8_t { kHwc, kChw, kRgbx };

/// Where RGB pixels go: `height` x `width` x 3 bytes (kRgbx: 4) in `layout`, no padding. Owned by
/// the caller.
struct ImageView {
  MutableByteSpan pixels;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  PixelLayout layout = PixelLayout::kChw;
};

/// Pixels [x, x + width) x [y, y + height).
struct PixelBox {
  std::uint32_t x = 0;
  std::uint32_t y = 0;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  friend bool operator==(const PixelBox&, const PixelBox&) = default;
};

/// Rows of RGBX pixels (4 bytes each, the last of any value), `stride` bytes apart.
struct RgbxRows {
  const std::uint8_t* pixels;
  std::size_t stride;
  std::size_t width;
  std::size_t count;
};

/// Takes the next rows of a region, the first of them row `first` of the region. The pixels are
/// gone after the call. At least kRegionSlack bytes after the last pixel are readable.
using RowSink = std::function<void(const RgbxRows& rows, std::size_t first)>;
constexpr std::size_t kRegionSlack = 64;

/// One JPEG between its header and its pixels. Uses the decompressor of the calling thread: at most
/// one lives per thread at a time, and it stays on its thread. `jpeg` must outlive it. After an
/// error, or one decode, it is of no further use.
class JpegImage {
 public:
  /// Reads the header. Throws as probe_jpeg does.
  explicit JpegImage(ByteSpan jpeg);
  ~JpegImage();
  JpegImage(const JpegImage&) = delete;
  JpegImage& operator=(const JpegImage&) = delete;

  [[nodiscard]] const JpegInfo& info() const noexcept { return info_; }

  /// As decode_jpeg_into.
  void decode_into(const ImageView& out, bool apply_orientation = true);

  /// Decodes the pixels of `box`, in coordinates as stored (before orientation), and no more than
  /// that needs: the same values as a full decode has there. Rows after the box are not read, so
  /// damage there stays unnoticed. Throws kInvalidArgument for an empty box or one that passes the
  /// edges, else as decode_jpeg_into.
  void decode_region(const PixelBox& box, const RowSink& sink);

 private:
  JpegInfo info_;
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
