// SPDX-License-Identifier: Apache-2.0
#include "engine/widen.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/host_buffer.h"

namespace stoker {
namespace {

using Buffer = std::vector<std::uint8_t>;

constexpr std::uint8_t kUntouched = 0xA5;
constexpr std::size_t kGuard = 64;

Buffer random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Buffer bytes(size);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

/// A page-aligned target with a guard behind it.
struct Target {
  explicit Target(std::size_t bytes) : buffer(bytes + 2 * kGuard) {
    std::memset(buffer.data(), kUntouched, buffer.size());
  }
  HostBuffer buffer;
};

template <typename T>
void check_values(const std::vector<T>& values) {
  for (const bool streaming : {false, true}) {
    Target target(values.size() * 8);
    widen_to_int64(reinterpret_cast<const std::uint8_t*>(values.data()), sizeof(T),
                   std::is_signed_v<T>, values.size(), target.buffer.data(), streaming);
    finish_streaming();
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::int64_t found = 0;
      std::memcpy(&found, target.buffer.data() + 8 * i, sizeof(found));
      ASSERT_EQ(found, static_cast<std::int64_t>(values[i])) << i;
    }
    ASSERT_EQ(target.buffer.data()[values.size() * 8], kUntouched);
  }
}

template <typename T>
class WidenTest : public testing::Test {};
using Types = testing::Types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t,
                             std::uint32_t, std::int64_t, std::uint64_t>;
TYPED_TEST_SUITE(WidenTest, Types);

TYPED_TEST(WidenTest, KeepsValues) {
  using T = TypeParam;
  constexpr T kLow = std::numeric_limits<T>::min();
  constexpr T kHigh = std::numeric_limits<T>::max();
  check_values<T>({});
  check_values<T>({kHigh});
  check_values<T>({kLow, kHigh, T{0}, T{1}, static_cast<T>(-1), static_cast<T>(kHigh / 2 + 1),
                   kHigh, kLow, T{5}});
  std::mt19937_64 random(sizeof(T));
  std::vector<T> values(1003);
  for (T& value : values) value = static_cast<T>(random());
  check_values(values);
}

// Any count, any alignment of source and target, and not a byte beyond.
TEST(WidenAvx2Test, IsThePortableOne) {
  const Buffer from = random_bytes(4096, 1);
  for (const std::size_t element : {1U, 2U, 4U, 8U}) {
    for (const bool is_signed : {false, true}) {
      for (std::size_t count = 0; count < 140; ++count) {
        for (const std::size_t shift : {0U, 1U, 2U, 3U, 7U, 32U}) {
          for (const bool streaming : {false, true}) {
            Target portable(count * 8);
            Target fast(count * 8);
            internal::widen_portable(from.data() + shift, element, is_signed, count,
                                     portable.buffer.data() + shift);
            widen_to_int64(from.data() + shift, element, is_signed, count,
                           fast.buffer.data() + shift, streaming,
                           count % 2 == 0 ? from.data() + 1024 : nullptr);
            finish_streaming();
            ASSERT_EQ(std::memcmp(portable.buffer.data(), fast.buffer.data(), fast.buffer.size()),
                      0)
                << element << " bytes, " << count << " from " << shift;
          }
        }
      }
    }
  }
}

// The source ends where its memory ends: the sanitizer sees a read beyond.
TEST(WidenAvx2Test, ReadsNothingBeyond) {
  for (const std::size_t element : {1U, 2U, 4U, 8U}) {
    for (std::size_t count = 1; count < 80; ++count) {
      const Buffer from = random_bytes(count * element, 2);
      Target target(count * 8);
      widen_to_int64(from.data(), element, true, count, target.buffer.data(), true);
      finish_streaming();
      // The next row is only asked for, which no address forbids.
      widen_to_int64(from.data(), element, true, count, target.buffer.data(), true,
                     from.data() + count * element);
      finish_streaming();
    }
  }
}

TEST(WidenAvx2Test, SaysHowMuchItDid) {
  const Buffer from = random_bytes(400, 3);
  Target target(800);
  for (const std::size_t element : {1U, 2U, 4U, 8U}) {
    for (std::size_t count = 0; count < 50; ++count) {
      const std::size_t done =
          internal::widen_avx2(from.data(), element, false, count, target.buffer.data(), false);
      ASSERT_LE(done, count);
      ASSERT_EQ(done % 4, 0U);
    }
  }
}

TEST(CopyRowTest, CopiesAnyBytesAnywhere) {
  const Buffer from = random_bytes(5000, 4);
  for (const std::size_t bytes : {0U, 1U, 31U, 32U, 33U, 64U, 1000U, 4096U}) {
    for (const std::size_t from_shift : {0U, 1U, 32U}) {
      for (const std::size_t to_shift : {0U, 1U, 16U, 32U}) {
        for (const bool streaming : {false, true}) {
          Target target(bytes);
          copy_row(from.data() + from_shift, bytes, target.buffer.data() + to_shift, streaming);
          finish_streaming();
          const std::uint8_t* to = target.buffer.data();
          ASSERT_EQ(std::memcmp(to + to_shift, from.data() + from_shift, bytes), 0);
          for (std::size_t i = 0; i < to_shift; ++i) ASSERT_EQ(to[i], kUntouched);
          ASSERT_EQ(to[to_shift + bytes], kUntouched);
        }
      }
    }
  }
}

}  // namespace
}  // namespace stoker
