// SPDX-License-Identifier: Apache-2.0
// One function per binding file.
#pragma once

#include <nanobind/nanobind.h>

namespace stoker::bindings {

namespace nb = nanobind;

void register_errors(nb::module_& m);
void register_codec(nb::module_& m);
void register_format(nb::module_& m);
void register_io(nb::module_& m);
void register_plan(nb::module_& m);
void register_decoder(nb::module_& m);
void register_reader(nb::module_& m);
void register_vision(nb::module_& m);
void register_engine(nb::module_& m);

}  // namespace stoker::bindings
