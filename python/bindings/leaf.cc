// SPDX-License-Identifier: Apache-2.0
#include "leaf.h"

#include <nanobind/stl/string.h>

#include <array>
#include <optional>

#include "base/coding.h"
#include "base/error.h"
#include "codec/jpeg.h"
#include "convert.h"

namespace stoker::bindings {
namespace {

[[noreturn]] void throw_corrupt(const Leaf& leaf, const std::string& problem) {
  throw Error(ErrorCode::kCorrupt,
              "leaf " + leaf.path + " (stored as '" + leaf.format + "'): " + problem);
}

void expect_size(const Leaf& leaf, ByteSpan bytes, std::size_t expected) {
  if (bytes.size() != expected) [[unlikely]] {
    throw_corrupt(leaf, "expected " + std::to_string(expected) + " bytes, found " +
                            std::to_string(bytes.size()));
  }
}

nb::object decode_str(const Leaf& leaf, ByteSpan bytes) {
  PyObject* text = PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(bytes.data()),
                                        static_cast<Py_ssize_t>(bytes.size()), nullptr);
  if (text == nullptr) {
    PyErr_Clear();
    throw_corrupt(leaf, "the bytes are not UTF-8 text");
  }
  return nb::steal(text);
}

nb::object decode_flat(const Leaf& leaf, ByteSpan bytes) {
  const std::size_t itemsize = leaf.type.itemsize;
  if (bytes.size() % itemsize != 0) [[unlikely]] {
    throw_corrupt(leaf, std::to_string(bytes.size()) + " bytes are no whole number of " +
                            std::to_string(itemsize) + "-byte elements");
  }
  const std::array<std::int64_t, 1> shape{static_cast<std::int64_t>(bytes.size() / itemsize)};
  nb::object array = array_from_bytes(leaf.type, shape, bytes);
  return leaf.kind == LeafKind::kFlatTensor ? to_tensor(std::move(array), leaf.type) : array;
}

// Header: u32 dtype index, u32 rank, u32 dim[rank]; big-endian for tensors (FORMAT.md section 4).
nb::object decode_shaped(const Leaf& leaf, const std::vector<ElementType>& types, bool big_endian,
                         ByteSpan bytes) {
  constexpr std::size_t kMaxRank = 32;
  const auto load = [&](std::size_t at) {
    return big_endian ? load_u32_be(bytes.data() + at) : load_u32(bytes.data() + at);
  };
  if (bytes.size() < 8) throw_corrupt(leaf, "shorter than its 8-byte header");
  const std::uint32_t index = load(0);
  const std::uint32_t rank = load(4);
  if (index >= types.size() || !types[index].carrier.is_valid()) {
    throw_corrupt(leaf, "unknown dtype index " + std::to_string(index));
  }
  const std::size_t header = 8 + std::size_t{4} * rank;
  if (rank > kMaxRank || bytes.size() < header) {
    throw_corrupt(leaf, "the header says rank " + std::to_string(rank) + " in " +
                            std::to_string(bytes.size()) + " bytes");
  }
  std::array<std::int64_t, kMaxRank> shape{};
  std::optional<std::uint64_t> expected = types[index].itemsize;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::uint32_t dim = load(8 + 4 * i);
    shape[i] = dim;
    if (expected) expected = checked_mul(*expected, dim);
  }
  if (!expected || *expected != bytes.size() - header) {
    throw_corrupt(leaf, "the shape in its header does not fit its " +
                            std::to_string(bytes.size() - header) + " data bytes");
  }
  const std::span<const std::int64_t> dims{shape.data(), rank};
  nb::object array = array_from_bytes(types[index], dims, bytes.subspan(header));
  return big_endian ? to_tensor(std::move(array), types[index]) : array;
}

const ElementType& uint8_type() {
  static const ElementType* const type = [] {
    auto* made = new ElementType();  // leaked: holds a Python object
    made->carrier = nb::module_::import_("numpy").attr("dtype")("uint8");
    made->itemsize = 1;
    return made;
  }();
  return *type;
}

nb::object decode_python(const Leaf& leaf, ByteSpan bytes) {
  nb::bytes argument = to_python_bytes(bytes);
  nb::object value = nb::steal(PyObject_CallOneArg(leaf.callable.ptr(), argument.ptr()));
  if (value.is_valid()) return value;
  nb::python_error error;
  const std::string note =
      "while decoding leaf " + leaf.path + " (stored as '" + leaf.format + "')";
  error.value().attr("add_note")(note);
  throw error;
}

}  // namespace

nb::object decode_jpeg_array(ByteSpan bytes) {
  JpegInfo info;
  std::uint8_t* data = nullptr;
  info = probe_jpeg(bytes);
  const std::array<std::int64_t, 3> shape{3, info.shown_height(), info.shown_width()};
  nb::object array = new_array(uint8_type(), shape, &data);
  const std::size_t size = std::size_t{3} * info.shown_height() * info.shown_width();
  {
    nb::gil_scoped_release release;  // only our own pixels and the caller's bytes are touched
    decode_jpeg_into(bytes, ImageView{{data, size}, info.shown_width(), info.shown_height()});
  }
  return array;
}

nb::object decode_leaf(const Leaf& leaf, const ElementTypes& types, ByteSpan bytes) {
  switch (leaf.kind) {
    case LeafKind::kInt:
      expect_size(leaf, bytes, sizeof(std::int64_t));
      return nb::steal(PyLong_FromLongLong(load_i64(bytes.data())));
    case LeafKind::kFloat:
      expect_size(leaf, bytes, sizeof(double));
      return nb::steal(PyFloat_FromDouble(load_f64(bytes.data())));
    case LeafKind::kBool:
      expect_size(leaf, bytes, 1);
      return nb::bool_(bytes[0] != 0);
    case LeafKind::kStr:
      return decode_str(leaf, bytes);
    case LeafKind::kBytes:
      return to_python_bytes(bytes);
    case LeafKind::kFlatNumpy:
    case LeafKind::kFlatTensor:
      return decode_flat(leaf, bytes);
    case LeafKind::kNumpy:
      return decode_shaped(leaf, types.numpy, /*big_endian=*/false, bytes);
    case LeafKind::kTensor:
      return decode_shaped(leaf, types.torch, /*big_endian=*/true, bytes);
    case LeafKind::kJpeg:
      try {
        return to_tensor(decode_jpeg_array(bytes), uint8_type());
      } catch (const Error& error) {
        throw Error(error.code(),
                    "leaf " + leaf.path + " (stored as '" + leaf.format + "'): " + error.message());
      }
    case LeafKind::kPython:
      return decode_python(leaf, bytes);
  }
  throw Error(ErrorCode::kInternal, "unknown leaf kind");
}

}  // namespace stoker::bindings
