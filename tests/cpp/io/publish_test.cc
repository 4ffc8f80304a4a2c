// SPDX-License-Identifier: Apache-2.0
// publish() of io/file.h: how a file appears.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "error_of.h"
#include "io/file.h"
#include "temp_dir.h"

namespace stoker {
namespace {

using test::error_of;
using test::read_text;
using test::TempDir;
using test::write_text;

bool exists(const std::string& path) { return std::filesystem::exists(path); }

// The two ways in which a file system may refuse to replace.
using Publish = void (*)(const std::string&, const std::string&);
void by_rename(const std::string& tmp, const std::string& final_path) {
  publish(tmp, final_path, Overwrite::kRefuse);
}
class RefusingPublishTest : public ::testing::TestWithParam<Publish> {
 protected:
  ErrorCode code_of_publish(const std::string& tmp, const std::string& final_path) {
    return error_of([&] {
             GetParam()(tmp, final_path);
             return 0;
           })
        .code();
  }
  TempDir dir_;
};
INSTANTIATE_TEST_SUITE_P(BothWays, RefusingPublishTest,
                         ::testing::Values(&by_rename, &internal::publish_by_link),
                         [](const auto& way) { return way.index == 0 ? "rename" : "link"; });

TEST_P(RefusingPublishTest, GivesTheFinalName) {
  write_text(dir_ / "tmp", "new");
  GetParam()(dir_ / "tmp", dir_ / "final");
  EXPECT_EQ(read_text(dir_ / "final"), "new");
  EXPECT_FALSE(exists(dir_ / "tmp"));
}

TEST_P(RefusingPublishTest, KeepsBothFilesWhenTheNameIsTaken) {
  write_text(dir_ / "tmp", "new");
  write_text(dir_ / "final", "old");
  EXPECT_EQ(code_of_publish(dir_ / "tmp", dir_ / "final"), ErrorCode::kAlreadyExists);
  EXPECT_EQ(read_text(dir_ / "final"), "old");
  EXPECT_EQ(read_text(dir_ / "tmp"), "new");
}

TEST_P(RefusingPublishTest, ADanglingLinkCountsAsTaken) {
  write_text(dir_ / "tmp", "new");
  std::filesystem::create_symlink(dir_ / "nowhere", dir_ / "final");
  EXPECT_EQ(code_of_publish(dir_ / "tmp", dir_ / "final"), ErrorCode::kAlreadyExists);
  EXPECT_TRUE(std::filesystem::is_symlink(dir_ / "final"));
  EXPECT_FALSE(exists(dir_ / "nowhere"));
}

TEST_P(RefusingPublishTest, ErrorsNameTheCause) {
  EXPECT_EQ(code_of_publish(dir_ / "none", dir_ / "final"), ErrorCode::kNotFound);
  EXPECT_FALSE(exists(dir_ / "final"));
  write_text(dir_ / "tmp", "new");
  EXPECT_EQ(code_of_publish(dir_ / "tmp", dir_ / "no/such/dir"), ErrorCode::kNotFound);
  EXPECT_EQ(read_text(dir_ / "tmp"), "new");
}

TEST_P(RefusingPublishTest, OfManyWritersExactlyOneWins) {
  for (int round = 0; round < 30; ++round) {
    const std::string final_path = dir_ / ("final" + std::to_string(round));
    std::atomic<int> winner = -1;
    std::atomic<int> refused = 0;
    std::vector<std::jthread> writers;
    for (int w = 0; w < 4; ++w) {
      writers.emplace_back([&, w] {
        const std::string tmp = final_path + ".tmp" + std::to_string(w);
        write_text(tmp, std::string(1000, static_cast<char>('a' + w)));
        try {
          GetParam()(tmp, final_path);
          EXPECT_EQ(winner.exchange(w), -1);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kAlreadyExists);
          ++refused;
        }
      });
    }
    writers.clear();
    ASSERT_EQ(refused, 3);
    EXPECT_EQ(read_text(final_path), std::string(1000, static_cast<char>('a' + winner)));
  }
}

// An NFS server made the link, its answer was lost, and the client's second try says EEXIST.
TEST(PublishByLinkTest, ALostAnswerIsNotAFailure) {
  const TempDir dir;
  write_text(dir / "tmp", "new");
  ASSERT_EQ(::link((dir / "tmp").c_str(), (dir / "final").c_str()), 0);
  internal::publish_by_link(dir / "tmp", dir / "final");
  EXPECT_EQ(read_text(dir / "final"), "new");
  EXPECT_FALSE(exists(dir / "tmp"));
}

TEST(PublishTest, ReplaceTakesTheName) {
  const TempDir dir;
  write_text(dir / "tmp", "new");
  write_text(dir / "final", "old");
  publish(dir / "tmp", dir / "final", Overwrite::kReplace);
  EXPECT_EQ(read_text(dir / "final"), "new");
  EXPECT_FALSE(exists(dir / "tmp"));
}

TEST(PublishTest, AFailedReplaceKeepsTheOldFile) {
  const TempDir dir;
  write_text(dir / "final", "old");
  const Error error = error_of([&] {
    publish(dir / "none", dir / "final", Overwrite::kReplace);
    return 0;
  });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_EQ(read_text(dir / "final"), "old");
}

// Readers that open the name at any moment see one version whole, never a mixture or a part.
TEST(PublishTest, ReadersNeverSeeAPart) {
  constexpr std::size_t kSize = 200'000;
  const TempDir dir;
  write_text(dir / "final", std::string(kSize, 'a'));
  std::atomic<bool> stop = false;
  std::atomic<int> versions_seen = 0;
  std::vector<std::jthread> readers;
  for (int r = 0; r < 3; ++r) {
    readers.emplace_back([&] {
      std::uint8_t last = 0;
      while (!stop) {
        const File file = File::open(dir / "final");
        ASSERT_EQ(file.size(), kSize);
        std::vector<std::uint8_t> bytes(kSize);
        file.read_exact(0, bytes);
        ASSERT_EQ(std::count(bytes.begin(), bytes.end(), bytes[0]),
                  static_cast<std::ptrdiff_t>(kSize));
        if (bytes[0] != last) ++versions_seen;
        last = bytes[0];
      }
    });
  }
  // On a busy machine, until the readers had their turn.
  for (int version = 1; version <= 150 || (versions_seen <= 10 && version < 20'000); ++version) {
    File out = File::create(dir / "tmp");
    const std::string half(kSize / 2, static_cast<char>('a' + version % 26));
    out.append({as_bytes(half)});
    out.append({as_bytes(half)});
    publish(dir / "tmp", dir / "final", Overwrite::kReplace);
  }
  stop = true;
  readers.clear();
  EXPECT_GT(versions_seen, 10);  // otherwise the readers did not run beside the writer
}

}  // namespace
}  // namespace stoker
