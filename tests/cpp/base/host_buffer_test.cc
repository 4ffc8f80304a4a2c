// SPDX-License-Identifier: Apache-2.0
#include "base/host_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "error_of.h"
#include "smaps.h"

namespace stoker {
namespace {

static_assert(!std::is_copy_constructible_v<HostBuffer>);
static_assert(std::is_nothrow_move_constructible_v<HostBuffer>);

constexpr std::size_t kMiB = std::size_t{1} << 20;

void fill(HostBuffer& buffer) {
  for (std::size_t i = 0; i < buffer.size(); ++i) buffer.data()[i] = static_cast<std::uint8_t>(i);
}

bool counts_up(ByteSpan bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != static_cast<std::uint8_t>(i)) return false;
  }
  return true;
}

TEST(HostBufferTest, EverySizeIsAlignedAndWritableToItsEnd) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{4095}, std::size_t{4096},
                                 std::size_t{4097}, 2 * kMiB - 1, 2 * kMiB, 2 * kMiB + 1}) {
    HostBuffer buffer(size);
    ASSERT_EQ(buffer.size(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % HostBuffer::kAlignment, 0U) << size;
    fill(buffer);
    EXPECT_TRUE(counts_up(buffer.span()));
  }
}

TEST(HostBufferTest, SizeZeroIsEmpty) {
  HostBuffer buffer(0);
  EXPECT_TRUE(buffer.span().empty());
  EXPECT_TRUE(std::move(buffer).share(0).empty());
}

TEST(HostBufferTest, BigBuffersAskForHugePages) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) {
    GTEST_SKIP() << "this kernel has no transparent huge pages";
  }
  HostBuffer buffer(8 * kMiB);
  for (const std::size_t offset : {std::size_t{0}, 8 * kMiB - 1}) {
    const auto facts = test::mapping_at(buffer.data() + offset);
    ASSERT_TRUE(facts);
    EXPECT_TRUE(facts->has("hg")) << facts->flags;
  }
}

TEST(HostBufferTest, ImpossibleSizesThrowAndLeaveTheBufferAlone) {
  constexpr std::size_t kHuge = std::numeric_limits<std::size_t>::max();
  EXPECT_THROW(HostBuffer{kHuge}, std::bad_alloc);
  HostBuffer buffer(1000);
  fill(buffer);
  EXPECT_THROW(buffer.grow(kHuge, 1000), std::bad_alloc);
  EXPECT_EQ(buffer.size(), 1000U);
  EXPECT_TRUE(counts_up(buffer.span()));
}

TEST(HostBufferTest, GrowKeepsWhatWasUsed) {
  HostBuffer buffer;
  std::size_t used = 0;
  for (const std::size_t size : {std::size_t{1}, std::size_t{10}, std::size_t{5000},
                                 std::size_t{5001}, 3 * kMiB, 7 * kMiB}) {
    buffer.grow(size, used);
    ASSERT_GE(buffer.size(), size);
    ASSERT_TRUE(counts_up(buffer.span().first(used)));
    for (; used < size; ++used) buffer.data()[used] = static_cast<std::uint8_t>(used);
  }
}

TEST(HostBufferTest, GrowNeverShrinksOrMovesWithoutNeed) {
  HostBuffer buffer(10'000);
  const std::uint8_t* before = buffer.data();
  buffer.grow(10, 0);
  buffer.grow(10'000, 10'000);
  EXPECT_EQ(buffer.size(), 10'000U);
  EXPECT_EQ(buffer.data(), before);
}

// Appending byte by byte must not copy everything every time.
TEST(HostBufferTest, GrowingByOneCopiesRarely) {
  HostBuffer buffer;
  int moves = 0;
  for (std::size_t size = 1; size <= 4 * kMiB; ++size) {
    const std::uint8_t* before = buffer.data();
    buffer.grow(size, size - 1);
    moves += buffer.data() != before ? 1 : 0;
    buffer.data()[size - 1] = 1;
  }
  EXPECT_LT(moves, 40);
}

TEST(HostBufferTest, MovingHandsTheMemoryOver) {
  HostBuffer first(100);
  fill(first);
  const std::uint8_t* memory = first.data();
  HostBuffer second(std::move(first));
  EXPECT_EQ(second.data(), memory);
  EXPECT_EQ(std::as_const(first).data(), nullptr);  // NOLINT(bugprone-use-after-move): the contract
  EXPECT_EQ(first.size(), 0U);
  HostBuffer third(50);
  third = std::move(second);
  EXPECT_EQ(third.data(), memory);
  EXPECT_EQ(third.size(), 100U);
  HostBuffer& same = third;
  third = std::move(same);
  EXPECT_EQ(third.data(), memory);
}

TEST(HostBufferTest, SharedBytesOutliveTheBufferWithoutACopy) {
  Bytes bytes;
  {
    HostBuffer buffer(3 * kMiB);
    fill(buffer);
    const std::uint8_t* memory = buffer.data();
    bytes = std::move(buffer).share(kMiB);
    EXPECT_EQ(bytes.data(), memory);
    EXPECT_EQ(buffer.size(), 0U);  // NOLINT(bugprone-use-after-move): the contract
  }
  EXPECT_EQ(bytes.size(), kMiB);
  EXPECT_TRUE(counts_up(bytes.span()));
}

TEST(HostBufferTest, MoreThanItHoldsCannotBeShared) {
  HostBuffer buffer(100);
  EXPECT_EQ(test::error_of([&] { return std::move(buffer).share(101); }).code(),
            ErrorCode::kOutOfRange);
}

}  // namespace
}  // namespace stoker
