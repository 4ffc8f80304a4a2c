// SPDX-License-Identifier: Apache-2.0
#include "io/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "error_of.h"
#include "io/file.h"
#include "smaps.h"
#include "temp_dir.h"

namespace stoker {
namespace {

using test::error_of;
using test::TempDir;
using test::write_text;

std::string text_of(const Bytes& bytes) { return {bytes.span().begin(), bytes.span().end()}; }

// Text whose every page is different.
std::string long_text(std::size_t size) {
  std::string text;
  while (text.size() < size) text += std::to_string(text.size()) + ",";
  text.resize(size);
  return text;
}

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator fds("/proc/self/fd");
  return std::distance(begin(fds), end(fds));
}

std::size_t page_size() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

// Linux 5.14 and newer; older kernels only read ahead.
bool kernel_can_populate() {
#ifdef MADV_POPULATE_READ
  return ::madvise(nullptr, 0, MADV_POPULATE_READ) == 0;
#else
  return false;
#endif
}

TEST(MappedFileTest, ShowsTheWholeFile) {
  const TempDir dir;
  for (const std::size_t size :
       {std::size_t{1}, page_size() - 1, page_size(), page_size() + 1, std::size_t{3'000'001}}) {
    write_text(dir / "a", long_text(size));
    for (const AccessHint hint :
         {AccessHint::kNormal, AccessHint::kRandom, AccessHint::kSequential}) {
      EXPECT_EQ(text_of(map_file(dir / "a", hint)), long_text(size));
    }
  }
}

TEST(MappedFileTest, AnEmptyFileGivesEmptyBytes) {
  const TempDir dir;
  write_text(dir / "a", "");
  const Bytes bytes = map_file(dir / "a");
  EXPECT_TRUE(bytes.empty());
  advise(bytes.span(), AccessHint::kRandom);
  populate(bytes.span(), dir / "a");
}

TEST(MappedFileTest, ErrorsAreThoseOfOpen) {
  const TempDir dir;
  const Error missing = error_of([&] { return map_file(dir / "none"); });
  EXPECT_EQ(missing.code(), ErrorCode::kNotFound);
  EXPECT_EQ(missing.context().path, dir / "none");
  EXPECT_EQ(error_of([&] { return map_file(dir.path()); }).code(), ErrorCode::kInvalidArgument);
}

TEST(MappedFileTest, AViewKeepsUnlinkedBytesAndThenGivesThemBack) {
  const TempDir dir;
  const std::string text = long_text(100'000);
  write_text(dir / "a", text);
  Bytes part;
  {
    const Bytes whole = map_file(dir / "a");
    part = whole.slice(70'000, 10);
  }
  ASSERT_TRUE(remove_file(dir / "a"));
  EXPECT_EQ(text_of(part), text.substr(70'000, 10));
  const std::uint8_t* address = part.data();
  EXPECT_TRUE(test::mapping_at(address));
  part = Bytes();
  EXPECT_FALSE(test::mapping_at(address));
}

TEST(MappedFileTest, AReplacedFileKeepsItsOldBytesInOldViews) {
  const TempDir dir;
  write_text(dir / "a", "old text");
  const Bytes before = map_file(dir / "a");
  write_text(dir / "tmp", "new text");
  publish(dir / "tmp", dir / "a", Overwrite::kReplace);
  EXPECT_EQ(text_of(before), "old text");
  EXPECT_EQ(text_of(map_file(dir / "a")), "new text");
}

TEST(MappedFileTest, AMappingCostsNoDescriptor) {
  const TempDir dir;
  write_text(dir / "a", "text");
  const std::ptrdiff_t before = open_descriptors();
  const Bytes bytes = map_file(dir / "a");
  EXPECT_EQ(open_descriptors(), before);
}

TEST(MappedFileTest, HintsReachTheKernel) {
  const TempDir dir;
  write_text(dir / "a", long_text(100'000));
  const Bytes random = map_file(dir / "a", AccessHint::kRandom);
  const Bytes sequential = map_file(dir / "a", AccessHint::kSequential);
  EXPECT_TRUE(test::mapping_at(random.data())->has("rr"));
  EXPECT_TRUE(test::mapping_at(sequential.data())->has("sr"));
}

TEST(MappedFileTest, AHintForAPartCoversThePagesOfThatPart) {
  const TempDir dir;
  write_text(dir / "a", long_text(8 * page_size()));
  const Bytes bytes = map_file(dir / "a");
  advise(bytes.span().subspan(2 * page_size() + 100, page_size()), AccessHint::kRandom);
  const auto is_random = [&](std::size_t page) {
    return test::mapping_at(bytes.data() + page * page_size())->has("rr");
  };
  EXPECT_FALSE(is_random(1));
  EXPECT_TRUE(is_random(2));
  EXPECT_TRUE(is_random(3));
  EXPECT_FALSE(is_random(4));
}

TEST(MappedFileTest, PopulateBringsEveryPageIn) {
  if (!kernel_can_populate()) GTEST_SKIP() << "needs Linux 5.14";
  const TempDir dir;
  write_text(dir / "a", long_text(300 * page_size()));
  const Bytes bytes = map_file(dir / "a", AccessHint::kRandom);
  ASSERT_EQ(test::mapping_at(bytes.data())->resident_kib, 0U);
  populate(bytes.span().subspan(10, 200 * page_size()), dir / "a");
  EXPECT_GE(test::mapping_at(bytes.data())->resident_kib, 201 * page_size() / 1024);
  populate(bytes.span(), dir / "a");
  EXPECT_EQ(test::mapping_at(bytes.data())->resident_kib, 300 * page_size() / 1024);
}

TEST(MappedFileTest, PopulateOfATruncatedFileThrowsInsteadOfASignal) {
  if (!kernel_can_populate()) GTEST_SKIP() << "needs Linux 5.14";
  const TempDir dir;
  write_text(dir / "a", long_text(10 * page_size()));
  const Bytes bytes = map_file(dir / "a");
  std::filesystem::resize_file(dir / "a", 2 * page_size());
  const Error error = error_of([&] {
    populate(bytes.span(), dir / "a");
    return 0;
  });
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_EQ(error.context().path, dir / "a");
  populate(bytes.span().first(2 * page_size()), dir / "a");  // what is left can be read
}

}  // namespace
}  // namespace stoker
