// SPDX-License-Identifier: Apache-2.0
// Random access to items: global item number -> bytes, over a bounded set of open chunks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "format/chunk_view.h"
#include "reader/chunk_opener.h"

namespace stoker {

struct ItemReaderOptions {
  std::size_t max_open_chunks = 8192;  // mappings (the kernel allows 65530 by default)
  std::uint64_t max_buffer_bytes = std::uint64_t{1}
                                   << 29;  // decompressed chunks kept, at least one
};

struct ItemAddress {
  std::size_t chunk = 0;
  std::uint32_t item = 0;
};

/// Chunks are opened when first touched and closed in the order of opening. NOT thread-safe
/// (callers hold a lock) but for size() and locate(), which any thread may call at any time. After
/// fork the child may go on using it (mappings and buffers are inherited, there are no threads,
/// locks or descriptors).
class ItemReader {
 public:
  ItemReader(std::shared_ptr<const ChunkTable> table, Verify verify,
             ItemReaderOptions options = {});

  [[nodiscard]] std::uint64_t size() const noexcept { return ends_.empty() ? 0 : ends_.back(); }

  /// Where item `item` lies; the chunk used last is tried first. Throws kOutOfRange.
  [[nodiscard]] ItemAddress locate(std::uint64_t item) const;

  /// The open chunk, opening it if needed. The reference is valid until the next call. Throws as
  /// ChunkOpener::open does; REQUIRES: chunk < the number of chunks.
  const ChunkView& chunk(std::size_t chunk, Purpose purpose);

  /// True when chunk(c, purpose) would not touch the disk for opening or verifying (so the caller
  /// need not release the GIL).
  [[nodiscard]] bool is_ready(std::size_t chunk, Purpose purpose) const noexcept;

  /// Closes every chunk; Bytes given out stay valid.
  void close() noexcept;

  [[nodiscard]] std::size_t open_chunks() const noexcept { return opened_.size(); }
  [[nodiscard]] const ChunkOpener& opener() const noexcept { return opener_; }

 private:
  struct Slot {
    ChunkView view;
    bool open = false;
    bool whole = false;  // opened or verified for kWholeChunk
  };
  /// Memory that an open chunk takes of its own: mappings count as none.
  [[nodiscard]] std::uint64_t buffer_bytes_of(std::size_t chunk) const noexcept;
  void make_room(std::uint64_t incoming_bytes);

  ChunkOpener opener_;
  ItemReaderOptions options_;
  std::vector<std::uint64_t> ends_;        // running item counts
  std::atomic<std::size_t> last_used_{0};  // a hint for locate(): any value below size is right
  std::vector<Slot> slots_;
  std::deque<std::size_t> opened_;  // open chunks, oldest first
  std::uint64_t buffer_bytes_ = 0;
};

}  // namespace stoker
