// SPDX-License-Identifier: Apache-2.0
// The order of an epoch.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <vector>

#include "base/error.h"
#include "plan/epoch_plan.h"
#include "plan/intervals.h"
#include "register.h"

namespace stoker::bindings {
namespace {

std::shared_ptr<const IntervalSet> make_intervals(const std::vector<std::uint64_t>& begins,
                                                  const std::vector<std::uint64_t>& ends) {
  if (begins.size() != ends.size()) {
    throw Error(ErrorCode::kInvalidArgument, "begins and ends differ in length");
  }
  std::vector<Interval> intervals(begins.size());
  for (std::size_t i = 0; i < begins.size(); ++i) intervals[i] = {begins[i], ends[i]};
  return std::make_shared<const IntervalSet>(std::move(intervals));
}

nb::list fill(EpochPlan& plan, std::uint64_t position, std::size_t count) {
  std::vector<std::uint64_t> items(count);
  plan.fill(position, items);
  nb::list out = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(count)));
  for (std::size_t i = 0; i < count; ++i) {
    PyList_SET_ITEM(out.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromUnsignedLongLong(items[i]));
  }
  return out;
}

}  // namespace

void register_plan(nb::module_& m) {
  m.attr("ORDER_VERSION") = kOrderVersion;
  nb::class_<IntervalSet>(m, "IntervalSet", "Half-open item ranges with positions over them.")
      .def_prop_ro("size", &IntervalSet::size)
      .def("item_at", &IntervalSet::item_at, nb::arg("position"));
  m.def("make_intervals", &make_intervals, nb::arg("begins"), nb::arg("ends"));
  nb::class_<EpochPlan>(m, "EpochPlan", "Which item comes at which position of an epoch.")
      .def(
          "__init__",
          [](EpochPlan* self, std::shared_ptr<const IntervalSet> intervals, bool shuffle,
             std::uint64_t seed, std::uint64_t epoch, std::uint32_t window) {
            new (self) EpochPlan(std::move(intervals), PlanOptions{shuffle, seed, epoch, window});
          },
          nb::arg("intervals"), nb::arg("shuffle"), nb::arg("seed"), nb::arg("epoch"),
          nb::arg("window"))
      .def_prop_ro("size", &EpochPlan::size)
      .def("fill", &fill, nb::arg("position"), nb::arg("count"),
           nb::sig("def fill(self, position: int, count: int) -> list[int]"),
           "Item numbers at positions [position, position + count).");
}

}  // namespace stoker::bindings
