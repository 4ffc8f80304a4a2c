// SPDX-License-Identifier: Apache-2.0
// Memory of batches: given out, filled, held by the user, and used again when let go.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/host_buffer.h"
#include "base/thread_annotations.h"
#include "concurrency/fork_guard.h"

namespace stoker {

/// Memory of one batch. `owner` keeps it alive; whoever drops the last copy gives it back.
struct Slab {
  MutableByteSpan memory;
  std::shared_ptr<void> owner;
};

/// Slabs of one size. Copies are the same pool. A slab whose last owner is gone is used for a later
/// batch, so steady state allocates nothing and touches no fresh page; nothing a user still holds
/// is written again. Owners may outlive the pool and may be dropped on any thread, also in a forked
/// child (where the memory is freed instead). Thread-safe.
class SlabPool {
 public:
  /// Keeps at most `spare` unused slabs.
  SlabPool(std::size_t bytes, std::size_t spare);

  /// A slab with undefined contents. Throws kOutOfMemory.
  [[nodiscard]] Slab take();

  /// This pool, or after a fork an empty one in its place: another thread may have held the mutex.
  [[nodiscard]] SlabPool& in_this_process();

  [[nodiscard]] std::size_t slab_bytes() const noexcept { return shared_->bytes; }
  /// Slabs allocated so far, for tests and stats.
  [[nodiscard]] std::size_t allocated() const;

 private:
  struct Shared {
    ForkGuard fork_guard;  // the mutex may have been held by another thread at the fork
    mutable Mutex mutex;
    std::vector<HostBuffer> unused GUARDED_BY(mutex);
    std::size_t allocated GUARDED_BY(mutex) = 0;
    std::size_t bytes = 0;
    std::size_t spare = 0;
  };
  std::shared_ptr<Shared> shared_;
};

}  // namespace stoker
