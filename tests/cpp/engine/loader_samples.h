// SPDX-License-Identifier: Apache-2.0
// Small datasets with every kind of column, and what their batches should hold.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/coding.h"
#include "base/host_buffer.h"
#include "engine/loader.h"
#include "jpeg_samples.h"
#include "reader/dataset_samples.h"

namespace stoker::test {

constexpr std::chrono::milliseconds kLong{60'000};

inline Buffer bytes_of_text(const std::string& text) { return to_buffer(as_bytes(text)); }

/// An item of these leaves, from cpp/format/FORMAT.md section 2.
inline Buffer item_of(const std::vector<Buffer>& leaves) {
  Buffer item;
  for (const Buffer& leaf : leaves) append_u32(item, static_cast<std::uint32_t>(leaf.size()));
  for (const Buffer& leaf : leaves) item.insert(item.end(), leaf.begin(), leaf.end());
  return item;
}

/// The header of a numpy leaf (or, big-endian, of a tensor).
inline Buffer header_of(std::uint32_t dtype, const std::vector<std::uint32_t>& shape,
                        bool big_endian = false) {
  std::vector<std::uint32_t> words{dtype, static_cast<std::uint32_t>(shape.size())};
  words.insert(words.end(), shape.begin(), shape.end());
  Buffer header;
  for (const std::uint32_t word : words) {
    append_u32(header, big_endian ? __builtin_bswap32(word) : word);
  }
  return header;
}

inline Buffer joined(Buffer first, const Buffer& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// Bytes that tell items and leaves apart.
inline Buffer pattern(std::size_t size, std::uint64_t item, std::uint64_t leaf) {
  Buffer bytes;
  for (std::size_t i = 0; i < size; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(item * 131 + leaf * 17 + i * 7 + (item >> 8)));
  }
  return bytes;
}

inline Column fixed_column(std::size_t bytes, const std::string& path = "['id']") {
  Column column;
  column.path = path;
  column.format = "int";
  column.row_bytes = bytes;
  return column;
}

inline Column shaped_column(const Buffer& header, std::size_t bytes) {
  Column column = fixed_column(bytes, "['array']");
  column.kind = ColumnKind::kShaped;
  column.format = "numpy";
  column.header = header;
  return column;
}

inline Column object_column(bool is_text, const std::string& path) {
  Column column;
  column.kind = ColumnKind::kObject;
  column.path = path;
  column.format = is_text ? "str" : "bytes";
  column.is_text = is_text;
  return column;
}

inline Column image_column(std::vector<ImageStep> steps, ImageSize size) {
  Column column;
  column.kind = ColumnKind::kImage;
  column.path = "['image']";
  column.format = "jpeg";
  column.steps = std::make_shared<const ImageSteps>(ImageSteps{std::move(steps), {}});
  column.size = size;
  column.row_bytes = column.steps->format.image_bytes(size.width, size.height);
  return column;
}

/// What a row of a batch should hold: the bytes of every column, those of objects after their size.
using RowOf = std::function<Buffer(std::uint64_t item, std::uint64_t position)>;

/// A dataset, its spec, and the rows it should give.
class LoaderDataset {
 public:
  explicit LoaderDataset(bool compressed = false)
      : data(std::make_unique<SampleDataset>(compressed)) {}

  void add_chunk(const std::vector<Buffer>& items) {
    sizes.push_back(items.size());
    data->add(items);
  }
  [[nodiscard]] std::uint64_t size() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t n : sizes) sum += n;
    return sum;
  }
  [[nodiscard]] DatasetPart part(Verify verify = Verify::kFirst) const {
    return {std::make_shared<const ChunkOpener>(data->table(), verify), 42, sizes, tokens};
  }
  /// All chunks, one interval each, in one world of one rank.
  [[nodiscard]] LoaderInput input(std::uint32_t batch_size, const PlanOptions& plan = {},
                                  Verify verify = Verify::kFirst) const {
    std::vector<Interval> intervals;
    std::uint64_t at = 0;
    for (const std::uint64_t n : sizes) {
      intervals.push_back({at, at + n});
      at += n;
    }
    BatchSpec laid_out = spec;
    laid_out.batch_rows = batch_size;
    laid_out.lay_out();
    LoaderInput input;
    input.dataset = part(verify);
    input.dataset.seed = plan.seed;
    input.intervals = std::make_shared<const IntervalSet>(intervals, sizes);
    input.plan = plan;
    input.slices = {.total = size(), .batch_size = batch_size};
    input.spec = std::make_shared<const BatchSpec>(laid_out);
    return input;
  }
  /// The rows of these positions, from the plan and `row`.
  [[nodiscard]] std::vector<Buffer> expected_at(const LoaderInput& from,
                                                const std::vector<std::uint64_t>& positions) const {
    EpochPlan plan(from.intervals, from.plan);
    std::vector<std::uint64_t> items(plan.size());
    plan.fill(0, items);
    std::vector<Buffer> rows;
    for (const std::uint64_t p : positions) rows.push_back(row(items.at(p), p));
    return rows;
  }
  /// The rows of a range of positions: those of a batch when there is one rank.
  [[nodiscard]] std::vector<Buffer> expected(const LoaderInput& from, std::uint64_t begin,
                                             std::uint64_t count) const {
    std::vector<std::uint64_t> positions(count);
    std::iota(positions.begin(), positions.end(), begin);
    return expected_at(from, positions);
  }

