// SPDX-License-Identifier: Apache-2.0
// A test's body in a forked child.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <exception>

namespace stoker::test {

/// Exit status of a forked child that runs `body`; 99 when it throws, -1 when it was killed.
template <typename F>
[[nodiscard]] int in_child(F&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      ::_exit(body());
    } catch (const std::exception&) {
      ::_exit(99);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace stoker::test
