// SPDX-License-Identifier: Apache-2.0
// Built with -mavx2; entered only on processors that have it.
#include "vision/resample.h"

#if defined(__AVX2__)
#include <immintrin.h>

#include <algorithm>

namespace stoker {
namespace {

constexpr std::size_t kPixel = 4;
constexpr std::size_t kVector = 32;

__m256i load256(const void* from) noexcept {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

/// Sums of one output pixel: taps 0 and 1 of each group in the low half, 2 and 3 in the high one.
/// kGroups 0: `groups` says how many.
template <std::uint32_t kGroups>
__m256i weighted_pixels(const std::uint8_t* pixels, const std::int16_t* weights,
                        std::uint32_t groups) noexcept {
  // Pairs the bytes of neighbouring pixels channel by channel and widens them to 16 bits.
  const __m256i pairs =
      _mm256_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1,  //
                       8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1);
  const auto group = [&](std::uint32_t g) {
    const __m256i four = _mm256_broadcastsi128_si256(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels + 16 * std::size_t{g})));
    return _mm256_madd_epi16(_mm256_shuffle_epi8(four, pairs),
                             load256(weights + 16 * std::size_t{g}));
  };
  __m256i sums = group(0);
  if constexpr (kGroups == 2) sums = _mm256_add_epi32(sums, group(1));
  if constexpr (kGroups == 0) {
    for (std::uint32_t g = 1; g < groups; ++g) sums = _mm256_add_epi32(sums, group(g));
  }
  return sums;
}

/// Adds the halves of two outputs: [a | b].
__m256i joined(__m256i a, __m256i b) noexcept {
  return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                          _mm256_permute2x128_si256(a, b, 0x31));
}

template <std::uint32_t kGroups>
void horizontal_of(const RowFilter& filter, const std::uint8_t* in, std::uint8_t* out) {
  const auto precision = static_cast<int>(filter.weights->precision());
  const __m256i half = _mm256_set1_epi32(1 << (precision - 1));
  // The fourth byte holds a sum of unused bytes; kernels agree on 0.
  const __m128i colours = _mm_set1_epi32(0x00FFFFFF);
  const std::uint32_t groups = kGroups == 0 ? filter.groups : kGroups;
  const std::size_t step = std::size_t{groups} * 16;
  const std::uint32_t* offsets = filter.offsets.data();
  const std::int16_t* weights = filter.expanded.data();
  const std::uint32_t count = filter.weights->count();
  const auto sums_of = [&](std::uint32_t j) {
    return weighted_pixels<kGroups>(in + offsets[j], weights + step * std::size_t{j},
                                    kGroups == 0 ? filter.used[j] : kGroups);
  };
  const auto four = [&](std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
    const __m256i ab = _mm256_add_epi32(joined(sums_of(a), sums_of(b)), half);
    const __m256i cd = _mm256_add_epi32(joined(sums_of(c), sums_of(d)), half);
    const __m256i words = _mm256_packs_epi32(_mm256_srai_epi32(ab, precision),
                                             _mm256_srai_epi32(cd, precision));  // a c | b d
    const __m256i bytes = _mm256_packus_epi16(words, words);  // a c a c | b d b d
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + kPixel * a),
                     _mm_and_si128(_mm_unpacklo_epi32(_mm256_castsi256_si128(bytes),
                                                      _mm256_extracti128_si256(bytes, 1)),
                                   colours));
  };
  std::uint32_t j = 0;
  for (; j + 4 <= count; j += 4) four(j, j + 1, j + 2, j + 3);
  if (j < count) {  // a short end repeats its last pixel
    const std::uint32_t last = count - 1;
    four(j, std::min(j + 1, last), std::min(j + 2, last), last);
  }
}

void horizontal(const RowFilter& filter, const std::uint8_t* in, std::uint8_t* out) {
  if (filter.groups == 1) return horizontal_of<1>(filter, in, out);
  if (filter.groups == 2) return horizontal_of<2>(filter, in, out);
  horizontal_of<0>(filter, in, out);
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
