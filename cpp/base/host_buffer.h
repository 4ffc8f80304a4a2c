// SPDX-License-Identifier: Apache-2.0
// Owned, aligned, writable memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace stoker {

/// A block of `size` uninitialised bytes aligned to `kAlignment`. Blocks of 2 MiB and more ask for
/// transparent huge pages (first touch of 4 KiB pages is 2.3x slower, design notes in
/// cpp/README.md). Move-only. Not thread-safe; give it away with `share()` once it is filled.
class HostBuffer {
 public:
  static constexpr std::size_t kAlignment = 4096;

  HostBuffer() = default;
  /// Throws std::bad_alloc when memory is short. Size 0 is an empty buffer.
  explicit HostBuffer(std::size_t size);
  ~HostBuffer();
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  [[nodiscard]] std::uint8_t* data() noexcept { return data_; }
  [[nodiscard]] const std::uint8_t* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] MutableByteSpan span() noexcept { return {data_, size_}; }
  [[nodiscard]] ByteSpan span() const noexcept { return {data_, size_}; }

  /// Makes the buffer at least `size` bytes (doubling), keeping the first `used` bytes.
  void grow(std::size_t size, std::size_t used);

  /// The first `size` bytes as immutable Bytes that own the memory; this buffer is empty
  /// afterwards. Throws kOutOfRange when it has fewer.
  [[nodiscard]] Bytes share(std::size_t size) &&;

 private:
  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace stoker
