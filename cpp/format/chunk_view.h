// SPDX-License-Identifier: Apache-2.0
// Reading a classic chunk file. Layout: cpp/format/FORMAT.md section 1.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/coding.h"

namespace stoker {

/// Bytes of the header of a chunk with `items` items: 4 + 4 * (items + 1).
[[nodiscard]] constexpr std::uint64_t chunk_header_size(std::uint64_t items) noexcept {
  return 4 + 4 * (items + 1);
}

/// A chunk whose header has been checked once: item count, first offset, order of offsets and total
/// size are consistent, so item(i) needs only a bounds check. Immutable; readable from any thread;
/// copies share the bytes. Items keep the mapping (or buffer) alive.
class ChunkView {
 public:
  ChunkView() = default;

  /// Checks the header of `file` (the whole uncompressed chunk). `expected_items` comes from the
  /// index. Throws kCorrupt naming `path`, expected and found: file shorter than its header, item
  /// count != expected, first offset wrong, offsets decreasing, last offset != file size. O(items).
  [[nodiscard]] static ChunkView open(Bytes file, std::uint64_t expected_items,
                                      const std::string& path);

  /// The same without walking every offset: count, first and last offset only, O(1) and touching
  /// two pages. item(i) then checks its own two offsets. For a lone random access on a cold file.
  [[nodiscard]] static ChunkView open_lazy(Bytes file, std::uint64_t expected_items,
                                           const std::string& path);

  [[nodiscard]] std::uint32_t size() const noexcept { return items_; }

  /// Item i, sharing the file's owner. Throws kOutOfRange past the end, kCorrupt when its offsets
  /// are bad.
  [[nodiscard]] Bytes item(std::uint32_t i) const { return {item_span(i), file_.owner()}; }
  /// The same as a bare span for callers that hold the ChunkView.
  [[nodiscard]] ByteSpan item_span(std::uint32_t i) const {
    if (i >= items_) [[unlikely]]
      throw_bad_offsets(i);
    const std::uint8_t* offsets = file_.data() + 4 + std::size_t{4} * i;
    const std::uint32_t begin = load_u32(offsets);
    const std::uint32_t end = load_u32(offsets + 4);
    const bool inside = begin >= chunk_header_size(items_) && begin <= end && end <= file_.size();
    if (!inside) [[unlikely]]
      throw_bad_offsets(i);
    return {file_.data() + begin, end - begin};
  }

  /// All item bytes from the first offset to the end (token chunks are one run of elements).
  [[nodiscard]] ByteSpan payload() const noexcept;

  [[nodiscard]] const Bytes& file() const noexcept { return file_; }

 private:
  [[noreturn]] void throw_bad_offsets(std::uint32_t i) const;

  Bytes file_;
  std::uint32_t items_ = 0;
  std::string path_;
};

/// What a file that is not a classic chunk seems to be, for messages: "Arrow-footer", "framed zstd"
/// or "".
[[nodiscard]] std::string foreign_layout(ByteSpan file);

}  // namespace stoker
