// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "error_of.h"

namespace stoker {
namespace {

using test::error_of;

TEST(ErrorTest, EveryCodeHasAnOwnName) {
  std::set<std::string_view> names;
  for (int i = 0; i < static_cast<int>(ErrorCode::kCount); ++i) {
    const std::string_view name = error_code_name(static_cast<ErrorCode>(i));
    EXPECT_FALSE(name.empty());
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

// Python finds its exception classes by these names: one that moves raises the wrong class.
TEST(ErrorTest, NamesStandAtTheirCodes) {
  EXPECT_EQ(error_code_name(ErrorCode::kInvalidArgument), "invalid_argument");
  EXPECT_EQ(error_code_name(ErrorCode::kOutOfRange), "out_of_range");
  EXPECT_EQ(error_code_name(ErrorCode::kNotFound), "not_found");
  EXPECT_EQ(error_code_name(ErrorCode::kPermissionDenied), "permission_denied");
  EXPECT_EQ(error_code_name(ErrorCode::kAlreadyExists), "already_exists");
  EXPECT_EQ(error_code_name(ErrorCode::kCorrupt), "corrupt");
  EXPECT_EQ(error_code_name(ErrorCode::kIo), "io");
  EXPECT_EQ(error_code_name(ErrorCode::kOutOfSpace), "out_of_space");
  EXPECT_EQ(error_code_name(ErrorCode::kOutOfMemory), "out_of_memory");
  EXPECT_EQ(error_code_name(ErrorCode::kUnsupported), "unsupported");
  EXPECT_EQ(error_code_name(ErrorCode::kClosed), "closed");
  EXPECT_EQ(error_code_name(ErrorCode::kInternal), "internal");
}

TEST(ErrorTest, TextNamesWhatIsKnown) {
  const auto text = [](ErrorContext context) {
    return std::string(Error(ErrorCode::kCorrupt, "bad header", std::move(context)).what());
  };
  EXPECT_EQ(text({}), "bad header");
  EXPECT_EQ(text({"/d/a.bin", {}}), "bad header [/d/a.bin]");
  EXPECT_EQ(text({"/d/a.bin", 0}), "bad header [/d/a.bin, byte 0]");
  EXPECT_EQ(text({"", 17}), "bad header [byte 17]");
}

TEST(ErrorTest, PartsStayApartFromTheText) {
  const Error error(ErrorCode::kCorrupt, "bad header", {"/d/a.bin", 17});
  EXPECT_EQ(error.message(), "bad header");
  EXPECT_EQ(error.context().path, "/d/a.bin");
  EXPECT_EQ(error.context().offset, 17U);
}

TEST(ErrorTest, ErrnoBecomesACodeTheCallerCanActOn) {
  const std::vector<std::pair<int, ErrorCode>> expected{{ENOENT, ErrorCode::kNotFound},
                                                        {ENOTDIR, ErrorCode::kNotFound},
                                                        {EACCES, ErrorCode::kPermissionDenied},
                                                        {EPERM, ErrorCode::kPermissionDenied},
                                                        {EROFS, ErrorCode::kPermissionDenied},
                                                        {EEXIST, ErrorCode::kAlreadyExists},
                                                        {ENOSPC, ErrorCode::kOutOfSpace},
                                                        {EDQUOT, ErrorCode::kOutOfSpace},
                                                        {EIO, ErrorCode::kIo},
                                                        {EMFILE, ErrorCode::kIo}};
  for (const auto& [value, code] : expected) {
    const Error error = error_of([v = value]() -> int { throw_errno(v, "open", "/d/a.bin"); });
    EXPECT_EQ(error.code(), code) << value;
    EXPECT_EQ(error.context().path, "/d/a.bin");
  }
}

TEST(ErrorTest, ErrnoTextSaysCallReasonAndPath) {
  const Error error = error_of([]() -> int { throw_errno(ENOENT, "open", "/d/a.bin"); });
  EXPECT_STREQ(error.what(), "open failed: No such file or directory [/d/a.bin]");
}

}  // namespace
}  // namespace stoker
