// SPDX-License-Identifier: Apache-2.0
// Knows whether this process forked since an object was built.
#pragma once

#include <cstdint>

namespace stoker {

/// Remembers the process it was made in. `forked()` costs one relaxed load (a counter raised in the
/// child by pthread_atfork), so it may stand on hot paths. Threads, sockets and locks of an object
/// whose guard says true must be abandoned (leaked, not joined or unlocked) and rebuilt.
class ForkGuard {
 public:
  ForkGuard() noexcept;
  [[nodiscard]] bool forked() const noexcept;
  /// From now on this process counts as the builder.
  void reset() noexcept;

 private:
  std::uint64_t generation_;
};

}  // namespace stoker
