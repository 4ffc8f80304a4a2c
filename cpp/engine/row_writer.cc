// SPDX-License-Identifier: Apache-2.0
#include "engine/row_writer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "base/coding.h"
#include "base/error.h"
#include "engine/widen.h"
#include "format/item_layout.h"

namespace stoker {
namespace {

// Slabs above this are cold again when their turn comes, so streaming stores save the read of every
// cache line before it is overwritten.
constexpr std::size_t kColdSlab = std::size_t{4} << 20;
constexpr std::size_t kLongRow = 1024;  // short rows share cache lines with their neighbours
constexpr std::uint32_t kRowsAhead = 64;
constexpr std::size_t kLine = 64;
constexpr std::uint8_t kNothing[kLine] = {};
constexpr std::size_t kSmallestHeader = 8;  // dtype and rank
constexpr std::uint32_t kMostDims = 32;     // shown in a message

constexpr const char* kOneShape =
    ". A batch needs samples of one shape: pad them when writing, or use batch_size=None or a "
    "collate_fn";

std::string number(std::uint64_t value) { return std::to_string(value); }

[[noreturn]] void throw_leaf(ErrorCode code, const Column& column, const std::string& problem) {
  throw Error(code, "leaf " + column.path + " (stored as '" + column.format + "'): " + problem);
}

// The compiler turns these into single loads and stores.
void copy_small(const std::uint8_t* from, std::size_t bytes, std::uint8_t* to) noexcept {
  switch (bytes) {
    case 1:
      *to = *from;
      return;
    case 4:
      std::memcpy(to, from, 4);
      return;
    case 8:
      std::memcpy(to, from, 8);
      return;
    case 64:
      std::memcpy(to, from, 64);
      return;
    default:
      std::memcpy(to, from, bytes);
  }
}

/// "(2, 3)" from the header of a numpy or tensor leaf; the dtype decides its byte order.
std::string shape_text(ByteSpan header) {
  if (header.size() < 8) return "unreadable";
  // Numbers of types and ranks are small.
  const bool big_endian = load_u32(header.data()) > 0xFFFF || load_u32(header.data() + 4) > 0xFFFF;
  const auto load = [&](std::size_t at) {
    return big_endian ? load_u32_be(header.data() + at) : load_u32(header.data() + at);
  };
  const std::uint32_t rank = load(4);
  std::string text = "dtype " + number(load(0)) + ", shape (";
  for (std::size_t i = 0; i < std::min(rank, kMostDims) && 12 + 4 * i <= header.size(); ++i) {
    text += (i == 0 ? "" : ", ") + number(load(8 + 4 * i));
  }
  return text + ")";
}

}  // namespace

RowWriter::RowWriter(std::shared_ptr<const BatchSpec> spec, PathOf path_of, bool scattered)
    : spec_(std::move(spec)), path_of_(std::move(path_of)), scattered_(scattered) {
  const bool cold = spec_->slab_bytes >= kColdSlab;
  if (spec_->is_tokens()) {
    blocks_.emplace(spec_->tokens.block_size, spec_->tokens.token_bytes);
    streaming_ = cold && blocks_->block_bytes() >= kLongRow;
    scattered_ = false;  // blocks are long
    return;
  }
  leaves_.resize(spec_->columns.size());
  objects_of_.resize(spec_->columns.size());
  pipelines_.resize(spec_->columns.size());
  std::size_t objects = 0;
  bool all_fixed = !spec_->columns.empty();
  for (std::size_t c = 0; c < spec_->columns.size(); ++c) {
    const Column& column = spec_->columns[c];
    if (column.kind == ColumnKind::kObject) objects_of_[c] = objects++;
    if (column.kind == ColumnKind::kImage) {
      pipelines_[c].emplace(column.steps);
      has_images_ = true;
    }
    all_fixed =
        all_fixed && (column.kind == ColumnKind::kFixed || column.kind == ColumnKind::kShaped);
    streaming_ = streaming_ || (cold && column.row_bytes >= kLongRow);
  }
  scattered_ = scattered_ && !has_images_;
  if (!all_fixed) return;
  fixed_sizes_.resize(4 * spec_->columns.size());
  fixed_bytes_ = fixed_sizes_.size();
  for (std::size_t c = 0; c < spec_->columns.size(); ++c) {
    const Column& column = spec_->columns[c];
    const std::size_t bytes = column.header.size() + column.row_bytes;
    store_u32(fixed_sizes_.data() + 4 * c, static_cast<std::uint32_t>(bytes));
    fixed_.push_back({fixed_bytes_, column.header.size(), column.row_bytes, column.offset, c,
                      streaming_ && column.row_bytes >= kLongRow});
    fixed_bytes_ += bytes;
  }
}

void RowWriter::write(BatchData& batch, std::uint32_t first, std::uint32_t count,
                      ThreadCounters& counters) {
  const std::uint64_t start = steady_ns();
  image_times_ = {};
  bytes_ = 0;
  for (std::uint32_t row = first; row < first + count; ++row) {
    if (scattered_ && (row - first) % kRowsAhead == 0) {
      bring_in(batch, row, std::min(kRowsAhead, first + count - row));
    }
    try {
      write_row(batch, row);
    } catch (...) {
      batch.add_error(row, described(batch, row, std::current_exception()));
    }
  }
  if (streaming_) finish_streaming();
  const std::uint64_t images = image_times_.decode + image_times_.resample;
  ThreadCounters::add(counters.decode_ns, image_times_.decode);
  ThreadCounters::add(counters.resample_ns, image_times_.resample);
  const std::uint64_t elapsed = steady_ns() - start;
  ThreadCounters::add(counters.store_ns, elapsed - std::min(images, elapsed));
  ThreadCounters::add(counters.bytes_read, bytes_);
  ThreadCounters::add(counters.samples, count);
}

// Items of a shuffled batch lie anywhere: the offset in the header and then the item are cache and
// TLB misses, one waiting for the other. Two short loops of independent loads let the processor
// have many of them under way; prefetch instructions do not do it, since they may be dropped when
// the page is not in the TLB.
void RowWriter::bring_in(const BatchData& batch, std::uint32_t first, std::uint32_t count) {
  std::array<const std::uint8_t*, kRowsAhead> items;
  std::array<std::size_t, kRowsAhead> second;
  std::array<std::size_t, kRowsAhead> last;
  const std::size_t reach = fixed_.empty() ? kLine : std::min(fixed_bytes_ - 1, 3 * kLine);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto [chunk, item] = batch.rows[first + i];
    const ByteSpan file = batch.chunks[chunk]->view.file().span();
    const std::size_t at = 4 + std::size_t{4} * item;
    const std::size_t begin = at + 8 <= file.size() ? load_u32(file.data() + at) : file.size();
    const std::size_t left = begin < file.size() ? file.size() - begin : 0;
    items[i] = left != 0 ? file.data() + begin : kNothing;
    last[i] = left > reach ? reach : 0;
    second[i] = std::min(last[i], kLine);
  }
  unsigned sum = 0;
  for (std::uint32_t i = 0; i < count; ++i)
    sum += items[i][0] + items[i][second[i]] + items[i][last[i]];
  touched_ = sum;
}

