// SPDX-License-Identifier: Apache-2.0
#include "engine/widen.h"

#include <cstring>

namespace stoker {
namespace {

template <typename Element>
void widen(const std::uint8_t* from, std::size_t count, std::uint8_t* to) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    Element element;
    std::memcpy(&element, from + i * sizeof(element), sizeof(element));
    const std::int64_t wide{element};
    std::memcpy(to + i * sizeof(wide), &wide, sizeof(wide));
  }
}

}  // namespace

void internal::widen_portable(const std::uint8_t* from, std::size_t element_bytes, bool is_signed,
                              std::size_t count, std::uint8_t* to) noexcept {
  switch (element_bytes) {
    case 1:
      return is_signed ? widen<std::int8_t>(from, count, to) : widen<std::uint8_t>(from, count, to);
    case 2:
      return is_signed ? widen<std::int16_t>(from, count, to)
                       : widen<std::uint16_t>(from, count, to);
    case 4:
      return is_signed ? widen<std::int32_t>(from, count, to)
                       : widen<std::uint32_t>(from, count, to);
    default:
      if (count != 0) std::memcpy(to, from, count * sizeof(std::int64_t));
  }
}

void widen_to_int64(const std::uint8_t* from, std::size_t element_bytes, bool is_signed,
                    std::size_t count, std::uint8_t* to, bool streaming,
                    const std::uint8_t* next) noexcept {
  const std::size_t done =
      internal::widen_avx2(from, element_bytes, is_signed, count, to, streaming, next);
  internal::widen_portable(from + done * element_bytes, element_bytes, is_signed, count - done,
                           to + done * sizeof(std::int64_t));
}

void copy_row(const std::uint8_t* from, std::size_t bytes, std::uint8_t* to, bool streaming,
              const std::uint8_t* next) noexcept {
  const std::size_t done = streaming ? internal::copy_avx2(from, bytes, to, next) : 0;
  if (bytes > done) std::memcpy(to + done, from + done, bytes - done);
}

void finish_streaming() noexcept { internal::fence_avx2(); }

}  // namespace stoker
