// SPDX-License-Identifier: Apache-2.0
// Built with -mavx2 -mf16c; entered only on processors that have both.
#include "vision/pixel_store.h"

#if defined(__AVX2__) && defined(__F16C__)
#include <cpuid.h>
#include <immintrin.h>

namespace stoker {
namespace {

constexpr std::size_t kPixel = 4;
constexpr std::size_t kStep = 8;  // pixels per turn

/// Eight values of each channel of eight pixels, as bytes in the low half: r | g and b | x.
struct Planes {
  __m128i red_green;
  __m128i blue;
};

Planes planes_of(const std::uint8_t* rgbx) noexcept {
  const __m256i pixels = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rgbx));
  const __m256i by_channel = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,
                                              0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m256i grouped = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(pixels, by_channel),
                                                      _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  return {_mm256_castsi256_si128(grouped), _mm256_extracti128_si256(grouped, 1)};
}

__m128i channel_of(const Planes& planes, std::size_t channel) noexcept {
  if (channel == 0) return planes.red_green;
  return channel == 1 ? _mm_unpackhi_epi64(planes.red_green, planes.red_green) : planes.blue;
}

__m256 normalised(__m128i bytes, float scale, float offset) noexcept {
  const __m256 value = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
  return _mm256_add_ps(_mm256_mul_ps(value, _mm256_set1_ps(scale)), _mm256_set1_ps(offset));
}

__m128i as_bfloat16(__m256 value) noexcept {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
  const __m256i words = _mm256_srli_epi32(up, 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

template <PixelType kType>
void store_eight(__m128i bytes, float scale, float offset, std::uint8_t* to) noexcept {
  auto* words = reinterpret_cast<__m128i*>(to);
  if constexpr (kType == PixelType::kUint8) {
    _mm_storel_epi64(words, bytes);
  } else if constexpr (kType == PixelType::kFloat32) {
    _mm256_storeu_ps(reinterpret_cast<float*>(to), normalised(bytes, scale, offset));
  } else if constexpr (kType == PixelType::kFloat16) {
    _mm_storeu_si128(words, _mm256_cvtps_ph(normalised(bytes, scale, offset),
                                            _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  } else {
    _mm_storeu_si128(words, as_bfloat16(normalised(bytes, scale, offset)));
  }
}

template <PixelType kType>
std::size_t store_planes(const PixelFormat& format, const std::uint8_t* rgbx, std::size_t width,
                         std::uint8_t* to, std::size_t plane) noexcept {
  std::size_t i = 0;
  for (; i + kStep <= width; i += kStep) {
    const Planes planes = planes_of(rgbx + kPixel * i);
    for (std::size_t c = 0; c < format.channels; ++c) {
      store_eight<kType>(channel_of(planes, c), format.scale[c], format.offset[c],
                         to + c * plane + i * bytes_of(kType));
    }
  }
  return i;
}

// A store of 16 bytes spills over the next pixels, which are written afterwards; so this stops
// before the last ones.
std::size_t store_packed_bytes(const std::uint8_t* rgbx, std::size_t width,
                               std::uint8_t* to) noexcept {
  const __m128i packed = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  std::size_t i = 0;
  for (; i + 6 <= width; i += 4) {
    const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rgbx + kPixel * i));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 3 * i), _mm_shuffle_epi8(four, packed));
  }
  return i;
}

std::size_t store_packed_floats(const PixelFormat& format, const std::uint8_t* rgbx,
                                std::size_t width, std::uint8_t* to) noexcept {
  const __m128 scale = _mm_setr_ps(format.scale[0], format.scale[1], format.scale[2], 0);
  const __m128 offset = _mm_setr_ps(format.offset[0], format.offset[1], format.offset[2], 0);
  auto* values = reinterpret_cast<float*>(to);
  std::size_t i = 0;
  for (; i + 2 <= width; ++i) {
    const __m128i pixel = _mm_loadu_si32(rgbx + kPixel * i);
    const __m128 value = _mm_cvtepi32_ps(_mm_cvtepu8_epi32(pixel));
    _mm_storeu_ps(values + 3 * i, _mm_add_ps(_mm_mul_ps(value, scale), offset));
  }
  return i;
}

std::size_t store_most(const PixelFormat& format, const std::uint8_t* rgbx, std::size_t width,
                       std::uint8_t* to, std::size_t plane) noexcept {
  if (format.channels_last && format.channels == 3) {
    if (format.type == PixelType::kUint8) return store_packed_bytes(rgbx, width, to);
    if (format.type == PixelType::kFloat32) return store_packed_floats(format, rgbx, width, to);
    return 0;
  }
  switch (format.type) {
    case PixelType::kUint8:
      return store_planes<PixelType::kUint8>(format, rgbx, width, to, plane);
    case PixelType::kFloat32:
      return store_planes<PixelType::kFloat32>(format, rgbx, width, to, plane);
    case PixelType::kFloat16:
      return store_planes<PixelType::kFloat16>(format, rgbx, width, to, plane);
    case PixelType::kBfloat16:
      return store_planes<PixelType::kBfloat16>(format, rgbx, width, to, plane);
  }
  return 0;
}

void store(const PixelFormat& format, const std::uint8_t* rgbx, std::size_t width, std::uint8_t* to,
           std::size_t plane) {
  const std::size_t done = store_most(format, rgbx, width, to, plane);
  const std::size_t step = bytes_of(format.type) * (format.channels_last ? format.channels : 1);
  portable_store_row()(format, rgbx + kPixel * done, width - done, to + done * step, plane);
}

// Not every compiler lets __builtin_cpu_supports ask for it.
bool has_f16c() noexcept {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

StoreRow avx2_store_row() noexcept {
  return __builtin_cpu_supports("avx2") && has_f16c() ? store : nullptr;
}

}  // namespace stoker

#else

namespace stoker {

StoreRow avx2_store_row() noexcept { return nullptr; }

}  // namespace stoker

#endif
