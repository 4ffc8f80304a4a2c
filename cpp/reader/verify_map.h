// SPDX-License-Identifier: Apache-2.0
// Which chunks have already been verified, shared with forked workers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace stoker {

/// One atomic flag per chunk in an anonymous shared mapping: a chunk verified by one forked
/// DataLoader worker counts for its siblings and its parent. Thread-safe and fork-safe (no locks).
/// Spawned processes start anew.
class VerifyMap {
 public:
  explicit VerifyMap(std::size_t chunks);
  ~VerifyMap();
  VerifyMap(const VerifyMap&) = delete;
  VerifyMap& operator=(const VerifyMap&) = delete;

  [[nodiscard]] bool verified(std::size_t chunk) const noexcept;
  void mark(std::size_t chunk) noexcept;

 private:
  std::atomic<std::uint8_t>* flags_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace stoker