void RowWriter::write_row(BatchData& batch, std::uint32_t row) {
  const auto [chunk, item] = batch.rows[row];
  const OpenChunk& opened = *batch.chunks[chunk];
  if (opened.error) [[unlikely]]
    std::rethrow_exception(opened.error);
  if (blocks_) {
    write_tokens(batch, row);
  } else {
    write_item(batch, row, opened.view.item_span(item));
  }
}

// Where the block of a later row of this batch lies; null when it is not there.
const std::uint8_t* RowWriter::block_of(const BatchData& batch, std::uint32_t row) const noexcept {
  if (row >= batch.rows.size()) return nullptr;
  const auto [chunk, item] = batch.rows[row];
  const ByteSpan payload = batch.chunks[chunk]->view.payload();
  const std::size_t bytes = blocks_->block_bytes();
  return payload.size() / bytes > item ? payload.data() + item * bytes : nullptr;
}

void RowWriter::write_tokens(BatchData& batch, std::uint32_t row) {
  const auto [chunk, item] = batch.rows[row];
  const ByteSpan block = blocks_->block(batch.chunks[chunk]->view, item);
  const TokenColumn& tokens = spec_->tokens;
  bytes_ += block.size();
  const std::uint8_t* const next = block_of(batch, row + 1);
  if (tokens.to_int64) {
    const std::size_t row_bytes = tokens.block_size * sizeof(std::int64_t);
    widen_to_int64(block.data(), tokens.token_bytes, tokens.is_signed, tokens.block_size,
                   target(batch, 0, row_bytes, row), streaming_, next);
  } else {
    copy_row(block.data(), block.size(), target(batch, 0, block.size(), row), streaming_, next);
  }
}

bool RowWriter::has_fixed_layout(ByteSpan item) const noexcept {
  return item.size() == fixed_bytes_ &&
         std::memcmp(item.data(), fixed_sizes_.data(), fixed_sizes_.size()) == 0;
}

void RowWriter::write_item(BatchData& batch, std::uint32_t row, ByteSpan item) {
  bytes_ += item.size();
  if (has_fixed_layout(item)) [[likely]] {
    write_fixed_item(batch, row, item);
    return;
  }
  split_item(item, leaves_);
  for (std::size_t c = 0; c < leaves_.size(); ++c) write_leaf(batch, row, c, leaves_[c]);
}

