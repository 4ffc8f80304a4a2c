// SPDX-License-Identifier: Apache-2.0
#include "base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

namespace stoker {
namespace {

static_assert(!std::is_copy_constructible_v<UniqueFd>);
static_assert(!std::is_convertible_v<int, UniqueFd>);

int open_null() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFdTest, ClosesOnDestruction) {
  const int fd = open_null();
  {
    const UniqueFd owner(fd);
    EXPECT_TRUE(owner);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(UniqueFdTest, DescriptorZeroCounts) {
  UniqueFd zero(0);
  EXPECT_TRUE(zero);
  EXPECT_EQ(zero.release(), 0);
  EXPECT_FALSE(UniqueFd());
}

TEST(UniqueFdTest, MovingKeepsOneOwner) {
  const int fd = open_null();
  UniqueFd first(fd);
  {
    UniqueFd second(std::move(first));
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): the contract
    EXPECT_EQ(second.get(), fd);
    first = std::move(second);
  }
  EXPECT_TRUE(is_open(fd));
  UniqueFd& same = first;
  first = std::move(same);
  EXPECT_EQ(first.get(), fd);
  EXPECT_TRUE(is_open(fd));
}

TEST(UniqueFdTest, AssignmentAndResetCloseTheOldOne) {
  const int old_fd = open_null();
  const int new_fd = open_null();
  UniqueFd owner(old_fd);
  owner = UniqueFd(new_fd);
  EXPECT_FALSE(is_open(old_fd));
  EXPECT_TRUE(is_open(new_fd));
  owner.reset();
  EXPECT_FALSE(is_open(new_fd));
}

TEST(UniqueFdTest, ReleaseLeavesItOpen) {
  const int fd = open_null();
  EXPECT_EQ(UniqueFd(fd).release(), fd);
  ASSERT_TRUE(is_open(fd));
  ::close(fd);
}

}  // namespace
}  // namespace stoker
