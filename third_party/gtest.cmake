# SPDX-License-Identifier: Apache-2.0
# GTest::gtest, GTest::gtest_main and GTest::gmock from the system package libgtest-dev.
find_package(GTest CONFIG QUIET)
if(NOT GTest_FOUND)
  message(FATAL_ERROR "GoogleTest was not found; the C++ tests (STOKER_BUILD_TESTS) need it. "
    "Install it with: apt-get install libgtest-dev")
endif()
