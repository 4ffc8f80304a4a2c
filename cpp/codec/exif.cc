// SPDX-License-Identifier: Apache-2.0
#include "codec/exif.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace stoker {
namespace {

constexpr std::string_view kExifPrefix{"Exif\0\0", 6};
constexpr std::size_t kTiffHeaderSize = 8;  // byte order, 42, offset of the first directory
constexpr std::size_t kEntrySize = 12;      // tag, type, count, value or offset
constexpr std::uint32_t kTiffMagic = 42;
constexpr std::uint32_t kOrientationTag = 0x0112;
constexpr std::uint32_t kTypeShort = 3;
constexpr std::uint32_t kTypeLong = 4;

// Numbers of either byte order; a read outside the bytes is the caller's mistake.
class TiffBytes {
 public:
  TiffBytes(ByteSpan bytes, bool big_endian) noexcept : bytes_(bytes), big_endian_(big_endian) {}

  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] std::uint32_t u16(std::size_t at) const noexcept { return number(at, 2); }
  [[nodiscard]] std::uint32_t u32(std::size_t at) const noexcept { return number(at, 4); }

 private:
  [[nodiscard]] std::uint32_t number(std::size_t at, std::size_t width) const noexcept {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < width; ++i) {
      value = (value << 8) | bytes_[at + (big_endian_ ? i : width - 1 - i)];
    }
    return value;
  }

  ByteSpan bytes_;
  bool big_endian_;
};

Orientation orientation_from_entry(const TiffBytes& tiff, std::size_t entry) noexcept {
  const std::uint32_t type = tiff.u16(entry + 2);
  const bool known_type = type == kTypeShort || type == kTypeLong;
  if (!known_type || tiff.u32(entry + 4) != 1) return Orientation::kNormal;
  const std::uint32_t value = type == kTypeShort ? tiff.u16(entry + 8) : tiff.u32(entry + 8);
  return value >= 1 && value <= 8 ? static_cast<Orientation>(value) : Orientation::kNormal;
}

}  // namespace

Orientation exif_orientation(ByteSpan app1) noexcept {
  if (app1.size() < kExifPrefix.size() + kTiffHeaderSize ||
      !std::ranges::equal(app1.first(kExifPrefix.size()), as_bytes(kExifPrefix))) {
    return Orientation::kNormal;
  }
  const ByteSpan bytes = app1.subspan(kExifPrefix.size());
  const bool big_endian = bytes[0] == 'M';
  if (bytes[0] != bytes[1] || (!big_endian && bytes[0] != 'I')) return Orientation::kNormal;
  const TiffBytes tiff(bytes, big_endian);
  if (tiff.u16(2) != kTiffMagic) return Orientation::kNormal;

  const std::size_t directory = tiff.u32(4);
  if (directory > tiff.size() - 2) return Orientation::kNormal;
  // A directory cut off by the end of the segment still counts as far as it goes, as in Pillow.
  const std::size_t fitting = (tiff.size() - directory - 2) / kEntrySize;
  const std::size_t entries = std::min<std::size_t>(tiff.u16(directory), fitting);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * kEntrySize;
    if (tiff.u16(entry) == kOrientationTag) return orientation_from_entry(tiff, entry);
  }
  return Orientation::kNormal;
}

}  // namespace stoker
