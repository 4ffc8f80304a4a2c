# SPDX-License-Identifier: Apache-2.0
# XxHash::XxHash from the system package libxxhash-dev.
find_path(XxHash_INCLUDE_DIR xxhash.h)
find_library(XxHash_LIBRARY xxhash)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(XxHash REQUIRED_VARS XxHash_LIBRARY XxHash_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install it with: apt-get install libxxhash-dev")
if(XxHash_FOUND AND NOT TARGET XxHash::XxHash)
  add_library(XxHash::XxHash UNKNOWN IMPORTED)
  set_target_properties(XxHash::XxHash PROPERTIES
    IMPORTED_LOCATION "${XxHash_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${XxHash_INCLUDE_DIR}")
endif()
