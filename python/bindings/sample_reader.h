// SPDX-License-Identifier: Apache-2.0
// Item number -> sample, for Python. What must be thread- and fork-safe around ItemReader is here.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "concurrency/fork_guard.h"
#include "reader/item_reader.h"

namespace stoker::bindings {

namespace nb = nanobind;

/// An ItemReader that several Python threads may use. The lock is never held while waiting for the
/// GIL, and the GIL is released before waiting for the lock or the disk. A forked child that
/// inherits the lock held (a thread of the parent was opening a chunk) leaks it and starts with a
/// fresh reader.
class SharedItemReader {
 public:
  SharedItemReader(std::shared_ptr<const ChunkTable> table, Verify verify);

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  /// Item `index` as bytes that keep their mapping alive. `address` receives where it lies.
  /// REQUIRES: the GIL.
  [[nodiscard]] Bytes item(std::uint64_t index, Purpose purpose, ItemAddress* address);

  /// The open chunk. REQUIRES: the GIL.
  [[nodiscard]] ChunkView chunk(std::size_t chunk, Purpose purpose);

  /// The stored file (decompressed when it is compressed) without looking at its layout. REQUIRES:
  /// the GIL.
  [[nodiscard]] Bytes read_file(std::size_t chunk, Purpose purpose);

  /// Closes all chunks; they open again when needed.
  void close();

  [[nodiscard]] const ChunkTable& table() const noexcept { return *table_; }

 private:
  void recover_after_fork();

  std::shared_ptr<const ChunkTable> table_;
  Verify verify_;
  std::uint64_t size_ = 0;
  ForkGuard fork_guard_;
  std::unique_ptr<std::mutex> mutex_;
  std::unique_ptr<ItemReader> reader_;
};

/// A negative index counts from the end. Throws Error kOutOfRange naming index and length.
[[nodiscard]] std::uint64_t normalize_index(std::int64_t index, std::uint64_t size);

/// Rethrows `error` with the sample number and its chunk added to the message.
[[noreturn]] void rethrow_with_sample(const Error& error, std::uint64_t sample,
                                      const std::string& path);

}  // namespace stoker::bindings
