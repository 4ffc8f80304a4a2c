// SPDX-License-Identifier: Apache-2.0
// Tokens to 64-bit integers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker {

/// Writes `count` elements of `element_bytes` (1, 2, 4 or 8) as int64. `streaming`: past the cache,
/// for memory that is not read soon; `to` must then be aligned to 32 bytes. Any alignment of
/// `from`. Unsigned 64-bit elements keep their bits. `next`: where the row after this one will be
/// read, as many bytes; asked for line by line while this one is written. May be null.
void widen_to_int64(const std::uint8_t* from, std::size_t element_bytes, bool is_signed,
                    std::size_t count, std::uint8_t* to, bool streaming,
                    const std::uint8_t* next = nullptr) noexcept;

/// Copies past the cache when `streaming` and the addresses allow, else plainly. `next` as above.
void copy_row(const std::uint8_t* from, std::size_t bytes, std::uint8_t* to, bool streaming,
              const std::uint8_t* next = nullptr) noexcept;

/// After streaming writes and before another thread is told about them.
void finish_streaming() noexcept;

namespace internal {
/// One by one, for tests and other processors.
void widen_portable(const std::uint8_t* from, std::size_t element_bytes, bool is_signed,
                    std::size_t count, std::uint8_t* to) noexcept;
/// Elements done: a multiple of the vector, 0 when this processor or build has no AVX2.
std::size_t widen_avx2(const std::uint8_t* from, std::size_t element_bytes, bool is_signed,
                       std::size_t count, std::uint8_t* to, bool streaming,
                       const std::uint8_t* next = nullptr) noexcept;
std::size_t copy_avx2(const std::uint8_t* from, std::size_t bytes, std::uint8_t* to,
                      const std::uint8_t* next = nullptr) noexcept;
void fence_avx2() noexcept;
}  // namespace internal

}  // namespace stoker
