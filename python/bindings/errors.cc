// SPDX-License-Identifier: Apache-2.0
// The only place that turns stoker::Error into a Python exception.
#include <nanobind/stl/string.h>

#include <exception>
#include <string>

#include "base/error.h"
#include "register.h"

namespace stoker::bindings {
namespace {

// Raises `stoker.exceptions.CLASS_OF_CODE[name](what)` with .path and .offset set. REQUIRES: the
// GIL.
void raise_error(const Error& error) {
  nb::object table = nb::module_::import_("stoker.exceptions").attr("CLASS_OF_CODE");
  const std::string name(error_code_name(error.code()));
  nb::object instance = table[name.c_str()](error.what());
  if (!error.context().path.empty()) instance.attr("path") = error.context().path;
  if (error.context().offset) instance.attr("offset") = *error.context().offset;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(instance.ptr())), instance.ptr());
}

}  // namespace

void register_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const Error& error) {
      raise_error(error);
    }
  });
}

}  // namespace stoker::bindings
