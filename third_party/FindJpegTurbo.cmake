# SPDX-License-Identifier: Apache-2.0
# JpegTurbo::JpegTurbo from the system package libjpeg-dev.
find_path(JpegTurbo_INCLUDE_DIR jpeglib.h)
find_library(JpegTurbo_LIBRARY jpeg)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(JpegTurbo REQUIRED_VARS JpegTurbo_LIBRARY JpegTurbo_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install it with: apt-get install libjpeg-dev")
if(JpegTurbo_FOUND AND NOT TARGET JpegTurbo::JpegTurbo)
  add_library(JpegTurbo::JpegTurbo UNKNOWN IMPORTED)
  set_target_properties(JpegTurbo::JpegTurbo PROPERTIES
    IMPORTED_LOCATION "${JpegTurbo_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${JpegTurbo_INCLUDE_DIR}")
endif()
