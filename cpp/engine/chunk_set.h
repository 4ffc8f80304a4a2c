// SPDX-License-Identifier: Apache-2.0
// The chunks of one dataset, or of several, under one numbering.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/batch_spec.h"
#include "format/chunk_view.h"
#include "reader/chunk_opener.h"

namespace stoker {

/// A dataset as the engine reads it.
struct DatasetPart {
  std::shared_ptr<const ChunkOpener> opener;
  std::uint64_t seed = 0;  // of its transforms
  /// Items (token blocks) of every chunk, in the numbering of items.
  std::vector<std::uint64_t> chunk_sizes;
  /// Token datasets: tokens in every chunk, compared with the files. Else empty.
  std::vector<std::uint64_t> chunk_tokens;
};

/// An item by its chunk in a ChunkSet.
struct ChunkPlace {
  std::uint32_t chunk = 0;
  std::uint32_t item = 0;  // in that chunk
};

/// The chunks of part 0 come first, then those of part 1, and so on. Immutable, any thread.
class ChunkSet {
 public:
  /// Throws kInvalidArgument when the columns of a part differ in length, or there are more than
  /// 2^32 - 1 chunks.
  ChunkSet(std::vector<DatasetPart> parts, const BatchSpec& spec);

  [[nodiscard]] std::size_t size() const noexcept { return owner_.size(); }
  [[nodiscard]] std::size_t parts() const noexcept { return parts_.size(); }
  [[nodiscard]] std::uint64_t items(std::size_t part) const {
    return ends_.at(part).empty() ? 0 : ends_.at(part).back();
  }
  [[nodiscard]] std::uint64_t seed_of(std::size_t part) const { return parts_.at(part).seed; }
  /// Throws kOutOfRange.
  [[nodiscard]] ChunkPlace place_of(std::size_t part, std::uint64_t item) const;
  /// Opens a chunk to read it as a whole; throws as ChunkOpener::open, and kCorrupt when its tokens
  /// are not those of the index. REQUIRES: chunk < size().
  [[nodiscard]] ChunkView open(std::size_t chunk) const;
  [[nodiscard]] std::string path(std::size_t chunk) const;
  /// How many may stay open when any may be read at any time: a mapped chunk costs nearly nothing,
  /// a decompressed one its memory.
  [[nodiscard]] std::size_t most_open() const noexcept { return most_open_; }

 private:
  void set_most_open();

  std::vector<DatasetPart> parts_;
  std::vector<std::vector<std::uint64_t>> ends_;  // of each part: running ends of its chunks
  std::vector<std::size_t> first_;                // of each part: its first chunk here
  std::vector<std::uint32_t> owner_;              // of each chunk: its part
  TokenColumn tokens_;
  std::size_t most_open_ = 0;
};

}  // namespace stoker
