// SPDX-License-Identifier: Apache-2.0
// NumPy and torch objects over fresh memory. The only binding that knows either library.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <span>

#include "base/bytes.h"

namespace stoker::bindings {

namespace nb = nanobind;

/// How stored elements become an array: the NumPy dtype that carries the bytes, and for torch
/// leaves the dtype the tensor is viewed as afterwards when NumPy has none for it (bfloat16). A
/// null `carrier` means "unknown dtype index".
struct ElementType {
  nb::object carrier;     // numpy.dtype or null
  nb::object torch_view;  // torch.dtype or null
  std::size_t itemsize = 0;
};

/// A new, writable, C-contiguous numpy.ndarray of `shape`; `data` receives its memory. REQUIRES:
/// the GIL.
[[nodiscard]] nb::object new_array(const ElementType& type, std::span<const std::int64_t> shape,
                                   std::uint8_t** data);

/// A writable numpy.ndarray of `shape` over memory that `owner` keeps alive. REQUIRES: the GIL.
[[nodiscard]] nb::object array_over(const ElementType& type, std::span<const std::int64_t> shape,
                                    std::uint8_t* data, std::shared_ptr<void> owner);

/// A torch.Tensor that shares the memory of `array`. Imports torch on first use. REQUIRES: the GIL.
[[nodiscard]] nb::object to_tensor(nb::object array, const ElementType& type);

/// Copies `bytes` into a new array of `shape`; the sizes must agree (checked by the caller).
/// Releases the GIL for big copies.
[[nodiscard]] nb::object array_from_bytes(const ElementType& type,
                                          std::span<const std::int64_t> shape, ByteSpan bytes);

/// From Python: (numpy dtype | None, torch dtype | None).
[[nodiscard]] ElementType element_type(nb::handle pair);

/// Copies above this size release the GIL.
constexpr std::size_t kBigCopy = std::size_t{1} << 18;

}  // namespace stoker::bindings
