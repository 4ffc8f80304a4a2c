// SPDX-License-Identifier: Apache-2.0
// Block number -> tokens, for Python.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "arrays.h"
#include "format/token_block.h"
#include "sample_reader.h"

namespace stoker::bindings {

/// Fixed windows of tokens over all chunks (FORMAT.md section 3). All methods REQUIRE the GIL.
class TokenReader {
 public:
  /// `tokens[k]` is the element count of chunk k (the index's dim). With `wide` the tokens are
  /// widened to it, an int64.
  TokenReader(std::shared_ptr<const ChunkTable> table, Verify verify,
              std::vector<std::uint64_t> tokens, std::uint64_t block_size, ElementType type,
              bool as_tensor, std::optional<ElementType> wide);

  [[nodiscard]] std::uint64_t size() const noexcept { return ends_.empty() ? 0 : ends_.back(); }
  /// A new array or tensor of block_size elements.
  [[nodiscard]] nb::object get(std::int64_t index, bool whole);
  void close() { items_.close(); }

 private:
  SharedItemReader items_;
  std::vector<std::uint64_t> tokens_;
  std::vector<std::uint64_t> ends_;    // running block counts
  std::vector<std::uint8_t> checked_;  // payload size compared with the index
  ElementType type_;
  std::optional<ElementType> wide_;
  bool as_tensor_;
  std::uint64_t block_size_;
  TokenBlocks blocks_;
};

}  // namespace stoker::bindings
