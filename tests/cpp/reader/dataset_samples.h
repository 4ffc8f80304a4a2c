// SPDX-License-Identifier: Apache-2.0
// A small dataset on disk and its chunk table.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codec/checksum.h"
#include "codec/zstd.h"
#include "format/chunk_samples.h"
#include "reader/chunk_table.h"
#include "temp_dir.h"

namespace stoker::test {

class SampleDataset {
 public:
  explicit SampleDataset(bool compressed = false) {
    rows.directory = dir_.path();
    rows.compressed = compressed;
  }

  /// Writes a chunk of these items and its row.
  void add(const std::vector<Buffer>& items) {
    const Buffer raw = chunk_of(items);
    add_file(rows.compressed ? to_buffer(zstd_compress(raw).span()) : raw, items.size(),
             raw.size());
  }
  /// Writes any file, and a row of which only the file's size and checksum are sure to be true.
  void add_file(const Buffer& file, std::size_t items, std::size_t raw_bytes) {
    rows.filenames.push_back("chunk-0-" + std::to_string(rows.size()) + ".bin");
    rows.items.push_back(static_cast<std::uint32_t>(items));
    rows.raw_bytes.push_back(raw_bytes);
    rows.file_bytes.push_back(file.size());
    rows.checksums.push_back(xxh3_64(file));
    rows.has_checksum.push_back(1);
    put(rows.size() - 1, file);
  }
  /// Writes a chunk's file again; the row stays.
  void put(std::size_t chunk, const Buffer& file) const {
    write_text(rows.path(chunk),
               std::string(reinterpret_cast<const char*>(file.data()), file.size()));
  }
  [[nodiscard]] Buffer get(std::size_t chunk) const {
    return to_buffer(as_bytes(read_text(rows.path(chunk))));
  }
  /// Flips one bit of a chunk's file.
  void damage(std::size_t chunk, std::size_t byte) const {
    Buffer file = get(chunk);
    file.at(byte) ^= 0x10;
    put(chunk, file);
  }
  /// The rows as they are now.
  [[nodiscard]] std::shared_ptr<const ChunkTable> table() const {
    return std::make_shared<const ChunkTable>(rows);
  }

  ChunkTable rows;

 private:
  TempDir dir_;
};

/// Items that differ from those of every other chunk: `count` of `size` bytes.
[[nodiscard]] inline std::vector<Buffer> items_of_chunk(std::size_t chunk, std::size_t count,
                                                        std::size_t size = 10) {
  std::vector<Buffer> items(count, Buffer(size));
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < size; ++k) {
      items[i][k] = static_cast<std::uint8_t>(31 * chunk + 7 * i + k);
    }
  }
  return items;
}

}  // namespace stoker::test
