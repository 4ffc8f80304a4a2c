// SPDX-License-Identifier: Apache-2.0
#include "io/mount_info.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "temp_dir.h"

namespace stoker {
namespace {

using test::TempDir;

// Rows as Linux writes them: with no, one and two optional fields before the dash.
constexpr const char* kTable = R"(21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
22 21 0:20 / /dev/shm rw,nosuid shared:5 - tmpfs tmpfs rw
23 21 0:50 / /data rw shared:9 master:2 - nfs4 server:/export rw,vers=4.2
24 23 8:2 / /data/local rw - xfs /dev/sdb rw
25 21 0:51 / /mnt/with\040space\134and\011tab rw - lustre mds:/fs rw
26 21 0:52 / /mnt/bucket rw - fuse.s3fs s3fs rw
27 21 0:53 / /mnt/stick rw - fuseblk /dev/sdc1 rw
28 21 8:3 / /mnt/twice rw - ext4 /dev/sdd rw
29 28 0:54 / /mnt/twice rw - cifs //host/share rw
)";

MountInfo find(const std::string& path, const std::string& table = kTable) {
  std::istringstream rows(table);
  return internal::find_mount(rows, path);
}

TEST(MountInfoTest, TheDeepestMountThatHoldsThePathWins) {
  EXPECT_EQ(find("/home/me").mount_point, "/");
  EXPECT_EQ(find("/").mount_point, "/");
  EXPECT_EQ(find("/data").mount_point, "/data");
  EXPECT_EQ(find("/data/set/0").mount_point, "/data");
  EXPECT_EQ(find("/data/local/x").mount_point, "/data/local");
}

TEST(MountInfoTest, APrefixOfANameIsNotAParent) {
  EXPECT_EQ(find("/database/x").mount_point, "/");
  EXPECT_EQ(find("/data/local2").mount_point, "/data");
}

TEST(MountInfoTest, ALaterMountCoversAnEarlierOne) { EXPECT_EQ(find("/mnt/twice/x").type, "cifs"); }

TEST(MountInfoTest, OctalEscapesArePartOfTheName) {
  const MountInfo info = find("/mnt/with space\\and\ttab/file");
  EXPECT_EQ(info.mount_point, "/mnt/with space\\and\ttab");
  EXPECT_EQ(info.type, "lustre");
  EXPECT_EQ(find("/mnt/with\\040space\\134and\\011tab/file").mount_point, "/");
}

TEST(MountInfoTest, ABackslashWithoutThreeOctalDigitsIsItself) {
  const std::string table = "1 0 8:1 / /a\\9zz rw - ext4 d rw\n2 0 8:1 / /b\\04 rw - xfs d rw\n";
  EXPECT_EQ(find("/a\\9zz/x", table).type, "ext4");
  EXPECT_EQ(find("/b\\04", table).type, "xfs");
}

TEST(MountInfoTest, KindsFollowTheType) {
  EXPECT_EQ(find("/home").kind, MountKind::kLocal);
  EXPECT_EQ(find("/dev/shm/x").kind, MountKind::kMemory);
  EXPECT_EQ(find("/mnt/stick").kind, MountKind::kLocal);
  for (const char* type : {"nfs", "nfs4", "lustre", "gpfs", "cifs", "9p", "ceph", "beegfs", "fuse",
                           "fuse.s3fs", "fuse.gcsfuse"}) {
    const std::string row = std::string("1 0 0:1 / / rw - ") + type + " source rw\n";
    EXPECT_EQ(find("/x", row).kind, MountKind::kNetwork) << type;
    EXPECT_EQ(find("/x", row).type, type);
  }
}

TEST(MountInfoTest, UnreadableTablesAreUnknown) {
  for (const char* table :
       {"", "\n\n", "garbage", "1 0 8:1 / / rw shared:1", "1 0 8:1 / / rw - \n"}) {
    const MountInfo info = find("/x", table);
    EXPECT_EQ(info.kind, MountKind::kUnknown) << table;
    EXPECT_TRUE(info.mount_point.empty()) << table;
  }
  EXPECT_EQ(find("/x", std::string("garbage\n") + kTable).kind, MountKind::kLocal);
}

TEST(MountInfoTest, TheRealTableIsUnderstood) {
  EXPECT_EQ(mount_info("/proc/self/status").type, "proc");
  EXPECT_EQ(mount_info("/proc/self/status").mount_point, "/proc");
}

TEST(MountInfoTest, PathsNeedNotExistYet) {
  EXPECT_EQ(mount_info("/proc/no/such/thing").mount_point, "/proc");
  EXPECT_EQ(mount_info("/no-such-thing/").mount_point, "/");
  EXPECT_NE(mount_info("no-such-relative/thing").kind, MountKind::kUnknown);
  EXPECT_NE(mount_info("").kind, MountKind::kUnknown);
}

TEST(MountInfoTest, SymbolicLinksAreFollowed) {
  const TempDir dir;
  std::filesystem::create_directory_symlink("/proc", dir / "link");
  EXPECT_EQ(mount_info(dir / "link/version").mount_point, "/proc");
  EXPECT_EQ(mount_info(dir / "link/missing").mount_point, "/proc");
}

}  // namespace
}  // namespace stoker
