// SPDX-License-Identifier: Apache-2.0
// One batch while it is filled.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/thread_annotations.h"
#include "engine/open_chunks.h"
#include "engine/slab.h"

namespace stoker {

/// Where random numbers come from, beside the position of a sample.
struct EpochKey {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
};

/// Planned by one thread, then filled by workers, each its own rows; errors come from any of them.
class BatchData {
 public:
  struct Row {
    std::uint32_t chunk = 0;  // in `chunks`
    std::uint32_t item = 0;   // in that chunk
  };
  struct RowError {
    std::uint32_t row = 0;
    std::exception_ptr error;
  };

  std::vector<std::uint64_t> positions;  // of each row in the order of its epoch
  std::vector<EpochKey> keys;            // of each row, or one for all
  std::vector<Row> rows;
  std::vector<std::shared_ptr<const OpenChunk>> chunks;
  Slab slab;
  /// Of every kObject column the bytes of each row; they lie in `chunks`.
  std::vector<std::vector<ByteSpan>> objects;

  [[nodiscard]] const EpochKey& key_of(std::uint32_t row) const noexcept {
    return keys.size() == 1 ? keys.front() : keys[row];
  }
  void add_error(std::uint32_t row, std::exception_ptr error) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    errors_.push_back({row, std::move(error)});
  }
  /// In the order of rows. REQUIRES: nobody fills any more.
  [[nodiscard]] std::vector<RowError> take_errors() EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::vector<RowError> errors_ GUARDED_BY(mutex_);
};

}  // namespace stoker
