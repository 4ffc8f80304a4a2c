// SPDX-License-Identifier: Apache-2.0
// The one exception type of the core. C++ code throws `Error`; python/bindings/errors.cc is the
// only place that turns it into a Python exception.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

namespace stoker {

/// What went wrong, as far as a caller can act on it. `kCount` only ties tables to the enum.
enum class ErrorCode : std::uint8_t {
  kInvalidArgument,   // the caller passed something that can never work
  kOutOfRange,        // an index past the end
  kNotFound,          // a file that does not exist
  kPermissionDenied,  // a file we may not open
  kAlreadyExists,     // a file that must not be overwritten
  kCorrupt,           // bytes that contradict their header, the index or their checksum
  kIo,                // any other failure of the operating system
  kOutOfSpace,        // disk or quota full
  kOutOfMemory,       // a large block of memory that the caller's choices ask for
  kUnsupported,       // valid data that this version cannot handle
  kClosed,            // the object was closed by its owner
  kInternal,          // a broken invariant: a bug in stoker
  kCount
};

[[nodiscard]] std::string_view error_code_name(ErrorCode code) noexcept;

/// Where it went wrong. Empty path / no offset mean "not known here".
struct ErrorContext {
  std::string path;
  std::optional<std::uint64_t> offset;
};

/// `what()` is the full sentence: message, then path and offset when known. The message says what
/// was expected, what was found and what to do.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message, ErrorContext context = {});

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  [[nodiscard]] const std::string& message() const noexcept { return message_; }
  [[nodiscard]] const ErrorContext& context() const noexcept { return context_; }
  [[nodiscard]] const char* what() const noexcept override { return what_.c_str(); }

 private:
  ErrorCode code_;
  std::string message_;
  ErrorContext context_;
  std::string what_;
};

/// Throws the Error that fits `errno_value`: ENOENT kNotFound, EACCES/EPERM kPermissionDenied,
/// EEXIST kAlreadyExists, ENOSPC/EDQUOT kOutOfSpace, everything else kIo. `what` names the call
/// ("open").
[[noreturn]] void throw_errno(int errno_value, std::string_view what, const std::string& path);

}  // namespace stoker
