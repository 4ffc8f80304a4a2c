// SPDX-License-Identifier: Apache-2.0
#include "codec/checksum.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace stoker {
namespace {

std::vector<std::uint8_t> pattern(std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::uint8_t>((static_cast<std::uint32_t>(i) * 2654435761u) >> 24);
  }
  return bytes;
}

// Lengths around the places where XXH3 changes its algorithm; values from the xxhash module of PyPI
// (4.0.1). Checksums are stored in datasets: a change here makes every dataset unreadable.
constexpr std::pair<std::size_t, std::uint64_t> kGolden[] = {
    {0, 0x2d06800538d394c2},    {1, 0xc44bdff4074eecdb},    {3, 0xe14090f554a5ea90},
    {4, 0x2e8d078a566e9749},    {8, 0xcd1c7f88482fcaef},    {9, 0xbfe43def699fa9e3},
    {16, 0x81e9eb8634460bb9},   {17, 0x9998430fd0a655be},   {128, 0x75eca5c5d5594884},
    {129, 0xa05da42e7a4e4667},  {240, 0x5eb2467c8c9e3969},  {241, 0x2d431e984c441f15},
    {1024, 0xe99def1145f12936}, {1025, 0x83cba9b371e4e7f4}, {5000, 0xb9daede5f99f736e}};

TEST(Checksum, MatchesTheReferenceImplementation) {
  for (const auto& [size, hash] : kGolden) EXPECT_EQ(xxh3_64(pattern(size)), hash) << size;
}

TEST(Checksum, HeadAndBodyHashAsIfJoined) {
  for (const auto& [size, hash] : kGolden) {
    const std::vector<std::uint8_t> bytes = pattern(size);
    const ByteSpan all(bytes);
    for (const std::size_t cut : {std::size_t{0}, size / 3, size}) {
      EXPECT_EQ(xxh3_64(all.first(cut), all.subspan(cut)), hash) << size << " cut at " << cut;
    }
  }
}

TEST(Checksum, EmptySpansWithoutMemoryAreFine) {
  EXPECT_EQ(xxh3_64(ByteSpan{}), kGolden[0].second);
  EXPECT_EQ(xxh3_64(ByteSpan{}, ByteSpan{}), kGolden[0].second);
}

}  // namespace
}  // namespace stoker
