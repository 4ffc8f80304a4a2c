// SPDX-License-Identifier: Apache-2.0
// From a row of the chunk table to a chunk one can read: map, size check, checksum, decompress,
// header check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "format/chunk_view.h"
#include "io/mapped_file.h"
#include "reader/chunk_table.h"
#include "reader/verify_map.h"

namespace stoker {

enum class Verify : std::uint8_t {
  kNever,   // sizes and headers only
  kFirst,   // the checksum, the first time a chunk is read as a whole (iterated, decompressed)
  kAlways,  // the checksum, each time a chunk is opened, also for a lone item
};

/// Why a chunk is opened: a lone item must not drag the whole file in from the disk.
enum class Purpose : std::uint8_t { kLoneItem, kWholeChunk };

/// Stateless but for the verify map; any thread. Errors name the file, what was expected and found,
/// and what to do: kNotFound (missing), kCorrupt (size, checksum, header, zstd), kUnsupported (a
/// layout of another generation). REQUIRES everywhere: chunk < table().size().
class ChunkOpener {
 public:
  /// Throws kInvalidArgument as ChunkTable::check does.
  ChunkOpener(std::shared_ptr<const ChunkTable> table, Verify verify);

  /// read_file(), then the header: all offsets for kWholeChunk, the ends of the table for a lone
  /// item (item() checks its own).
  [[nodiscard]] ChunkView open(std::size_t chunk, Purpose purpose) const;

  /// The stored file, decompressed when the dataset is compressed. Its size is always checked
  /// (uncompressed: raw_bytes; file_bytes when known; decompressed: raw_bytes), the checksum as
  /// Verify says. A lone item of an uncompressed file reads no page here unless the policy is
  /// kAlways. The layout is not looked at (the file may be encrypted as a whole).
  [[nodiscard]] Bytes read_file(std::size_t chunk, Purpose purpose) const;

  /// For a chunk that open(chunk, kLoneItem) gave as `view` and that is now to be read as a whole:
  /// what open(chunk, kWholeChunk) would have checked and open() did not.
  void verify_whole(std::size_t chunk, const ChunkView& view) const;

  [[nodiscard]] const ChunkTable& table() const noexcept { return *table_; }

 private:
  [[nodiscard]] Bytes map_chunk(const std::string& path, AccessHint hint) const;
  void check_size(std::size_t chunk, std::uint64_t found) const;
  void check_sum(std::size_t chunk, ByteSpan file) const;

  std::shared_ptr<const ChunkTable> table_;
  Verify verify_;
  std::shared_ptr<VerifyMap> verified_;
};

}  // namespace stoker
