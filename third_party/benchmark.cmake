# SPDX-License-Identifier: Apache-2.0
# benchmark::benchmark and benchmark::benchmark_main from the system package libbenchmark-dev.
find_package(benchmark CONFIG QUIET)
if(NOT benchmark_FOUND)
  message(FATAL_ERROR "Google Benchmark was not found; the micro-benchmarks (STOKER_BUILD_BENCH) "
    "need it. Install it with: apt-get install libbenchmark-dev")
endif()
