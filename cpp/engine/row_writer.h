// SPDX-License-Identifier: Apache-2.0
// From the bytes of items to rows of a batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "engine/batch_data.h"
#include "engine/batch_spec.h"
#include "engine/loader_stats.h"
#include "vision/image_pipeline.h"

namespace stoker {

/// Fills rows. One per thread: keeps decoders and scratch memory. What it writes depends on the
/// spec and the row (its item, position and key) alone.
class RowWriter {
 public:
  /// The file of a chunk, for messages.
  using PathOf = std::function<std::string(std::size_t chunk)>;

  /// `scattered`: the items of a batch do not follow each other in the chunks.
  RowWriter(std::shared_ptr<const BatchSpec> spec, PathOf path_of, bool scattered = true);

  /// Fills rows [first, first + count). A row that fails gets its error in `batch`, with dataset,
  /// chunk, item, byte range and leaf in the message; the others are filled all the same.
  void write(BatchData& batch, std::uint32_t first, std::uint32_t count, ThreadCounters& counters);

 private:
  /// Where a column lies in an item whose leaves are all fixed, in one cache line.
  struct FixedField {
    std::size_t at = 0;      // in the item
    std::size_t header = 0;  // bytes of it
    std::size_t bytes = 0;   // after the header
    std::size_t offset = 0;  // of row 0 in the slab
    std::size_t column = 0;
    bool streams = false;
  };
  static constexpr std::size_t kNoLayout = ~std::size_t{0};

  void write_row(BatchData& batch, std::uint32_t row);
  [[nodiscard]] const std::uint8_t* block_of(const BatchData& batch,
                                             std::uint32_t row) const noexcept;
  void write_tokens(BatchData& batch, std::uint32_t row);
  void write_item(BatchData& batch, std::uint32_t row, ByteSpan item);
  void write_fixed_item(BatchData& batch, std::uint32_t row, ByteSpan item);
  void write_leaf(BatchData& batch, std::uint32_t row, std::size_t column, ByteSpan leaf);
  void write_image(BatchData& batch, std::uint32_t row, std::size_t column, ByteSpan leaf);
  [[nodiscard]] bool has_fixed_layout(ByteSpan item) const noexcept;
  [[nodiscard]] std::exception_ptr described(const BatchData& batch, std::uint32_t row,
                                             std::exception_ptr error) const;
  /// Touches the items of at most kRowsAhead rows. For samples that are small beside a cache miss.
  void bring_in(const BatchData& batch, std::uint32_t first, std::uint32_t count);
  [[nodiscard]] std::uint8_t* target(const BatchData& batch, std::size_t offset,
                                     std::size_t row_bytes, std::uint32_t row) const noexcept {
    return batch.slab.memory.data() + offset + row * row_bytes;
  }

  std::shared_ptr<const BatchSpec> spec_;
  PathOf path_of_;
  bool scattered_;  // items are brought in ahead
  std::optional<TokenBlocks> blocks_;
  bool streaming_ = false;  // rows are written past the cache
  bool has_images_ = false;
  volatile unsigned touched_ = 0;          // keeps the loads of bring_in()
  std::vector<std::uint8_t> fixed_sizes_;  // the sizes of every item, when all leaves are fixed
  std::size_t fixed_bytes_ = kNoLayout;    // of such an item
  std::vector<FixedField> fixed_;
  std::vector<std::size_t> objects_of_;  // column -> place in BatchData::objects
  std::vector<ByteSpan> leaves_;
  std::vector<std::optional<ImagePipeline>> pipelines_;  // per column
  ImageTimes image_times_;
  std::uint64_t bytes_ = 0;
};

}  // namespace stoker
