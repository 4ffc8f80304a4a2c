// SPDX-License-Identifier: Apache-2.0
// Plain files: whole reads, whole writes, and the one way a file appears (publish).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/bytes.h"
#include "base/unique_fd.h"

namespace stoker {

/// An open file. Positions are explicit, so one File may be read from several threads. Every error
/// is an Error that names the path.
class File {
 public:
  /// Opens for reading. Throws kNotFound, kPermissionDenied, kIo; a directory is kInvalidArgument.
  [[nodiscard]] static File open(const std::string& path);
  /// Creates for writing; throws kAlreadyExists when the path exists.
  [[nodiscard]] static File create(const std::string& path);

  [[nodiscard]] std::uint64_t size() const;
  /// Fills `out` from `offset`; throws kCorrupt ("expected .. bytes, found ..") when the file ends
  /// before.
  void read_exact(std::uint64_t offset, MutableByteSpan out) const;
  /// Writes the parts one after another at the current end of what was written. Short writes and
  /// EINTR are continued.
  void append(std::initializer_list<ByteSpan> parts);
  /// Flushes data to the device (fdatasync).
  void sync() const;

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  File(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;
};

enum class Overwrite : std::uint8_t { kReplace, kRefuse };

/// Renames `tmp` to `final_path` atomically; readers see the old file, or the new one whole.
/// kRefuse throws kAlreadyExists when the final path exists and leaves both files as they are (no
/// window between check and rename); kUnsupported when the file system has no way to do that. Both
/// paths must be on one file system.
void publish(const std::string& tmp, const std::string& final_path, Overwrite overwrite);

namespace internal {
/// kRefuse where the file system lacks RENAME_NOREPLACE (NFS, most FUSE): link() + unlink(). Here
/// for tests.
void publish_by_link(const std::string& tmp, const std::string& final_path);
}  // namespace internal

/// Flushes a directory's entries (after publish) to the device.
void sync_directory(const std::string& path);

/// Removes a file; true when it existed.
bool remove_file(const std::string& path);

}  // namespace stoker
