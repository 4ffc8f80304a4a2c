// SPDX-License-Identifier: Apache-2.0
// Rows written one claim at a time, without a loader.
#include "engine/row_writer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "engine/loader_samples.h"
#include "error_of.h"

namespace stoker {
namespace {

using test::Buffer;
using test::error_of;
using test::LoaderDataset;

constexpr std::uint8_t kUntouched = 0xC3;

/// A batch of the first chunk's items, as the planner makes it.
struct Planned {
  explicit Planned(const LoaderDataset& set, std::uint32_t rows, std::size_t objects = 0)
      : input(set.input(rows)), memory(input.spec->slab_bytes), table(set.data->table()) {
    auto chunk = std::make_shared<OpenChunk>();
    chunk->view = input.dataset.opener->open(0, Purpose::kWholeChunk);
    data.chunks.push_back(chunk);
    for (std::uint32_t i = 0; i < rows; ++i) {
      data.rows.push_back({0, i});
      data.positions.push_back(1000 + 3 * i);
    }
    data.keys = {{42, 1}};
    data.objects.assign(objects, std::vector<ByteSpan>(rows));
    data.slab.memory = memory.span();
    std::ranges::fill(data.slab.memory, kUntouched);
  }
  [[nodiscard]] RowWriter writer() const {
    return {input.spec, [this](std::size_t chunk) { return table->path(chunk); }};
  }
  [[nodiscard]] Buffer row(std::size_t column, std::uint32_t r) const {
    const Column& c = input.spec->columns[column];
    const std::uint8_t* from = data.slab.memory.data() + c.offset + r * c.row_bytes;
    return {from, from + c.row_bytes};
  }

