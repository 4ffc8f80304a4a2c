// SPDX-License-Identifier: Apache-2.0
// What kind of file system a path is on.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

namespace stoker {

enum class MountKind : std::uint8_t { kLocal, kMemory, kNetwork, kUnknown };

struct MountInfo {
  MountKind kind = MountKind::kUnknown;
  std::string type;         // as in /proc: "ext4", "nfs4", "tmpfs", "fuse.s3fs" ...
  std::string mount_point;  // the directory it is mounted on
};

/// Looks `path` (or its nearest existing parent) up in /proc/self/mountinfo. Never throws for a
/// path that does not exist; kUnknown when the table cannot be read. NFS, Lustre, GPFS, CIFS, 9p,
/// Ceph, BeeGFS and every fuse.* type count as kNetwork.
[[nodiscard]] MountInfo mount_info(const std::string& path);

namespace internal {
/// The row of `table` (text as in /proc/self/mountinfo) that holds the absolute `path`. Here for
/// tests.
[[nodiscard]] MountInfo find_mount(std::istream& table, const std::string& path);
}  // namespace internal

}  // namespace stoker
