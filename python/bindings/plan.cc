// SPDX-License-Identifier: Apache-2.0
// The order of an epoch.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "arrays.h"
#include "base/error.h"
#include "order.h"
#include "plan/epoch_plan.h"
#include "plan/intervals.h"
#include "plan/mixture.h"
#include "plan/rng.h"
#include "register.h"

namespace stoker::bindings {
namespace {

std::shared_ptr<const IntervalSet> make_intervals(const std::vector<std::uint64_t>& begins,
                                                  const std::vector<std::uint64_t>& ends,
                                                  const std::vector<std::uint64_t>& chunk_sizes) {
  if (begins.size() != ends.size()) {
    throw Error(ErrorCode::kInvalidArgument, "begins and ends differ in length");
  }
  std::vector<Interval> intervals(begins.size());
  for (std::size_t i = 0; i < begins.size(); ++i) intervals[i] = {begins[i], ends[i]};
  return std::make_shared<const IntervalSet>(std::move(intervals), chunk_sizes);
}

nb::list list_of(const std::vector<std::uint64_t>& values) {
  nb::list out = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(values.size())));
  for (std::size_t i = 0; i < values.size(); ++i) {
    PyList_SET_ITEM(out.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromUnsignedLongLong(values[i]));
  }
  return out;
}

nb::list fill(EpochPlan& plan, std::uint64_t position, std::size_t count) {
  std::vector<std::uint64_t> items(count);
  plan.fill(position, items);
  return list_of(items);
}

nb::object items(EpochPlan& plan, std::uint64_t position, std::size_t count) {
  if (position > plan.size() || count > plan.size() - position) {
    throw Error(ErrorCode::kOutOfRange, "positions that are not in the epoch");
  }
  ElementType element;
  element.carrier = nb::module_::import_("numpy").attr("dtype")("uint64");
  element.itemsize = sizeof(std::uint64_t);
  std::vector<std::uint64_t> found(count);
  plan.fill(position, found);  // with the GIL: a plan is for one thread at a time
  const std::int64_t shape = static_cast<std::int64_t>(count);
  std::uint8_t* data = nullptr;
  nb::object out = new_array(element, {&shape, 1}, &data);
  if (count != 0) std::memcpy(data, found.data(), count * sizeof(std::uint64_t));
  return out;
}

nb::tuple rows(EpochPlan& plan, std::uint64_t begin, std::uint64_t size, std::uint64_t first,
               std::uint32_t count) {
  if (begin > plan.size() || size > plan.size() - begin || first > size || count > size - first) {
    throw Error(ErrorCode::kOutOfRange, "rows that are not in the epoch");
  }
  std::vector<std::uint64_t> positions(count);
  std::vector<std::uint64_t> items(count);
  plan.streams().rows({begin, size, first, count}, positions);
  plan.items_at(positions, items);
  return nb::make_tuple(list_of(positions), list_of(items));
}

nb::list windows_of(const EpochPlan& plan) {
  nb::list out;
  for (const PlanWindow& window : plan.windows()) {
    std::vector<std::uint64_t> items;
    for (const std::uint32_t k : plan.intervals_of(window)) {
      items.push_back(plan.set().intervals()[k].begin);
    }
    out.append(nb::make_tuple(window.begin, window.end, window.stream, list_of(items)));
  }
  return out;
}

std::vector<std::uint32_t> draws(Mixture& mixture, std::uint64_t first, std::size_t count) {
  std::vector<std::uint32_t> sources(count);
  mixture.fill(first, sources);
  return sources;
}

void register_mixture(nb::module_& m) {
  nb::class_<Mixture>(m, "Mixture", "Which source each draw of a mixed dataset comes from.")
      .def(
          "__init__",
          [](Mixture* self, std::vector<std::uint64_t> left, std::vector<std::uint64_t> weights,
             const std::vector<std::uint64_t>& key, bool exhaust) {
            new (self) Mixture(std::move(left), std::move(weights), derive_key(key), exhaust);
          },
          nb::arg("left"), nb::arg("weights"), nb::arg("key"), nb::kw_only(), nb::arg("exhaust"))
      .def_prop_ro("size", &Mixture::size)
      .def("fill", &draws, nb::arg("first"), nb::arg("count"),
           "Sources of the draws [first, first + count).")
      .def("drawn_before", &Mixture::drawn_before, nb::arg("draw"),
           "Draws of each source before a draw.");
}

}  // namespace

void register_plan(nb::module_& m) {
  m.attr("ORDER_VERSION") = kOrderVersion;
  register_mixture(m);
  nb::class_<IntervalSet>(m, "IntervalSet", "Half-open item ranges with positions over them.")
      .def_prop_ro("size", &IntervalSet::size)
      .def("item_at", &IntervalSet::item_at, nb::arg("position"));
  m.def("make_intervals", &make_intervals, nb::arg("begins"), nb::arg("ends"),
        nb::arg("chunk_sizes"));
  nb::class_<EpochPlan>(m, "EpochPlan", "Which item comes at which position of an epoch.")
      .def(
          "__init__",
          [](EpochPlan* self, std::shared_ptr<const IntervalSet> intervals, const Order& order) {
            new (self) EpochPlan(std::move(intervals), options_of(order));
          },
          nb::arg("intervals"), nb::arg("order"),
          "order: (shuffle: 0 not, 1 windows, 2 full; seed, epoch, window, streams).")
      .def_prop_ro("size", &EpochPlan::size)
      .def("fill", &fill, nb::arg("position"), nb::arg("count"),
           nb::sig("def fill(self, position: int, count: int) -> list[int]"),
           "Item numbers at positions [position, position + count).")
      .def("items", &items, nb::arg("position"), nb::arg("count"),
           nb::sig(
               "def items(self, position: int, count: int) -> numpy.typing.NDArray[numpy.uint64]"),
           "As fill, as an array of uint64.")
      .def("rows", &rows, nb::arg("begin"), nb::arg("size"), nb::arg("first"), nb::arg("count"),
           nb::sig("def rows(self, begin: int, size: int, first: int, count: int) "
                   "-> tuple[list[int], list[int]]"),
           "(positions, item numbers) of the rows [first, first + count) of the global batch of "
           "the positions [begin, begin + size).")
      .def_prop_ro(
          "windows", &windows_of,
          nb::sig("def windows(self) -> list[tuple[int, int, int, list[int]]]"),
          "(first position, end, stream, first item of each chunk) of what is read together.");
}

}  // namespace stoker::bindings
