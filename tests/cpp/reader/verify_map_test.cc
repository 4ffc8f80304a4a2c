// SPDX-License-Identifier: Apache-2.0
#include "reader/verify_map.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "in_child.h"

namespace stoker {
namespace {

using test::in_child;

TEST(VerifyMapTest, StartsUnverifiedAndMarksOne) {
  VerifyMap map(10'000);
  for (std::size_t i = 0; i < 10'000; ++i) ASSERT_FALSE(map.verified(i));
  map.mark(4096);
  map.mark(4096);
  for (std::size_t i = 0; i < 10'000; ++i) ASSERT_EQ(map.verified(i), i == 4096);
}

TEST(VerifyMapTest, OfNoChunks) { const VerifyMap map(0); }

TEST(VerifyMapTest, MapsAreApart) {
  VerifyMap one(4);
  const VerifyMap other(4);
  one.mark(2);
  EXPECT_FALSE(other.verified(2));
}

TEST(VerifyMapTest, AChildSeesItsParentsMarks) {
  VerifyMap map(3);
  map.mark(1);
  EXPECT_EQ(in_child([&] { return map.verified(1) && !map.verified(0) ? 7 : 0; }), 7);
}

TEST(VerifyMapTest, ParentAndSiblingsSeeAChildsMarks) {
  VerifyMap map(3);
  EXPECT_EQ(in_child([&] {
              map.mark(0);
              return in_child([&] {  // a grandchild
                map.mark(2);
                return 0;
              });
            }),
            0);
  EXPECT_TRUE(map.verified(0));
  EXPECT_FALSE(map.verified(1));
  EXPECT_TRUE(map.verified(2));
  EXPECT_EQ(in_child([&] { return map.verified(0) && map.verified(2) ? 7 : 0; }), 7);
}

TEST(VerifyMapTest, AChildMayDropItsCopy) {
  auto map = std::make_unique<VerifyMap>(3);
  EXPECT_EQ(in_child([&] {
              map->mark(1);
              map.reset();
              return 0;
            }),
            0);
  EXPECT_TRUE(map->verified(1));
}

TEST(VerifyMapTest, ManyThreads) {
  VerifyMap map(1000);
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&map, t] {
      for (std::size_t i = t; i < 1000; i += 2) {
        if (!map.verified(i)) map.mark(i);
      }
    });
  }
  threads.clear();
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_TRUE(map.verified(i));
}

}  // namespace
}  // namespace stoker
