// SPDX-License-Identifier: Apache-2.0
// Python buffers in, Bytes out.
#pragma once

#include <nanobind/nanobind.h>

#include "base/bytes.h"

namespace stoker::bindings {

namespace nb = nanobind;

/// A C-contiguous read-only buffer of any Python object that has one; released on destruction.
/// REQUIRES: the GIL for construction and destruction; the bytes may be read without it.
class InputBuffer {
 public:
  InputBuffer() = default;
  explicit InputBuffer(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ~InputBuffer() {
    if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
  }
  InputBuffer(InputBuffer&& other) noexcept : buffer_(other.buffer_) { other.buffer_ = {}; }
  InputBuffer& operator=(InputBuffer&&) = delete;
  InputBuffer(const InputBuffer&) = delete;
  InputBuffer& operator=(const InputBuffer&) = delete;

  [[nodiscard]] ByteSpan span() const noexcept {
    return {static_cast<const std::uint8_t*>(buffer_.buf), static_cast<std::size_t>(buffer_.len)};
  }

 private:
  Py_buffer buffer_{};
};

inline nb::bytes to_python_bytes(ByteSpan data) { return nb::bytes(data.data(), data.size()); }

}  // namespace stoker::bindings
