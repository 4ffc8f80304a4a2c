// SPDX-License-Identifier: Apache-2.0
// The options of an order as Python passes them.
#pragma once

#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <tuple>

#include "base/error.h"
#include "plan/epoch_plan.h"

namespace stoker::bindings {

/// (shuffle: 0 not, 1 windows, 2 full; seed, epoch, window, streams)
using Order = std::tuple<unsigned, std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t>;

inline PlanOptions options_of(const Order& order) {
  const auto& [shuffle, seed, epoch, window, streams] = order;
  if (shuffle > 2) throw Error(ErrorCode::kInvalidArgument, "unknown kind of shuffle");
  return {static_cast<Shuffle>(shuffle), seed, epoch, window, streams};
}

}  // namespace stoker::bindings