  LoaderInput input;
  HostBuffer memory;
  std::shared_ptr<const ChunkTable> table;
  BatchData data;
};

TEST(RowWriterTest, WritesTheRowsOfTheClaimAndNoOthers) {
  const LoaderDataset set = test::fixed_dataset(1, 10);
  Planned planned(set, 10);
  RowWriter writer = planned.writer();
  ThreadCounters counters;
  writer.write(planned.data, 3, 4, counters);
  for (std::uint32_t r = 0; r < 10; ++r) {
    const bool written = r >= 3 && r < 7;
    EXPECT_EQ(planned.row(0, r), written ? test::pattern(8, r, 0) : Buffer(8, kUntouched));
    EXPECT_EQ(planned.row(1, r), written ? test::pattern(40, r, 1) : Buffer(40, kUntouched));
    EXPECT_EQ(planned.row(2, r), written ? test::pattern(3, r, 2) : Buffer(3, kUntouched));
  }
  EXPECT_EQ(counters.samples.load(), 4U);
  EXPECT_TRUE(planned.data.take_errors().empty());
}

TEST(RowWriterTest, ARowMayComeTwiceAndInAnyOrder) {
  const LoaderDataset set = test::fixed_dataset(1, 10);
  Planned planned(set, 6);
  planned.data.rows = {{0, 9}, {0, 0}, {0, 9}, {0, 4}, {0, 0}, {0, 1}};
  RowWriter writer = planned.writer();
  ThreadCounters counters;
  writer.write(planned.data, 4, 2, counters);
  writer.write(planned.data, 0, 4, counters);
  for (std::uint32_t r = 0; r < 6; ++r) {
    EXPECT_EQ(planned.row(1, r), test::pattern(40, planned.data.rows[r].item, 1));
  }
}

TEST(RowWriterTest, ObjectsLieInTheChunk) {
  const LoaderDataset set = test::mixed_dataset(1, 10, false);
  Planned planned(set, 10, 2);
  RowWriter writer = planned.writer();
  ThreadCounters counters;
  writer.write(planned.data, 0, 10, counters);
  const ByteSpan file = planned.data.chunks[0]->view.file().span();
  for (std::uint32_t r = 0; r < 10; ++r) {
    const ByteSpan text = planned.data.objects[0][r];
    EXPECT_EQ(test::to_buffer(text), test::bytes_of_text(test::text_of(r)));
    EXPECT_GE(text.data(), file.data());
    EXPECT_LE(text.data() + text.size(), file.data() + file.size());
    EXPECT_EQ(test::to_buffer(planned.data.objects[1][r]), test::pattern(r % 5, r, 2));
  }
}

TEST(RowWriterTest, OneBadRowDoesNotStopTheOthers) {
  LoaderDataset set = test::mixed_dataset(1, 10, false);
  Planned planned(set, 10, 2);
  auto broken = std::make_shared<OpenChunk>();
  broken->error = std::make_exception_ptr(Error(ErrorCode::kNotFound, "gone"));
  planned.data.chunks.push_back(broken);
  planned.data.rows[2] = {1, 0};
  planned.data.rows[7] = {0, 10};  // no such item
  planned.data.rows[5] = {1, 3};
  RowWriter writer = planned.writer();
  ThreadCounters counters;
  writer.write(planned.data, 5, 5, counters);
  writer.write(planned.data, 0, 5, counters);
  const auto errors = planned.data.take_errors();
  ASSERT_EQ(errors.size(), 3U);
  EXPECT_EQ(errors[0].row, 2U);
  EXPECT_EQ(errors[1].row, 5U);
  EXPECT_EQ(errors[2].row, 7U);
  const auto error = [&](std::size_t i) {
    return error_of([&]() -> int { std::rethrow_exception(errors[i].error); });
  };
  EXPECT_EQ(error(0).message(), "gone");  // as the opener said it
  EXPECT_EQ(error(2).code(), ErrorCode::kOutOfRange);
  EXPECT_EQ(error(2).message().find("sample at position 1021 of epoch 1 (item 10"), 0U);
  EXPECT_EQ(planned.row(0, 9), test::pattern(8, 9, 0));
  EXPECT_EQ(planned.row(0, 0), test::pattern(8, 0, 0));
  EXPECT_TRUE(planned.data.take_errors().empty());  // taken
}

// Rows of a batch need not follow each other in the epoch.
TEST(RowWriterTest, DiceOfImagesComeFromThePositionsOfTheRows) {
  const LoaderDataset set = test::mixed_dataset(1, 6, true);
  Planned planned(set, 6, 2);
  planned.data.rows = {{0, 4}, {0, 1}, {0, 4}, {0, 4}, {0, 0}, {0, 5}};
  planned.data.positions = {7, 8, 900, 901, 7, std::uint64_t{1} << 40};
  RowWriter writer = planned.writer();
  ThreadCounters counters;
  writer.write(planned.data, 2, 4, counters);
  writer.write(planned.data, 0, 2, counters);
  ASSERT_TRUE(planned.data.take_errors().empty());
  for (std::uint32_t r = 0; r < 6; ++r) {
    const Buffer whole = set.row(planned.data.rows[r].item, planned.data.positions[r]);
    const Buffer pixels = planned.row(3, r);
    ASSERT_EQ(pixels, Buffer(whole.end() - static_cast<int>(pixels.size()), whole.end())) << r;
  }
  EXPECT_NE(planned.row(3, 0), planned.row(3, 2));  // one item, two positions
  EXPECT_NE(planned.row(3, 2), planned.row(3, 3));
}

// An item whose sizes are as always but whose header differs takes the other path, to the error.
TEST(RowWriterTest, AllSizesRightButAnotherShape) {
  const Buffer header = test::header_of(9, {2, 5});
  LoaderDataset set;
  set.spec.columns = {test::shaped_column(header, 40)};
  set.add_chunk(
      {test::item_of({test::joined(header, test::pattern(40, 0, 0))}),
       test::item_of({test::joined(test::header_of(9, {5, 2}), test::pattern(40, 1, 0))})});
  Planned planned(set, 2);
  RowWriter writer = planned.writer();
  ThreadCounters counters;
  writer.write(planned.data, 0, 2, counters);
  EXPECT_EQ(planned.row(0, 0), test::pattern(40, 0, 0));
  EXPECT_EQ(planned.row(0, 1), Buffer(40, kUntouched));
  EXPECT_EQ(planned.data.take_errors().size(), 1U);
}

// Every size has its own way to be copied.
TEST(RowWriterTest, FixedLeavesOfAllSizes) {
  LoaderDataset set;
  std::vector<Buffer> leaves;
  for (std::size_t size = 0; size < 80; ++size) {
    set.spec.columns.push_back(test::fixed_column(size));
    leaves.push_back(test::pattern(size, size, 3));
  }
  set.add_chunk({test::item_of(leaves), test::item_of(leaves)});
  Planned planned(set, 2);
  RowWriter writer = planned.writer();
  ThreadCounters counters;
  writer.write(planned.data, 0, 2, counters);
  EXPECT_TRUE(planned.data.take_errors().empty());
  for (std::size_t c = 0; c < leaves.size(); ++c) {
    EXPECT_EQ(planned.row(c, 0), leaves[c]);
    EXPECT_EQ(planned.row(c, 1), leaves[c]);
  }
}

}  // namespace
}  // namespace stoker