  std::unique_ptr<SampleDataset> data;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> tokens;
  BatchSpec spec;
  RowOf row;
};

/// The positions of each batch of a rank, from the words of BatchSlices and Streams::rows: those of
/// the global batch sorted by stream, then cut, the rank's share ascending.
inline std::vector<std::vector<std::uint64_t>> positions_of(const LoaderInput& input) {
  const BatchSlices& s = input.slices;
  const std::uint64_t streams =
      input.plan.shuffle != Shuffle::kWindows
          ? 1
          : std::clamp<std::uint64_t>(input.intervals->size(), 1, input.plan.streams);
  std::vector<std::vector<std::uint64_t>> batches;
  for (std::uint64_t begin = s.start; begin < s.total; begin += s.global_batch()) {
    const std::uint64_t size = std::min(s.global_batch(), s.total - begin);
    if (size < s.global_batch() && s.drop_last) break;
    std::vector<std::uint64_t> batch;
    for (std::uint64_t p = begin; p < begin + size; ++p) batch.push_back(p);
    std::ranges::stable_sort(batch, {}, [&](std::uint64_t p) { return p % streams; });
    std::vector<std::uint64_t> mine(
        batch.begin() + static_cast<std::ptrdiff_t>(s.rank * size / s.world_size),
        batch.begin() + static_cast<std::ptrdiff_t>((s.rank + 1) * size / s.world_size));
    std::ranges::sort(mine);
    if (!mine.empty()) batches.push_back(std::move(mine));
  }
  return batches;
}

/// Orders of every kind.
inline std::vector<PlanOptions> all_orders() {
  std::vector<PlanOptions> orders{{}, {.shuffle = Shuffle::kFull}};
  for (const auto& [window, streams] : {std::pair(1U, 1U), {3U, 1U}, {2U, 3U}, {100U, 8U}}) {
    orders.push_back({.shuffle = Shuffle::kWindows, .window = window, .streams = streams});
  }
  return orders;
}

/// Windows of so many chunks in each of three streams.
inline PlanOptions windows(std::uint32_t window = 4) {
  return {.shuffle = Shuffle::kWindows, .window = window, .streams = 3};
}

/// The rows of a batch in the form of RowOf.
inline std::vector<Buffer> rows_of(const Batch& batch, const BatchSpec& spec) {
  std::vector<Buffer> rows(batch.rows);
  const auto append = [&](Buffer& to, std::size_t offset, std::size_t bytes) {
    const std::uint8_t* from = batch.slab.memory.data() + offset;
    to.insert(to.end(), from, from + bytes);
  };
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::size_t object = 0;
    if (spec.is_tokens()) {
      const auto& t = spec.tokens;
      const std::size_t bytes = t.block_size * (t.to_int64 ? 8 : t.token_bytes);
      append(rows[r], r * bytes, bytes);
    }
    for (const Column& column : spec.columns) {
      if (column.kind != ColumnKind::kObject) {
        append(rows[r], column.offset + r * column.row_bytes, column.row_bytes);
        continue;
      }
      const ByteSpan bytes = batch.objects.at(object++).at(r);
      append_u32(rows[r], static_cast<std::uint32_t>(bytes.size()));
      rows[r].insert(rows[r].end(), bytes.begin(), bytes.end());
    }
  }
  return rows;
}