// All sizes are as expected, so every leaf lies where it lies in every item.
void RowWriter::write_fixed_item(BatchData& batch, std::uint32_t row, ByteSpan item) {
  std::uint8_t* const slab = batch.slab.memory.data();
  for (const FixedField& field : fixed_) {
    const std::uint8_t* leaf = item.data() + field.at;
    if (field.header != 0) {
      const Column& column = spec_->columns[field.column];
      if (std::memcmp(leaf, column.header.data(), field.header) != 0) [[unlikely]] {
        write_leaf(batch, row, field.column,
                   {leaf, field.header + field.bytes});  // says what is wrong
      }
      leaf += field.header;
    }
    std::uint8_t* to = slab + field.offset + row * field.bytes;
    if (field.streams) {
      copy_row(leaf, field.bytes, to, /*streaming=*/true);
    } else {
      copy_small(leaf, field.bytes, to);
    }
  }
}

void RowWriter::write_leaf(BatchData& batch, std::uint32_t row, std::size_t c, ByteSpan leaf) {
  const Column& column = spec_->columns[c];
  std::uint8_t* to = target(batch, column.offset, column.row_bytes, row);
  const std::size_t header = column.header.size();
  switch (column.kind) {
    case ColumnKind::kShaped:
      if (leaf.size() < header || std::memcmp(leaf.data(), column.header.data(), header) != 0) {
        const bool has_header = leaf.size() >= kSmallestHeader;
        throw_leaf(has_header ? ErrorCode::kInvalidArgument : ErrorCode::kCorrupt, column,
                   "expected " + shape_text(column.header) + " as in the first sample, found " +
                       shape_text(leaf) + kOneShape);
      }
      if (leaf.size() != header + column.row_bytes) {
        throw_leaf(ErrorCode::kCorrupt, column,
                   "the shape in its header asks for " + number(header + column.row_bytes) +
                       " bytes, found " + number(leaf.size()));
      }
      copy_row(leaf.data() + header, column.row_bytes, to,
               streaming_ && column.row_bytes >= kLongRow);
      return;
    case ColumnKind::kFixed:
      if (leaf.size() != column.row_bytes) {
        // An array may be longer than the first one; a number cannot.
        const bool is_array = column.format.starts_with("no_header_");
        throw_leaf(is_array ? ErrorCode::kInvalidArgument : ErrorCode::kCorrupt, column,
                   "expected " + number(column.row_bytes) +
                       " bytes as in the first sample, found " + number(leaf.size()) +
                       (is_array ? kOneShape : ""));
      }
      copy_row(leaf.data() + header, column.row_bytes, to,
               streaming_ && column.row_bytes >= kLongRow);
      return;
    case ColumnKind::kObject:
      if (column.is_text && !is_utf8(leaf))
        throw_leaf(ErrorCode::kCorrupt, column, "the bytes are not UTF-8 text");
      batch.objects[objects_of_[c]][row] = leaf;
      return;
    case ColumnKind::kImage:
      write_image(batch, row, c, leaf);
  }
}

void RowWriter::write_image(BatchData& batch, std::uint32_t row, std::size_t c, ByteSpan leaf) {
  const Column& column = spec_->columns[c];
  ImagePipeline& pipeline = *pipelines_[c];
  const auto& [seed, epoch] = batch.key_of(row);
  const std::array<std::uint64_t, 4> key{seed, epoch, batch.positions[row], c};
  std::uint8_t* to = target(batch, column.offset, column.row_bytes, row);
  try {
    pipeline.run_jpeg(leaf, key, {{to, column.row_bytes}, column.size});
  } catch (const Error& error) {
    const bool size = error.code() == ErrorCode::kInvalidArgument;
    throw Error(error.code(),
                "leaf " + column.path + " (stored as '" + column.format + "'): " + error.message() +
                    (size ? ". Images of one batch need one size: add vision.Resize or "
                            "vision.RandomResizedCrop as a transform"
                          : ""));
  }
  image_times_.decode += pipeline.times().decode;
  image_times_.resample += pipeline.times().resample;
}

std::exception_ptr RowWriter::described(const BatchData& batch, std::uint32_t row,
                                        std::exception_ptr error) const {
  const auto [chunk, item] = batch.rows[row];
  const OpenChunk& opened = *batch.chunks[chunk];
  if (opened.error) return error;  // names its file and what to do
  const std::string file = path_of_(opened.chunk);
  std::string where = "sample at position " + number(batch.positions[row]) + " of epoch " +
                      number(batch.key_of(row).epoch) + " (" + (blocks_ ? "block " : "item ") +
                      number(item);
  try {
    if (!blocks_) {
      const ByteSpan bytes = opened.view.item_span(item);
      const auto begin = static_cast<std::uint64_t>(bytes.data() - opened.view.file().data());
      where += ", bytes " + number(begin) + " to " + number(begin + bytes.size());
    }
    std::rethrow_exception(std::move(error));
  } catch (const Error& cause) {
    return std::make_exception_ptr(
        Error(cause.code(), where + "): " + cause.message(), {file, std::nullopt}));
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace stoker
