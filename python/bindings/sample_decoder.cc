// SPDX-License-Identifier: Apache-2.0
#include "sample_decoder.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "convert.h"
#include "format/item_layout.h"
#include "register.h"

namespace stoker::bindings {
namespace {

constexpr std::size_t kInlineLeaves = 16;  // samples up to this size need no allocation

LeafKind kind_from_name(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, LeafKind>, 11> kNames{{
      {"int", LeafKind::kInt},
      {"float", LeafKind::kFloat},
      {"bool", LeafKind::kBool},
      {"str", LeafKind::kStr},
      {"bytes", LeafKind::kBytes},
      {"flat_numpy", LeafKind::kFlatNumpy},
      {"numpy", LeafKind::kNumpy},
      {"flat_tensor", LeafKind::kFlatTensor},
      {"tensor", LeafKind::kTensor},
      {"jpeg", LeafKind::kJpeg},
      {"python", LeafKind::kPython},
  }};
  for (const auto& [text, kind] : kNames) {
    if (text == name) return kind;
  }
  throw Error(ErrorCode::kInternal, "unknown leaf kind '" + std::string(name) + "'");
}

// (kind, path, format, element type | None, callable | None)
Leaf leaf_from_python(nb::handle row) {
  Leaf leaf;
  leaf.kind = kind_from_name(nb::cast<std::string>(row[0]));
  leaf.path = nb::cast<std::string>(row[1]);
  leaf.format = nb::cast<std::string>(row[2]);
  leaf.type = element_type(row[3]);
  if (leaf.kind == LeafKind::kPython) leaf.callable = nb::borrow(row[4]);
  return leaf;
}

// None for a leaf, else (kind, keys, wrap | None, children)
TreeNode node_from_python(nb::handle row) {
  TreeNode node;
  if (row.is_none()) return node;
  const auto kind = nb::cast<std::string>(row[0]);
  node.kind = kind == "dict"    ? TreeNode::Kind::kDict
              : kind == "tuple" ? TreeNode::Kind::kTuple
                                : TreeNode::Kind::kList;
  for (nb::handle key : row[1]) {
    PyObject* object = key.inc_ref().ptr();
    if (PyUnicode_CheckExact(object)) PyUnicode_InternInPlace(&object);
    node.keys.push_back(nb::steal(object));
  }
  if (!row[2].is_none()) node.wrap = nb::borrow(row[2]);
  for (nb::handle child : row[3]) node.children.push_back(node_from_python(child));
  return node;
}

std::vector<ElementType> types_from_python(nb::handle rows) {
  std::vector<ElementType> types;
  for (nb::handle row : rows) types.push_back(element_type(row));
  return types;
}

}  // namespace

nb::object SampleDecoder::decode(ByteSpan item) const {
  std::array<ByteSpan, kInlineLeaves> few;
  std::vector<ByteSpan> many;
  std::span<ByteSpan> parts{few.data(), leaves_.size()};
  if (leaves_.size() > kInlineLeaves) {
    many.resize(leaves_.size());
    parts = many;
  }
  split_item(item, parts);
  std::size_t next = 0;
  return build(root_, parts.data(), &next);
}

nb::object SampleDecoder::build(const TreeNode& node, const ByteSpan* parts,
                                std::size_t* next) const {
  if (node.kind == TreeNode::Kind::kLeaf) {
    const std::size_t i = (*next)++;
    return decode_leaf(leaves_[i], types_, parts[i]);
  }
  nb::object container;
  const auto count = static_cast<Py_ssize_t>(node.children.size());
  if (node.kind == TreeNode::Kind::kDict) {
    container = nb::steal(PyDict_New());
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      nb::object value = build(node.children[i], parts, next);
      if (PyDict_SetItem(container.ptr(), node.keys[i].ptr(), value.ptr()) != 0) {
        throw nb::python_error();
      }
    }
  } else if (node.kind == TreeNode::Kind::kTuple) {
    container = nb::steal(PyTuple_New(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
      nb::object value = build(node.children[static_cast<std::size_t>(i)], parts, next);
      PyTuple_SET_ITEM(container.ptr(), i, value.release().ptr());
    }
  } else {
    container = nb::steal(PyList_New(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
      nb::object value = build(node.children[static_cast<std::size_t>(i)], parts, next);
      PyList_SET_ITEM(container.ptr(), i, value.release().ptr());
    }
  }
  return node.wrap.is_valid() ? node.wrap(container) : container;
}

void register_decoder(nb::module_& m) {
  nb::class_<SampleDecoder>(m, "SampleDecoder",
                            "Rebuilds samples from item bytes (PyTreeLoader layout).")
      .def(
          "__init__",
          [](SampleDecoder* self, nb::sequence leaves, nb::sequence numpy_types,
             nb::sequence torch_types, nb::object tree) {
            std::vector<Leaf> rows;
            for (nb::handle row : leaves) rows.push_back(leaf_from_python(row));
            new (self) SampleDecoder(
                std::move(rows), {types_from_python(numpy_types), types_from_python(torch_types)},
                node_from_python(tree));
          },
          nb::arg("leaves"), nb::arg("numpy_types"), nb::arg("torch_types"), nb::arg("tree").none(),
          nb::sig("def __init__(self, leaves: Sequence[object], numpy_types: Sequence[object], "
                  "torch_types: Sequence[object], tree: object | None) -> None"),
          "leaves: (kind, path, format, element type, callable) per leaf; tree: None for a leaf, "
          "else (kind, keys, wrap, children).")
      .def(
          "decode",
          [](const SampleDecoder& self, nb::handle item) {
            const InputBuffer buffer(item);
            return self.decode(buffer.span());
          },
          nb::arg("item"), "Decode one item held in any contiguous buffer.");
}

}  // namespace stoker::bindings