/// `chunks` chunks of `per_chunk` items of fixed and shaped leaves (one path through the writer).
inline LoaderDataset fixed_dataset(std::size_t chunks, std::size_t per_chunk,
                                   bool compressed = false) {
  LoaderDataset set(compressed);
  const Buffer header = header_of(9, {2, 5});
  set.spec.columns = {fixed_column(8), shaped_column(header, 40), fixed_column(3, "['flat']")};
  const auto leaves = [](std::uint64_t item) {
    return std::vector<Buffer>{pattern(8, item, 0), pattern(40, item, 1), pattern(3, item, 2)};
  };
  for (std::size_t c = 0; c < chunks; ++c) {
    std::vector<Buffer> items;
    for (std::size_t i = 0; i < per_chunk; ++i) {
      std::vector<Buffer> parts = leaves(c * per_chunk + i);
      parts[1] = joined(header, parts[1]);
      items.push_back(item_of(parts));
    }
    set.add_chunk(items);
  }
  set.row = [leaves](std::uint64_t item, std::uint64_t) {
    const std::vector<Buffer> parts = leaves(item);
    return joined(joined(parts[0], parts[1]), parts[2]);
  };
  return set;
}

inline std::string text_of(std::uint64_t item) {
  return "t\xC3\xA9xt " + std::string(item % 11, 'x') + std::to_string(item);
}

/// Fixed, text, bytes and, with `images`, image leaves.
inline LoaderDataset mixed_dataset(std::size_t chunks, std::size_t per_chunk, bool images) {
  LoaderDataset set;
  constexpr ImageSize kSize{12, 8};
  std::vector<Buffer> jpegs;
  for (unsigned i = 0; images && i < 7; ++i) {
    jpegs.push_back(encode_jpeg(make_photo(24 + 5 * i, 30 - 2 * i, 3, i + 1), {}));
  }
  set.spec.columns = {fixed_column(8), object_column(true, "['text']"),
                      object_column(false, "['bytes']")};
  if (images) {
    set.spec.columns.push_back(
        image_column({RandomResizedCropStep{.size = kSize}, FlipStep{}}, kSize));
  }
  for (std::size_t c = 0; c < chunks; ++c) {
    std::vector<Buffer> items;
    for (std::size_t i = 0; i < per_chunk; ++i) {
      const std::uint64_t item = c * per_chunk + i;
      std::vector<Buffer> leaves{pattern(8, item, 0), bytes_of_text(text_of(item)),
                                 pattern(item % 5, item, 2)};
      if (images) leaves.push_back(jpegs[item % jpegs.size()]);
      items.push_back(item_of(leaves));
    }
    set.add_chunk(items);
  }
  set.row = [jpegs, spec = set.spec, images](std::uint64_t item, std::uint64_t position) {
    Buffer row = pattern(8, item, 0);
    for (const Buffer& object : {bytes_of_text(text_of(item)), pattern(item % 5, item, 2)}) {
      append_u32(row, static_cast<std::uint32_t>(object.size()));
      row = joined(row, object);
    }
    if (!images) return row;
    const Column& column = spec.columns[3];
    Buffer pixels(column.row_bytes);
    const std::array<std::uint64_t, 4> key{42, 1, position, 3};  // seed, epoch, position, column
    ImagePipeline(column.steps).run_jpeg(jpegs[item % jpegs.size()], key, {pixels, column.size});
    return joined(row, pixels);
  };
  return set;
}

/// Chunks of `per_chunk` blocks of 16-bit tokens and some tokens more.
inline LoaderDataset token_dataset(std::size_t chunks, std::size_t per_chunk,
                                   std::uint64_t block_size, bool to_int64) {
  LoaderDataset set;
  set.spec.tokens = {block_size, 2, false, to_int64};
  const auto token = [](std::uint64_t chunk, std::uint64_t at) {
    return static_cast<std::uint16_t>(chunk * 8191 + at * 77 + 60'000);
  };
  for (std::size_t c = 0; c < chunks; ++c) {
    const std::uint64_t count = per_chunk * block_size + c % block_size;
    Buffer run;
    for (std::uint64_t i = 0; i < count; ++i) {
      run.push_back(static_cast<std::uint8_t>(token(c, i)));
      run.push_back(static_cast<std::uint8_t>(token(c, i) >> 8));
    }
    set.data->add({run});
    set.sizes.push_back(per_chunk);
    set.tokens.push_back(count);
  }
  set.row = [=](std::uint64_t block, std::uint64_t) {
    Buffer row;
    for (std::uint64_t i = 0; i < block_size; ++i) {
      const std::uint64_t value = token(block / per_chunk, block % per_chunk * block_size + i);
      for (unsigned b = 0; b < (to_int64 ? 8U : 2U); ++b) {
        row.push_back(static_cast<std::uint8_t>(value >> (8 * b)));
      }
    }
    return row;
  };
  return set;
}

}  // namespace stoker::test
