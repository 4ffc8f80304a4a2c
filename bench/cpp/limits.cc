// SPDX-License-Identifier: Apache-2.0
// What this machine can do at most, for the benches in Python: a program that prints one JSON line.
//
//   limits jpeg FOLDER PASSES   decode every *.jpg of FOLDER (read before): one decompressor and
//   one
//                               buffer for all, packed RGB rows; images per CPU second
//   limits write MIB PASSES     overwrite cold memory with the widest non-temporal stores, every
//                               value another; GB per CPU second
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "bare_decoder.h"
#include "paired.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stoker::bench {
namespace {

std::vector<std::vector<std::uint8_t>> read_jpegs(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".jpg") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::vector<std::uint8_t>> files;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

void measure_jpeg(const std::string& folder, int passes) {
  const auto files = read_jpegs(folder);
  BareDecoder decoder;
  std::vector<std::uint8_t> pixels(std::size_t{4096} * 4096 * 3);
  const auto pass = [&] {
    for (const auto& file : files) decoder.decode(file, pixels.data());
  };
  pass();
  double best = 1e9;
  for (int i = 0; i < passes; ++i) best = std::min(best, seconds_of(pass));
  std::printf("{\"images_per_cpu_s\": %.2f}\n", static_cast<double>(files.size()) / best);
}

// Values that differ from store to store, as data do: some machines write one constant twice as
// fast as anything else.
#if defined(__x86_64__)
__attribute__((target("avx2"))) void store_wide(std::uint8_t* begin, std::size_t bytes) {
  __m256i value = _mm256_setr_epi64x(1, 2, 3, 4);
  const __m256i step = _mm256_set1_epi64x(0x9E3779B97F4A7C15);
  for (std::size_t at = 0; at + sizeof value <= bytes; at += sizeof value) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(begin + at), value);
    value = _mm256_add_epi64(value, step);
  }
  _mm_sfence();
}

void store_narrow(std::uint8_t* begin, std::size_t bytes) {
  __m128i value = _mm_set_epi64x(1, 2);
  const __m128i step = _mm_set1_epi64x(0x9E3779B97F4A7C15);
  for (std::size_t at = 0; at + sizeof value <= bytes; at += sizeof value) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(begin + at), value);
    value = _mm_add_epi64(value, step);
  }
  _mm_sfence();
}
#endif

void store_past_cache(std::vector<std::uint8_t>& memory) {
  const std::size_t skipped = 64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64;
  std::uint8_t* const begin = memory.data() + skipped;
  const std::size_t bytes = memory.size() - skipped;
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  has_avx2 ? store_wide(begin, bytes) : store_narrow(begin, bytes);
#else
  for (std::size_t i = 0; i < bytes; ++i) begin[i] = static_cast<std::uint8_t>(i * 31);
#endif
}

void measure_write(std::size_t mib, int passes) {
  std::vector<std::uint8_t> memory(mib << 20);
  double best = 1e9;
  for (int i = 0; i < passes; ++i) {
    best = std::min(best, seconds_of([&] { store_past_cache(memory); }));
  }
  std::printf("{\"gb_per_cpu_s\": %.3f}\n", static_cast<double>(memory.size()) / best * 1e-9);
}

}  // namespace
}  // namespace stoker::bench

int main(int argc, char** argv) {
  const std::string question = argc == 4 ? argv[1] : "";
  if (question == "jpeg") {
    stoker::bench::measure_jpeg(argv[2], std::atoi(argv[3]));
  } else if (question == "write") {
    stoker::bench::measure_write(static_cast<std::size_t>(std::atoi(argv[2])), std::atoi(argv[3]));
  } else {
    std::fprintf(stderr, "usage: limits jpeg FOLDER PASSES | limits write MIB PASSES\n");
    return 2;
  }
  return 0;
}
