// SPDX-License-Identifier: Apache-2.0
#include "io/mount_info.h"

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>

namespace stoker {
namespace {

constexpr std::array<std::string_view, 12> kNetworkTypes{"nfs",    "nfs4",  "lustre", "gpfs",
                                                         "cifs",   "smb3",  "9p",     "ceph",
                                                         "beegfs", "panfs", "afs",    "glusterfs"};

MountKind kind_of(std::string_view type) noexcept {
  for (const std::string_view network : kNetworkTypes) {
    if (type == network) return MountKind::kNetwork;
  }
  if (type == "fuse" || type.starts_with("fuse.")) return MountKind::kNetwork;
  if (type == "tmpfs" || type == "ramfs") return MountKind::kMemory;
  return MountKind::kLocal;
}

bool is_octal(std::string_view digits) noexcept {
  return std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '7'; });
}

// Mount points in /proc/self/mountinfo write space, tab, newline and backslash as \ooo.
std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text.substr(i + 1, 3))) {
      out.push_back(static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                      (text[i + 3] - '0')));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

// Absolute, without symlinks; for a path that does not exist its nearest existing parent.
std::string existing_parent(std::string path) {
  while (!path.empty()) {
    const std::unique_ptr<char, decltype(&::free)> real(::realpath(path.c_str(), nullptr), &::free);
    if (real) return real.get();
    const std::size_t slash = path.find_last_of('/');
    path = slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
    if (path == "/") return path;
  }
  return "/";
}

// "/data" holds "/data" and "/data/x", not "/database".
bool contains(const std::string& mount_point, const std::string& path) {
  if (!path.starts_with(mount_point)) return false;
  return mount_point == "/" || path.size() == mount_point.size() || path[mount_point.size()] == '/';
}

}  // namespace

MountInfo internal::find_mount(std::istream& table, const std::string& path) {
  MountInfo best;
  std::string line;
  while (std::getline(table, line)) {
    // "36 35 98:0 /root /mount/point options optional... - type source options"
    std::istringstream fields(line);
    std::string word;
    std::string point;
    for (int i = 0; i < 5; ++i) fields >> (i == 4 ? point : word);
    point = unescape(point);
    // The longest mount point wins; of two mounts on one point, the later one covers the earlier.
    if (!contains(point, path) || point.size() < best.mount_point.size()) continue;
    while (fields >> word && word != "-") {
    }
    std::string type;
    fields >> type;
    if (!type.empty()) best = {kind_of(type), type, point};
  }
  return best;
}

MountInfo mount_info(const std::string& path) {
  std::ifstream table("/proc/self/mountinfo");
  return internal::find_mount(table, existing_parent(path));
}

}  // namespace stoker
