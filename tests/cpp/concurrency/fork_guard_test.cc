// SPDX-License-Identifier: Apache-2.0
#include "concurrency/fork_guard.h"

#include <gtest/gtest.h>

#include "in_child.h"

namespace stoker {
namespace {

using test::in_child;

TEST(ForkGuardTest, TrueInTheChildOnly) {
  const ForkGuard guard;
  EXPECT_FALSE(guard.forked());
  EXPECT_EQ(in_child([&] { return guard.forked() ? 1 : 0; }), 1);
  EXPECT_FALSE(guard.forked());
}

TEST(ForkGuardTest, GuardsOfTheChildStartFresh) {
  EXPECT_EQ(in_child([] { return ForkGuard().forked() ? 1 : 0; }), 0);
}

TEST(ForkGuardTest, ResetMakesTheChildTheBuilder) {
  ForkGuard guard;
  EXPECT_EQ(in_child([&] {
              guard.reset();
              return guard.forked() ? 1 : 0;
            }),
            0);
}

TEST(ForkGuardTest, EveryGenerationCounts) {
  ForkGuard guard;
  const int seen = in_child([&] {
    const ForkGuard childs_own;
    return in_child([&] { return (guard.forked() ? 1 : 0) + (childs_own.forked() ? 2 : 0); });
  });
  EXPECT_EQ(seen, 3);
}

TEST(ForkGuardTest, EarlierForksDoNotCount) {
  ASSERT_EQ(in_child([] { return 0; }), 0);
  const ForkGuard guard;
  EXPECT_FALSE(guard.forked());
  EXPECT_EQ(in_child([&] { return guard.forked() ? 1 : 0; }), 1);
}

}  // namespace
}  // namespace stoker
