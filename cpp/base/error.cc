// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>

namespace stoker {
namespace {

// In the order of ErrorCode; Python looks its exception classes up by these names.
constexpr std::array<std::string_view, 12> kNames{
    "invalid_argument", "out_of_range", "not_found", "permission_denied",
    "already_exists",   "corrupt",      "io",        "out_of_space",
    "out_of_memory",    "unsupported",  "closed",    "internal"};
static_assert(kNames.size() == static_cast<std::size_t>(ErrorCode::kCount));

std::string full_text(const std::string& message, const ErrorContext& context) {
  if (context.path.empty() && !context.offset) return message;
  std::string text = message + " [" + context.path;
  if (context.offset) {
    text += (context.path.empty() ? "byte " : ", byte ") + std::to_string(*context.offset);
  }
  return text + "]";
}

ErrorCode code_of_errno(int value) noexcept {
  switch (value) {
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kPermissionDenied;
    case EEXIST:
      return ErrorCode::kAlreadyExists;
    case ENOSPC:
    case EDQUOT:
      return ErrorCode::kOutOfSpace;
    default:
      return ErrorCode::kIo;
  }
}

}  // namespace

std::string_view error_code_name(ErrorCode code) noexcept {
  return kNames[static_cast<std::size_t>(code)];
}

Error::Error(ErrorCode code, std::string message, ErrorContext context)
    : code_(code),
      message_(std::move(message)),
      context_(std::move(context)),
      what_(full_text(message_, context_)) {}

void throw_errno(int errno_value, std::string_view what, const std::string& path) {
  const std::string reason = std::generic_category().message(errno_value);
  throw Error(code_of_errno(errno_value), std::string(what) + " failed: " + reason,
              ErrorContext{path, std::nullopt});
}

}  // namespace stoker
