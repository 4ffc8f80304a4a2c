// SPDX-License-Identifier: Apache-2.0
#include "io/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "error_of.h"
#include "temp_dir.h"

namespace stoker {
namespace {

using test::error_of;
using test::read_text;
using test::TempDir;
using test::write_text;

std::string read_at(const File& file, std::uint64_t offset, std::size_t size) {
  std::vector<std::uint8_t> out(size);
  file.read_exact(offset, out);
  return {out.begin(), out.end()};
}

TEST(FileTest, WhatIsAppendedIsRead) {
  const TempDir dir;
  File out = File::create(dir / "a");
  const std::string big(3'000'000, 'b');
  out.append({as_bytes("head"), {}, as_bytes(big), as_bytes("tail"), {}});
  out.append({});
  out.append({as_bytes("!")});
  out.sync();

  const File in = File::open(dir / "a");
  EXPECT_EQ(in.path(), dir / "a");
  EXPECT_EQ(in.size(), 4U + big.size() + 4U + 1U);
  EXPECT_EQ(read_text(dir / "a"), "head" + big + "tail!");
}

TEST(FileTest, EveryRangeInsideIsReadInAnyOrder) {
  const TempDir dir;
  const std::string text = "0123456789";
  write_text(dir / "a", text);
  const File file = File::open(dir / "a");
  for (std::size_t begin = text.size() + 1; begin-- > 0;) {
    for (std::size_t size = 0; begin + size <= text.size(); ++size) {
      EXPECT_EQ(read_at(file, begin, size), text.substr(begin, size));
    }
  }
}

TEST(FileTest, ReadingPastTheEndSaysWhatIsMissing) {
  const TempDir dir;
  write_text(dir / "a", "0123456789");
  const File file = File::open(dir / "a");
  const Error error = error_of([&] { return read_at(file, 6, 10); });
  EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
  EXPECT_NE(error.message().find("expected 10 bytes, found 4"), std::string::npos) << error.what();
  EXPECT_EQ(error.context().path, dir / "a");
  EXPECT_EQ(error.context().offset, 6U);
  EXPECT_EQ(read_at(file, 6, 4), "6789");  // the file is still usable
}

TEST(FileTest, OffsetsNoFileCanHaveAreCorruptToo) {
  const TempDir dir;
  write_text(dir / "a", "0123456789");
  const File file = File::open(dir / "a");
  constexpr auto kMaxOffset = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  for (const std::uint64_t offset :
       {std::uint64_t{10}, std::uint64_t{1} << 40, kMaxOffset - 1, kMaxOffset, kMaxOffset + 1,
        std::numeric_limits<std::uint64_t>::max()}) {
    const Error error = error_of([&] { return read_at(file, offset, 4); });
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << offset << ": " << error.what();
  }
}

TEST(FileTest, OneFileServesManyThreads) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += std::to_string(i);
  write_text(dir / "a", text);
  const File file = File::open(dir / "a");
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t at = t; at + 7 < text.size(); at += 41) {
        ASSERT_EQ(read_at(file, at, 7), text.substr(at, 7));
      }
    });
  }
}

TEST(FileTest, OpenNamesWhatIsWrong) {
  const TempDir dir;
  const Error missing = error_of([&] { return File::open(dir / "none"); });
  EXPECT_EQ(missing.code(), ErrorCode::kNotFound);
  EXPECT_EQ(missing.context().path, dir / "none");
  EXPECT_EQ(error_of([&] { return File::open(dir.path()); }).code(), ErrorCode::kInvalidArgument);
}

TEST(FileTest, CreateNeverTouchesAnExistingFile) {
  const TempDir dir;
  write_text(dir / "a", "precious");
  EXPECT_EQ(error_of([&] { return File::create(dir / "a"); }).code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(read_text(dir / "a"), "precious");
  EXPECT_EQ(error_of([&] { return File::create(dir / "no/such/dir"); }).code(),
            ErrorCode::kNotFound);
}

TEST(FileTest, DescriptorsAreNotInheritedByOtherPrograms) {
  const TempDir dir;
  const File out = File::create(dir / "a");
  const File in = File::open(dir / "a");
  for (const File* file : {&out, &in}) EXPECT_TRUE(::fcntl(file->fd(), F_GETFD) & FD_CLOEXEC);
}

// A file may become 100 bytes long: writev stores a part, and only the next call says why.
TEST(FileTest, AWriteThatIsCutShortIsAnError) {
  const TempDir dir;
  File out = File::create(dir / "a");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{100, before.rlim_max};
  auto* const old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string text(60, 'x');
  const Error error = error_of([&] {
    out.append({as_bytes(text), as_bytes(text)});
    return 0;
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_EQ(error.context().path, dir / "a");
  EXPECT_EQ(out.size(), 100U);
}

TEST(FileTest, RemoveSaysWhetherThereWasOne) {
  const TempDir dir;
  write_text(dir / "a", "x");
  EXPECT_TRUE(remove_file(dir / "a"));
  EXPECT_FALSE(remove_file(dir / "a"));
  const Error error = error_of([&] { return remove_file(dir.path()); });
  EXPECT_NE(error.code(), ErrorCode::kNotFound);
}

TEST(FileTest, SyncDirectoryWantsADirectory) {
  const TempDir dir;
  write_text(dir / "a", "x");
  sync_directory(dir.path());
  for (const std::string& path : {dir / "none", dir / "a"}) {
    const Error error = error_of([&] {
      sync_directory(path);
      return 0;
    });
    EXPECT_EQ(error.code(), ErrorCode::kNotFound) << error.what();
  }
}

}  // namespace
}  // namespace stoker
