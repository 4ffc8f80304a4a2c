// SPDX-License-Identifier: Apache-2.0
// The one EXIF field that changes pixels.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace stoker {

/// TIFF/EXIF orientation 1..8 (1 = as stored), as PIL.ImageOps.exif_transpose understands them.
enum class Orientation : std::uint8_t {
  kNormal = 1,
  kFlipHorizontal,
  kRotate180,
  kFlipVertical,
  kTranspose,
  kRotate90,
  kTransverse,
  kRotate270
};

/// Orientation from the payload of an APP1 segment ("Exif\0\0" + TIFF). Anything malformed, absent
/// or outside 1..8 is kNormal. Never reads outside `app1`.
[[nodiscard]] Orientation exif_orientation(ByteSpan app1) noexcept;

/// True when width and height swap.
[[nodiscard]] constexpr bool swaps_axes(Orientation o) noexcept {
  return o >= Orientation::kTranspose;
}

}  // namespace stoker
