// SPDX-License-Identifier: Apache-2.0
// stoker._core: a list of registrations, one per room. No logic here.
#include "register.h"

NB_MODULE(_core, m) {
  m.doc() = "The native core of stoker. Private: use the Python modules.";
  using namespace stoker::bindings;
  // Objects in reference cycles of the user may live until the interpreter is gone; not our leak.
  nanobind::set_leak_warnings(false);
  register_errors(m);
  register_codec(m);
  register_format(m);
  register_io(m);
  register_plan(m);
  register_decoder(m);
  register_reader(m);
  register_vision(m);
  register_engine(m);
}
