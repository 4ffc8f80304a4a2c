# SPDX-License-Identifier: Apache-2.0
# The one place for compile flags, sanitizers, and the order of the rooms.

add_library(stoker_flags INTERFACE)
target_compile_options(stoker_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Werror
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)
if(STOKER_SANITIZE)
  target_compile_options(stoker_flags INTERFACE
    -fsanitize=${STOKER_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  target_link_options(stoker_flags INTERFACE -fsanitize=${STOKER_SANITIZE})
endif()

# stoker_add_library(room DEPS ... LIBS ... SOURCES ...)
#   DEPS: rooms above this one (they must have been added before: the order is the architecture).
#   LIBS: third-party imported targets; only this room's sources may include their headers.
function(stoker_add_library room)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS;SOURCES" ${ARGN})
  add_library(stoker_${room} STATIC ${ARG_SOURCES})
  add_library(stoker::${room} ALIAS stoker_${room})
  target_include_directories(stoker_${room} PUBLIC ${PROJECT_SOURCE_DIR}/cpp)
  target_link_libraries(stoker_${room} PRIVATE $<BUILD_INTERFACE:stoker_flags>)
  foreach(dep IN LISTS ARG_DEPS)
    if(NOT TARGET stoker_${dep})
      message(FATAL_ERROR "room '${room}' uses '${dep}', which is not above it in cpp/CMakeLists.txt")
    endif()
    target_link_libraries(stoker_${room} PUBLIC stoker_${dep})
  endforeach()
  if(ARG_LIBS)
    target_link_libraries(stoker_${room} PRIVATE ${ARG_LIBS})
  endif()
endfunction()

# stoker_add_test(room SOURCES ... LIBS ...): one gtest binary per room, every TEST a ctest of its own.
function(stoker_add_test room)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${room}_test ${ARG_SOURCES})
  target_link_libraries(${room}_test PRIVATE stoker_flags stoker_${room} GTest::gtest_main ${ARG_LIBS})
  include(GoogleTest)
  gtest_discover_tests(${room}_test TEST_PREFIX ${room}. DISCOVERY_TIMEOUT 60)
endfunction()

# stoker_add_bench(name ROOMS ... LIBS ...): bench/cpp/<name>_bench.cc as an executable.
function(stoker_add_bench name)
  cmake_parse_arguments(ARG "" "" "ROOMS;LIBS" ${ARGN})
  add_executable(${name}_bench ${name}_bench.cc)
  list(TRANSFORM ARG_ROOMS PREPEND stoker_)
  target_link_libraries(${name}_bench PRIVATE stoker_flags ${ARG_ROOMS} ${ARG_LIBS} benchmark::benchmark)
endfunction()
