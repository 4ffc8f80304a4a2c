// SPDX-License-Identifier: Apache-2.0
// One item of a chunk -> the sample the user's function returned.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

#include "leaf.h"

namespace stoker::bindings {

namespace nb = nanobind;

/// How leaves are put together again; children in flatten order.
struct TreeNode {
  enum class Kind : std::uint8_t { kLeaf, kDict, kList, kTuple };
  Kind kind = Kind::kLeaf;
  std::vector<nb::object> keys;  // kDict: interned where they are str
  nb::object wrap;  // called with the dict or list when the container is another type; may be null
  std::vector<TreeNode> children;
};

/// Immutable after construction. All methods REQUIRE the GIL.
class SampleDecoder {
 public:
  SampleDecoder(std::vector<Leaf> leaves, ElementTypes types, TreeNode root)
      : leaves_(std::move(leaves)), types_(std::move(types)), root_(std::move(root)) {}

  /// Throws Error kCorrupt when the item does not hold exactly the leaves. `item` must stay alive
  /// during the call.
  [[nodiscard]] nb::object decode(ByteSpan item) const;

 private:
  [[nodiscard]] nb::object build(const TreeNode& node, const ByteSpan* parts,
                                 std::size_t* next) const;

  std::vector<Leaf> leaves_;
  ElementTypes types_;
  TreeNode root_;
};

}  // namespace stoker::bindings
