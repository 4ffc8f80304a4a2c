// SPDX-License-Identifier: Apache-2.0
// The Error that a call throws.
#pragma once

#include <gtest/gtest.h>

#include <ostream>

#include "base/error.h"

namespace stoker {

inline void PrintTo(ErrorCode code, std::ostream* out) { *out << error_code_name(code); }

namespace test {

/// Runs `call` and returns the Error it throws; a test failure (and kCount) when it throws none.
template <typename F>
[[nodiscard]] Error error_of(F&& call) {
  try {
    static_cast<void>(call());
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "expected a stoker::Error";
  return {ErrorCode::kCount, ""};
}

}  // namespace test
}  // namespace stoker
