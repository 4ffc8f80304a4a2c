// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "error_of.h"

namespace stoker {
namespace {

using test::error_of;

std::string text_of(const Bytes& bytes) { return {bytes.span().begin(), bytes.span().end()}; }

TEST(BytesTest, DefaultIsEmptyAndOwnsNothing) {
  const Bytes bytes;
  EXPECT_TRUE(bytes.empty());
  EXPECT_EQ(bytes.owner(), nullptr);
  EXPECT_TRUE(bytes.slice(0, 0).empty());
}

TEST(BytesTest, CopyOfDoesNotFollowItsSource) {
  std::string source = "hello";
  const Bytes copy = Bytes::copy_of(as_bytes(source));
  source.assign(5, 'x');
  EXPECT_EQ(text_of(copy), "hello");
}

TEST(BytesTest, EverySliceInsideIsTheSameMemory) {
  const Bytes whole = Bytes::copy_of(as_bytes("0123456789"));
  for (std::size_t begin = 0; begin <= whole.size(); ++begin) {
    for (std::size_t length = 0; begin + length <= whole.size(); ++length) {
      const Bytes part = whole.slice(begin, length);
      EXPECT_EQ(part.data(), whole.data() + begin);
      EXPECT_EQ(part.size(), length);
    }
  }
  EXPECT_EQ(text_of(whole.slice(2, 6).slice(1, 3)), "345");
}

TEST(BytesTest, SliceOutsideIsRefusedAlsoWhenTheSumOverflows) {
  constexpr std::size_t kMax = std::numeric_limits<std::size_t>::max();
  const Bytes whole = Bytes::copy_of(as_bytes("0123456789"));
  const std::vector<std::pair<std::size_t, std::size_t>> outside{
      {0, 11}, {10, 1}, {11, 0}, {5, 6}, {5, kMax - 2}, {kMax, 1}, {kMax, kMax}, {1, kMax}};
  for (const auto& [offset, length] : outside) {
    const Error error = error_of([&, o = offset, n = length] { return whole.slice(o, n); });
    EXPECT_EQ(error.code(), ErrorCode::kOutOfRange) << offset << "+" << length;
  }
  // A slice of a slice is bounded by the slice, not by what its owner holds.
  EXPECT_EQ(error_of([&] { return whole.slice(0, 3).slice(2, 2); }).code(), ErrorCode::kOutOfRange);
}

TEST(BytesTest, OwnerLivesExactlyAsLongAsTheLastView) {
  auto memory = std::make_shared<const std::vector<std::uint8_t>>(100, std::uint8_t{7});
  const std::weak_ptr<const void> watch = memory;
  Bytes slice;
  {
    const ByteSpan view(*memory);
    const Bytes whole(view, std::move(memory));
    const Bytes copy = whole;
    slice = copy.slice(99, 1);
  }
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(slice.span()[0], 7);
  slice = Bytes();
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace stoker
