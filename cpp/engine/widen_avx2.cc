// SPDX-License-Identifier: Apache-2.0
// Built with -mavx2; its functions ask the processor first.
#include "engine/widen.h"

#if defined(__AVX2__)
#include <immintrin.h>

namespace stoker {
namespace {

constexpr std::size_t kVector = 32;
constexpr std::size_t kLanes = 4;  // int64 per vector
constexpr std::size_t kLine = 64;
constexpr int kIntoL2 = 1;  // the first level has too few buffers for lines that take long

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
void widen_four(const std::uint8_t* from, std::uint8_t* to) noexcept {
  const __m256i wide = four_wide<kBytes, kSigned>(from);
  if constexpr (kStream) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), wide);
  } else {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), wide);
  }
}

// The next row is asked for one line per line read. All at once, ahead of the row, the requests
// fill the core's buffers and the stores wait for them: 15 instead of 22 GB/s.
template <std::size_t kBytes, bool kSigned, bool kStream>
std::size_t widen(const std::uint8_t* from, std::size_t count, std::uint8_t* to,
                  const std::uint8_t* next) noexcept {
  constexpr std::size_t kPerLine = kLine / kBytes;
  std::size_t i = 0;
  if (next != nullptr) {
    for (; i + kPerLine <= count; i += kPerLine) {
      __builtin_prefetch(next + i * kBytes, 0, kIntoL2);
      for (std::size_t j = i; j < i + kPerLine; j += kLanes) {
        widen_four<kBytes, kSigned, kStream>(from + j * kBytes, to + j * sizeof(std::int64_t));
      }
    }
  }
  for (; i + kLanes <= count; i += kLanes) {
    widen_four<kBytes, kSigned, kStream>(from + i * kBytes, to + i * sizeof(std::int64_t));
  }
  return i;
}

template <std::size_t kBytes, bool kSigned>
std::size_t widen(const std::uint8_t* from, std::size_t count, std::uint8_t* to, bool streaming,
                  const std::uint8_t* next) noexcept {
  return streaming && is_aligned(to) ? widen<kBytes, kSigned, true>(from, count, to, next)
                                     : widen<kBytes, kSigned, false>(from, count, to, next);
}

void copy_vector(const std::uint8_t* from, std::uint8_t* to) noexcept {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to),
                      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

}  // namespace

std::size_t internal::widen_avx2(const std::uint8_t* from, std::size_t element_bytes,
                                 bool is_signed, std::size_t count, std::uint8_t* to,
                                 bool streaming, const std::uint8_t* next) noexcept {
  if (!supported()) return 0;
  if (element_bytes == 2) {
    return is_signed ? widen<2, true>(from, count, to, streaming, next)
                     : widen<2, false>(from, count, to, streaming, next);
  }
  if (element_bytes == 4) {
    return is_signed ? widen<4, true>(from, count, to, streaming, next)
                     : widen<4, false>(from, count, to, streaming, next);
  }
  return 0;
}

std::size_t internal::copy_avx2(const std::uint8_t* from, std::size_t bytes, std::uint8_t* to,
                                const std::uint8_t* next) noexcept {
  if (!supported() || !is_aligned(to)) return 0;
  std::size_t i = 0;
  if (next != nullptr) {
    for (; i + kLine <= bytes; i += kLine) {
      __builtin_prefetch(next + i, 0, kIntoL2);
      for (std::size_t j = i; j < i + kLine; j += kVector) copy_vector(from + j, to + j);
    }
  }
  for (; i + kVector <= bytes; i += kVector) {
    copy_vector(from + i, to + i);
  }
  return i;
}

void internal::fence_avx2() noexcept { _mm_sfence(); }

}  // namespace stoker

#else

namespace stoker {

std::size_t internal::widen_avx2(const std::uint8_t*, std::size_t, bool, std::size_t, std::uint8_t*,
                                 bool, const std::uint8_t*) noexcept {
  return 0;
}
std::size_t internal::copy_avx2(const std::uint8_t*, std::size_t, std::uint8_t*,
                                const std::uint8_t*) noexcept {
  return 0;
}
void internal::fence_avx2() noexcept {}

}  // namespace stoker

#endif
