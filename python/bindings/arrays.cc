// SPDX-License-Identifier: Apache-2.0
#include "arrays.h"

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#include <array>
#include <cstring>
#include <memory>
#include <utility>

namespace stoker::bindings {
namespace {

// NumPy's function table is filled on first use, so importing stoker._core does not import NumPy.
void require_numpy() {
  static const bool ready = [] {
    if (_import_array() < 0) throw nb::python_error();
    return true;
  }();
  static_cast<void>(ready);
}

}  // namespace

nb::object new_array(const ElementType& type, std::span<const std::int64_t> shape,
                     std::uint8_t** data) {
  require_numpy();
  std::array<npy_intp, NPY_MAXDIMS> dims{};
  for (std::size_t i = 0; i < shape.size(); ++i) dims[i] = shape[i];
  auto* descr = reinterpret_cast<PyArray_Descr*>(type.carrier.ptr());
  Py_INCREF(descr);  // PyArray_Empty steals it
  nb::object array =
      nb::steal(PyArray_Empty(static_cast<int>(shape.size()), dims.data(), descr, /*fortran=*/0));
  if (!array.is_valid()) throw nb::python_error();
  *data = static_cast<std::uint8_t*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array.ptr())));
  return array;
}

nb::object array_over(const ElementType& type, std::span<const std::int64_t> shape,
                      std::uint8_t* data, std::shared_ptr<void> owner) {
  require_numpy();
  std::array<npy_intp, NPY_MAXDIMS> dims{};
  for (std::size_t i = 0; i < shape.size(); ++i) dims[i] = shape[i];
  const nb::capsule keeper(new std::shared_ptr<void>(std::move(owner)), [](void* held) noexcept {
    delete static_cast<std::shared_ptr<void>*>(held);
  });
  auto* descr = reinterpret_cast<PyArray_Descr*>(type.carrier.ptr());
  Py_INCREF(descr);  // PyArray_NewFromDescr steals it
  nb::object array = nb::steal(
      PyArray_NewFromDescr(&PyArray_Type, descr, static_cast<int>(shape.size()), dims.data(),
                           /*strides=*/nullptr, data, NPY_ARRAY_CARRAY, /*obj=*/nullptr));
  if (!array.is_valid()) throw nb::python_error();
  PyObject* base = nb::object(keeper).release().ptr();  // PyArray_SetBaseObject steals it
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array.ptr()), base) != 0) {
    throw nb::python_error();
  }
  return array;
}

nb::object to_tensor(nb::object array, const ElementType& type) {
  // Leaked on purpose: destroying a Python object after the interpreter ended would crash.
  static PyObject* const from_numpy =
      nb::object(nb::module_::import_("torch").attr("from_numpy")).release().ptr();
  nb::object tensor = nb::steal(PyObject_CallOneArg(from_numpy, array.ptr()));
  if (!tensor.is_valid()) throw nb::python_error();
  if (type.torch_view.is_valid()) return tensor.attr("view")(type.torch_view);
  return tensor;
}

nb::object array_from_bytes(const ElementType& type, std::span<const std::int64_t> shape,
                            ByteSpan bytes) {
  std::uint8_t* data = nullptr;
  nb::object array = new_array(type, shape, &data);
  if (bytes.size() >= kBigCopy) {
    nb::gil_scoped_release release;  // `array` is ours alone; no Python object is touched
    std::memcpy(data, bytes.data(), bytes.size());
  } else if (!bytes.empty()) {
    std::memcpy(data, bytes.data(), bytes.size());
  }
  return array;
}

ElementType element_type(nb::handle pair) {
  ElementType type;
  if (pair.is_none()) return type;
  type.carrier = nb::borrow(pair[0]);
  type.itemsize = nb::cast<std::size_t>(type.carrier.attr("itemsize"));
  if (!pair[1].is_none()) type.torch_view = nb::borrow(pair[1]);
  return type;
}

}  // namespace stoker::bindings
