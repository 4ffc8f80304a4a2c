// SPDX-License-Identifier: Apache-2.0
#include "io/file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <limits>
#include <vector>

#include "base/error.h"

namespace stoker {
namespace {

UniqueFd open_or_throw(const std::string& path, int flags, const char* what) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);  // the umask decides
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) throw_errno(errno, what, path);
  return UniqueFd(fd);
}

void rename_without_replacing(const std::string& tmp, const std::string& final_path) {
  const long done = ::syscall(SYS_renameat2, AT_FDCWD, tmp.c_str(), AT_FDCWD, final_path.c_str(),
                              RENAME_NOREPLACE);
  if (done == 0) return;
  if (errno != EINVAL && errno != ENOSYS) throw_errno(errno, "publish", final_path);
  internal::publish_by_link(tmp, final_path);
}

bool same_file(const std::string& a, const std::string& b) {
  struct stat first {};
  struct stat second {};
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

[[noreturn]] void throw_short(const std::string& path, std::uint64_t offset, std::size_t expected,
                              std::size_t found) {
  throw Error(ErrorCode::kCorrupt,
              "expected " + std::to_string(expected) + " bytes, found " + std::to_string(found) +
                  " before the end of the file",
              {path, offset});
}

}  // namespace

void internal::publish_by_link(const std::string& tmp, const std::string& final_path) {
  if (::link(tmp.c_str(), final_path.c_str()) != 0) {
    const int reason = errno;
    if (reason == EPERM || reason == EOPNOTSUPP || reason == ENOSYS) {
      throw Error(ErrorCode::kUnsupported,
                  "publish failed: this file system can neither rename without replacing nor make "
                  "hard links; write to another one and copy the result",
                  {final_path, {}});
    }
    // An NFS server may have made the link although its answer was lost and the retry says EEXIST.
    if (reason != EEXIST || !same_file(tmp, final_path)) throw_errno(reason, "publish", final_path);
  }
  ::unlink(tmp.c_str());
}

File File::open(const std::string& path) {
  UniqueFd fd = open_or_throw(path, O_RDONLY, "open");
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) throw_errno(errno, "fstat", path);
  if (S_ISDIR(info.st_mode)) {
    throw Error(ErrorCode::kInvalidArgument, "expected a file, found a directory", {path, {}});
  }
  return {std::move(fd), path};
}

File File::create(const std::string& path) {
  return {open_or_throw(path, O_WRONLY | O_CREAT | O_EXCL, "create"), path};
}

std::uint64_t File::size() const {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) throw_errno(errno, "fstat", path_);
  return static_cast<std::uint64_t>(info.st_size);
}

void File::read_exact(std::uint64_t offset, MutableByteSpan out) const {
  constexpr auto kMaxOffset = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
  if (offset > kMaxOffset || out.size() > kMaxOffset - offset) {
    throw_short(path_, offset, out.size(), 0);  // no file is that long, and pread would say EINVAL
  }
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        ::pread(fd_.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(errno, "read", path_);
    if (got == 0) throw_short(path_, offset, out.size(), done);
    done += static_cast<std::size_t>(got);
  }
}

void File::append(std::initializer_list<ByteSpan> parts) {
  std::vector<iovec> left;
  for (const ByteSpan& part : parts) {
    if (!part.empty()) left.push_back({const_cast<std::uint8_t*>(part.data()), part.size()});
  }
  std::size_t first = 0;
  while (first < left.size()) {
    const ssize_t wrote =
        ::writev(fd_.get(), left.data() + first, static_cast<int>(left.size() - first));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) throw_errno(errno, "write", path_);
    auto bytes = static_cast<std::size_t>(wrote);
    while (first < left.size() && bytes >= left[first].iov_len) bytes -= left[first++].iov_len;
    if (first < left.size()) {
      left[first].iov_base = static_cast<std::uint8_t*>(left[first].iov_base) + bytes;
      left[first].iov_len -= bytes;
    }
  }
}

void File::sync() const {
  if (::fdatasync(fd_.get()) != 0) throw_errno(errno, "fdatasync", path_);
}

void publish(const std::string& tmp, const std::string& final_path, Overwrite overwrite) {
  if (overwrite == Overwrite::kRefuse) {
    rename_without_replacing(tmp, final_path);
  } else if (std::rename(tmp.c_str(), final_path.c_str()) != 0) {
    throw_errno(errno, "publish", final_path);
  }
}

void sync_directory(const std::string& path) {
  const UniqueFd fd = open_or_throw(path, O_RDONLY | O_DIRECTORY, "open directory");
  // Some network file systems cannot sync a directory; their servers order renames themselves.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) throw_errno(errno, "fsync", path);
}

bool remove_file(const std::string& path) {
  if (::unlink(path.c_str()) == 0) return true;
  if (errno == ENOENT) return false;
  throw_errno(errno, "remove", path);
}

}  // namespace stoker
