// SPDX-License-Identifier: Apache-2.0
#include "engine/slab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <thread>

#include "error_of.h"

namespace stoker {
namespace {

constexpr std::size_t kBytes = 10'000;

TEST(SlabPoolTest, GivesMemoryOfItsSize) {
  SlabPool pool(kBytes, 2);
  const Slab slab = pool.take();
  EXPECT_EQ(slab.memory.size(), kBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slab.memory.data()) % 64, 0U);
  std::ranges::fill(slab.memory, std::uint8_t{7});
}

TEST(SlabPoolTest, ADroppedSlabIsUsedAgain) {
  SlabPool pool(kBytes, 2);
  const std::uint8_t* memory = pool.take().memory.data();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(pool.take().memory.data(), memory);
  EXPECT_EQ(pool.allocated(), 1U);
}

TEST(SlabPoolTest, AHeldSlabIsNot) {
  SlabPool pool(kBytes, 2);
  std::vector<Slab> held;
  std::set<const std::uint8_t*> places;
  for (int i = 0; i < 20; ++i) {
    held.push_back(pool.take());
    EXPECT_TRUE(places.insert(held.back().memory.data()).second);
  }
  const std::shared_ptr<void> copy = held[3].owner;  // one copy is enough
  const std::uint8_t* kept = held[3].memory.data();
  held.clear();
  for (int i = 0; i < 20; ++i) {
    held.push_back(pool.take());
    EXPECT_NE(held.back().memory.data(), kept);
  }
}

TEST(SlabPoolTest, KeepsNoMoreThanItsSpares) {
  for (const std::size_t spare : {std::size_t{0}, std::size_t{1}, std::size_t{3}}) {
    SlabPool pool(kBytes, spare);
    std::vector<Slab> held;
    for (int i = 0; i < 5; ++i) held.push_back(pool.take());
    EXPECT_EQ(pool.allocated(), 5U);
    held.clear();
    for (int i = 0; i < 5; ++i) held.push_back(pool.take());
    EXPECT_EQ(pool.allocated(), 10 - spare);
  }
}

TEST(SlabPoolTest, SlabsOutliveTheirPool) {
  Slab slab;
  {
    SlabPool pool(kBytes, 2);
    slab = pool.take();
  }
  std::ranges::fill(slab.memory, std::uint8_t{7});
  EXPECT_EQ(std::ranges::count(slab.memory, 7), static_cast<std::ptrdiff_t>(kBytes));
  slab.owner.reset();
}

TEST(SlabPoolTest, DroppedOnAnotherThread) {
  SlabPool pool(kBytes, 2);
  Slab slab = pool.take();
  const std::uint8_t* memory = slab.memory.data();
  std::thread([gone = std::move(slab)]() mutable { gone.owner.reset(); }).join();
  EXPECT_EQ(pool.take().memory.data(), memory);
}

TEST(SlabPoolTest, MemoryThatCannotBeHad) {
  SlabPool pool(~std::size_t{0}, 2);
  EXPECT_EQ(test::error_of([&] { return pool.take(); }).code(), ErrorCode::kOutOfMemory);
}

// Each thread marks what it holds; a slab in two hands would show another's mark.
TEST(SlabPoolTest, ManyThreads) {
  SlabPool pool(64, 3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&pool, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<Slab> held;
      const auto mark = static_cast<std::uint8_t>(t + 1);
      for (int i = 0; i < 2000; ++i) {
        held.push_back(pool.take());
        std::ranges::fill(held.back().memory, mark);
        if (held.size() < 1 + random() % 4) continue;
        for (const Slab& slab : held) ASSERT_EQ(std::ranges::count(slab.memory, mark), 64);
        held.clear();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace stoker
