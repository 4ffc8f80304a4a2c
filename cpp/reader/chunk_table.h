// SPDX-License-Identifier: Apache-2.0
// What the index says about every chunk, as columns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stoker {

/// One row per chunk, in dataset order. Filled once by the index; immutable afterwards, any thread.
struct ChunkTable {
  std::string directory;                 // absolute
  std::vector<std::string> filenames;    // relative to directory
  std::vector<std::uint32_t> items;      // items in the file's header
  std::vector<std::uint64_t> raw_bytes;  // size of the uncompressed chunk (index: chunk_bytes)
  std::vector<std::uint64_t>
      file_bytes;  // exact file size; 0 = the index does not say (older writers, compressed)
  std::vector<std::uint64_t> checksums;  // xxh3_64 of the file; meaningful where has_checksum
  std::vector<std::uint8_t> has_checksum;
  bool compressed = false;  // every file is one zstd frame

  [[nodiscard]] std::size_t size() const noexcept { return filenames.size(); }
  [[nodiscard]] std::string path(std::size_t chunk) const;
  /// Throws kInvalidArgument when the columns differ in length.
  void check() const;
};

}  // namespace stoker
