// SPDX-License-Identifier: Apache-2.0
// Read by ThreadSanitizer's runtime at start; unused in other builds.
//
// The reference count of an exception lives in libstdc++.so, which is not instrumented: when a
// worker drops the last reference to an exception that a consumer caught and read before, the
// sanitizer does not see that the count orders the two.

// Visible, since GCC's runtime is a shared library that looks for it in the program.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions();

const char* __tsan_default_suppressions() {
  return "race:std::__exception_ptr::exception_ptr::_M_release\n";
}
