// SPDX-License-Identifier: Apache-2.0
// One leaf of a sample: stored bytes -> Python object.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arrays.h"
#include "base/bytes.h"

namespace stoker::bindings {

namespace nb = nanobind;

enum class LeafKind : std::uint8_t {
  kInt,
  kFloat,
  kBool,
  kStr,
  kBytes,
  kFlatNumpy,   // 1-D, dtype from the format string
  kNumpy,       // any rank, little-endian header
  kFlatTensor,  // 1-D, dtype from the format string
  kTensor,      // any rank, big-endian header
  kJpeg,
  kPython,  // a callable of bytes
};

/// Element types by the index stored in the header of `numpy` and `tensor` leaves.
struct ElementTypes {
  std::vector<ElementType> numpy;
  std::vector<ElementType> torch;
};

struct Leaf {
  LeafKind kind = LeafKind::kPython;
  std::string path;     // "['image']", for messages
  std::string format;   // as stored in data_format, for messages
  ElementType type;     // flat arrays only
  nb::object callable;  // kPython only
};

/// Throws Error kCorrupt (with path and format in the message) when the bytes do not fit the kind.
/// A Python exception of a kPython callable passes through with a note naming the leaf. REQUIRES:
/// the GIL (released while pixels are decoded or big copies are made; `bytes` must stay alive).
[[nodiscard]] nb::object decode_leaf(const Leaf& leaf, const ElementTypes& types, ByteSpan bytes);

/// JPEG -> numpy uint8 (3, H, W) RGB, EXIF orientation applied. Releases the GIL while decoding.
[[nodiscard]] nb::object decode_jpeg_array(ByteSpan bytes);

}  // namespace stoker::bindings
