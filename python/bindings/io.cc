// SPDX-License-Identifier: Apache-2.0
// Atomic publication for the Python writer.
#include <nanobind/stl/string.h>

#include <string>

#include "io/file.h"
#include "register.h"

namespace stoker::bindings {

void register_io(nb::module_& m) {
  m.def(
      "publish",
      [](const std::string& tmp, const std::string& final_path, bool replace) {
        const nb::gil_scoped_release release;  // no Python object is touched
        publish(tmp, final_path, replace ? Overwrite::kReplace : Overwrite::kRefuse);
      },
      nb::arg("tmp"), nb::arg("final_path"), nb::arg("replace"),
      "Rename tmp to final_path atomically; without replace an existing file is an error and both "
      "stay.");
  m.def(
      "sync_directory",
      [](const std::string& path) {
        const nb::gil_scoped_release release;  // no Python object is touched
        sync_directory(path);
      },
      nb::arg("path"), "Flush a directory's entries to the disk.");
}

}  // namespace stoker::bindings
