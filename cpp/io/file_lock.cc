// SPDX-License-Identifier: Apache-2.0
#include "io/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "base/error.h"

namespace stoker {
namespace {

UniqueFd open_lock_file(const std::string& path) {
  // Opened for writing because NFS turns an exclusive flock into a write lock.
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!fd) throw_errno(errno, "open lock file", path);
  return fd;
}

int operation(FileLock::Mode mode) noexcept {
  return mode == FileLock::Mode::kShared ? LOCK_SH : LOCK_EX;
}

}  // namespace

FileLock FileLock::acquire(const std::string& path, Mode mode) {
  UniqueFd fd = open_lock_file(path);
  while (::flock(fd.get(), operation(mode)) != 0) {
    if (errno != EINTR) throw_errno(errno, "lock", path);
  }
  return FileLock(std::move(fd));
}

std::optional<FileLock> FileLock::try_acquire(const std::string& path, Mode mode) {
  UniqueFd fd = open_lock_file(path);
  if (::flock(fd.get(), operation(mode) | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::nullopt;
    throw_errno(errno, "lock", path);
  }
  return FileLock(std::move(fd));
}

}  // namespace stoker
