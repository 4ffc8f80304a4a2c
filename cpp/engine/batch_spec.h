// SPDX-License-Identifier: Apache-2.0
// What a batch consists of, declared before anything runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "format/token_block.h"
#include "vision/image_steps.h"

namespace stoker {

enum class ColumnKind : std::uint8_t {
  kFixed,   // the leaf's bytes, always as many
  kShaped,  // a header (dtype, rank, shape), always the same, then the bytes
  kImage,   // a JPEG, through steps
  kObject,  // bytes of any length, handed out as they lie in the chunk (text, bytes)
};

/// One leaf of a sample in a batch. Everything but kObject is `row_bytes` per row, the rows one
/// after another from `offset` in the slab.
struct Column {
  ColumnKind kind = ColumnKind::kFixed;
  std::string path;      // "['image']", for messages
  std::string format;    // as stored in data_format, for messages
  bool is_text = false;  // kObject: must be UTF-8
  std::size_t row_bytes = 0;
  std::size_t offset = 0;
  std::vector<std::uint8_t> header;         // kShaped
  std::shared_ptr<const ImageSteps> steps;  // kImage
  ImageSize size;                           // kImage: after the steps
};

/// Fixed windows of tokens instead of items; one column.
struct TokenColumn {
  std::uint64_t block_size = 0;   // tokens
  std::uint64_t token_bytes = 0;  // as stored
  bool is_signed = false;         // as stored; matters when widened
  bool to_int64 = false;          // 8 bytes per token in the batch
};

struct BatchSpec {
  /// One per leaf, in the order of the item. Empty with tokens.
  std::vector<Column> columns;
  TokenColumn tokens;            // block_size 0: not a token dataset
  std::uint32_t batch_rows = 1;  // at most: the batch size, or all samples when they are fewer
  std::size_t slab_bytes = 0;

  [[nodiscard]] bool is_tokens() const noexcept { return tokens.block_size != 0; }

  /// Gives every column its place in the slab (each begins on a page when it is large) and sets
  /// slab_bytes. Throws kInvalidArgument when there is nothing to do, a batch passes 2^40 bytes, or
  /// tokens of a width other than 1, 2, 4 or 8 bytes are to be widened.
  void lay_out();
};

}  // namespace stoker
