// SPDX-License-Identifier: Apache-2.0
// Built with -mavx2; its functions ask the processor first.
#include "engine/widen.h"

#if defined(__AVX2__)
#include <immintrin.h>

namespace stoker {
namespace {

constexpr std::size_t kVector = 32;
constexpr std::size_t kLanes = 4;  // int64 per vector

bool supported() noexcept {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  return has_avx2;
}

bool is_aligned(const std::uint8_t* to) noexcept {
  return reinterpret_cast<std::uintptr_t>(to) % kVector == 0;
}

/// Four elements from memory, widened.
template <std::size_t kBytes, bool kSigned>
__m256i four_wide(const std::uint8_t* from) noexcept {
  if constexpr (kBytes == 2) {
    const __m128i four = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    return kSigned ? _mm256_cvtepi16_epi64(four) : _mm256_cvtepu16_epi64(four);
  } else {
    const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return kSigned ? _mm256_cvtepi32_epi64(four) : _mm256_cvtepu32_epi64(four);
  }
}

template <std::size_t kBytes, bool kSigned, bool kStream>
std::size_t widen(const std::uint8_t* from, std::size_t count, std::uint8_t* to) noexcept {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m256i wide = four_wide<kBytes, kSigned>(from + i * kBytes);
    auto* out = reinterpret_cast<__m256i*>(to + i * sizeof(std::int64_t));
    if constexpr (kStream) {
      _mm256_stream_si256(out, wide);
    } else {
      _mm256_storeu_si256(out, wide);
    }
  }
  return i;
}

template <std::size_t kBytes, bool kSigned>
std::size_t widen(const std::uint8_t* from, std::size_t count, std::uint8_t* to,
                  bool streaming) noexcept {
  return streaming && is_aligned(to) ? widen<kBytes, kSigned, true>(from, count, to)
                                     : widen<kBytes, kSigned, false>(from, count, to);
}

}  // namespace

std::size_t internal::widen_avx2(const std::uint8_t* from, std::size_t element_bytes,
                                 bool is_signed, std::size_t count, std::uint8_t* to,
                                 bool streaming) noexcept {
  if (!supported()) return 0;
  if (element_bytes == 2) {
    return is_signed ? widen<2, true>(from, count, to, streaming)
                     : widen<2, false>(from, count, to, streaming);
  }
  if (element_bytes == 4) {
    return is_signed ? widen<4, true>(from, count, to, streaming)
                     : widen<4, false>(from, count, to, streaming);
  }
  return 0;
}

std::size_t internal::copy_avx2(const std::uint8_t* from, std::size_t bytes,
                                std::uint8_t* to) noexcept {
  if (!supported() || !is_aligned(to)) return 0;
  std::size_t i = 0;
  for (; i + kVector <= bytes; i += kVector) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i)));
  }
  return i;
}

void internal::fence_avx2() noexcept { _mm_sfence(); }

}  // namespace stoker

#else

namespace stoker {

std::size_t internal::widen_avx2(const std::uint8_t*, std::size_t, bool, std::size_t, std::uint8_t*,
                                 bool) noexcept {
  return 0;
}
std::size_t internal::copy_avx2(const std::uint8_t*, std::size_t, std::uint8_t*) noexcept {
  return 0;
}
void internal::fence_avx2() noexcept {}

}  // namespace stoker

#endif
