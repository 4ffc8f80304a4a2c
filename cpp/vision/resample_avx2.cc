// SPDX-License-Identifier: Apache-2.0
// Built with -mavx2; entered only on processors that have it.
#include "vision/resample.h"

#if defined(__AVX2__)
#include <immintrin.h>

namespace stoker {
namespace {

constexpr std::size_t kPixel = 4;
constexpr std::size_t kVector = 32;

__m256i load256(const void* from) noexcept {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

/// Sums of one output pixel: taps 0 and 1 of each group in the low half, 2 and 3 in the high one.
__m256i weighted_pixels(const std::uint8_t* pixels, const std::int16_t* weights,
                        std::uint32_t groups) noexcept {
  // Pairs the bytes of neighbouring pixels channel by channel and widens them to 16 bits.
  const __m256i pairs =
      _mm256_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1,  //
                       8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1);
  __m256i sums = _mm256_setzero_si256();
  for (std::uint32_t g = 0; g < groups; ++g) {
    const __m256i four = _mm256_broadcastsi128_si256(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels + 16 * std::size_t{g})));
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_shuffle_epi8(four, pairs),
                                                    load256(weights + 16 * std::size_t{g})));
  }
  return sums;
}

/// Adds the halves of two outputs: [a | b].
__m256i joined(__m256i a, __m256i b) noexcept {
  return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                          _mm256_permute2x128_si256(a, b, 0x31));
}

void horizontal(const RowFilter& filter, std::uint32_t first_input, const std::uint8_t* in,
                std::uint8_t* out) {
  const AxisWeights& axis = *filter.weights;
  const auto precision = static_cast<int>(axis.precision());
  const __m256i half = _mm256_set1_epi32(1 << (precision - 1));
  const std::size_t step = std::size_t{axis.stride()} * 4;
  const std::int16_t* weights = filter.expanded.data();
  const auto sums_of = [&](std::uint32_t j) {
    return weighted_pixels(in + kPixel * (axis.start(j) - first_input),
                           weights + step * std::size_t{j}, filter.groups[j]);
  };
  const std::uint32_t count = axis.count();
  for (std::uint32_t j = 0; j < count; j += 4) {
    const std::uint32_t last = count - 1;  // a short end repeats its last pixel
    const __m256i ab = joined(sums_of(j), sums_of(j + 1 < count ? j + 1 : last));
    const __m256i cd =
        joined(sums_of(j + 2 < count ? j + 2 : last), sums_of(j + 3 < count ? j + 3 : last));
    const __m256i words =
        _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(ab, half), precision),
                           _mm256_srai_epi32(_mm256_add_epi32(cd, half), precision));  // a c | b d
    const __m256i bytes = _mm256_packus_epi16(words, words);  // a c a c | b d b d
    const __m128i ac = _mm256_castsi256_si128(bytes);
    const __m128i bd = _mm256_extracti128_si256(bytes, 1);
    // The fourth byte holds a sum of unused bytes; kernels agree on 0.
    const __m128i colours = _mm_set1_epi32(0x00FFFFFF);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + kPixel * j),
                     _mm_and_si128(_mm_unpacklo_epi32(ac, bd), colours));
  }
}

/// The sums of 32 neighbouring bytes, in the order in which unpacking leaves them.
struct Sums {
  __m256i part[4];
};

void add_two_rows(Sums& sums, __m256i upper, __m256i lower, __m256i weights) noexcept {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i low = _mm256_unpacklo_epi8(upper, lower);
  const __m256i high = _mm256_unpackhi_epi8(upper, lower);
  const __m256i pairs[4] = {_mm256_unpacklo_epi8(low, zero), _mm256_unpackhi_epi8(low, zero),
                            _mm256_unpacklo_epi8(high, zero), _mm256_unpackhi_epi8(high, zero)};
  for (int i = 0; i < 4; ++i) {
    sums.part[i] = _mm256_add_epi32(sums.part[i], _mm256_madd_epi16(pairs[i], weights));
  }
}

__m256i rounded(const Sums& sums, int precision) noexcept {
  const auto shifted = [&](int i) { return _mm256_srai_epi32(sums.part[i], precision); };
  return _mm256_packus_epi16(_mm256_packs_epi32(shifted(0), shifted(1)),
                             _mm256_packs_epi32(shifted(2), shifted(3)));
}

__m256i two_weights(std::int16_t first, std::int16_t second) noexcept {
  return _mm256_set1_epi32(static_cast<int>(static_cast<std::uint16_t>(first)) |
                           (static_cast<int>(second) << 16));
}

void vertical(const std::uint8_t* const* rows, const std::int16_t* weights, std::uint32_t taps,
              unsigned precision, std::size_t bytes, std::uint8_t* out) {
  const __m256i half = _mm256_set1_epi32(1 << (precision - 1));
  for (std::size_t i = 0; i < bytes; i += kVector) {
    Sums sums{{half, half, half, half}};
    std::uint32_t k = 0;
    for (; k + 1 < taps; k += 2) {
      add_two_rows(sums, load256(rows[k] + i), load256(rows[k + 1] + i),
                   two_weights(weights[k], weights[k + 1]));
    }
    if (k < taps) {
      add_two_rows(sums, load256(rows[k] + i), _mm256_setzero_si256(), two_weights(weights[k], 0));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                        rounded(sums, static_cast<int>(precision)));
  }
}

}  // namespace

const ResampleKernels* avx2_resample_kernels() noexcept {
  static constexpr ResampleKernels kKernels{"avx2", horizontal, vertical};
  return __builtin_cpu_supports("avx2") ? &kKernels : nullptr;
}

}  // namespace stoker

#else

namespace stoker {

const ResampleKernels* avx2_resample_kernels() noexcept { return nullptr; }

}  // namespace stoker

#endif
