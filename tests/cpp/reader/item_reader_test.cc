// SPDX-License-Identifier: Apache-2.0
#include "reader/item_reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "error_of.h"
#include "in_child.h"
#include "reader/dataset_samples.h"

namespace stoker {
namespace {

using test::Buffer;
using test::error_of;
using test::in_child;
using test::items_of_chunk;
using test::SampleDataset;
using test::to_buffer;

constexpr Purpose kLone = Purpose::kLoneItem;
constexpr Purpose kWhole = Purpose::kWholeChunk;

// Chunks of these many items; nothing on disk is touched by locate().
std::shared_ptr<const ChunkTable> table_of(const std::vector<std::uint32_t>& items) {
  ChunkTable table;
  table.filenames.resize(items.size());
  table.items = items;
  table.raw_bytes.resize(items.size());
  table.file_bytes.resize(items.size());
  table.checksums.resize(items.size());
  table.has_checksum.resize(items.size());
  return std::make_shared<const ChunkTable>(table);
}

// `count` chunks of 3 items of 100 bytes (320 bytes with the header).
SampleDataset& fill(SampleDataset& data, std::size_t count) {
  for (std::size_t c = 0; c < count; ++c) data.add(items_of_chunk(c, 3, 100));
  return data;
}

std::vector<std::size_t> ready(const ItemReader& reader, Purpose purpose = kLone) {
  std::vector<std::size_t> chunks;
  for (std::size_t c = 0; c < reader.opener().table().size(); ++c) {
    if (reader.is_ready(c, purpose)) chunks.push_back(c);
  }
  return chunks;
}
using Chunks = std::vector<std::size_t>;

TEST(ItemReaderLocateTest, AllBorders) {
  const std::vector<std::uint32_t> sizes{0, 3, 0, 0, 1, 5, 0, 2, 0};
  const ItemReader reader(table_of(sizes), Verify::kNever);
  ASSERT_EQ(reader.size(), 11U);
  std::uint64_t item = 0;
  for (std::size_t c = 0; c < sizes.size(); ++c) {
    for (std::uint32_t i = 0; i < sizes[c]; ++i, ++item) {
      const ItemAddress found = reader.locate(item);
      EXPECT_EQ(found.chunk, c);
      EXPECT_EQ(found.item, i);
    }
  }
}

TEST(ItemReaderLocateTest, OutOfRange) {
  const ItemReader reader(table_of({2, 1}), Verify::kNever);
  for (const std::uint64_t past : {std::uint64_t{3}, ~std::uint64_t{0}}) {
    const Error error = error_of([&] { return reader.locate(past); });
    EXPECT_EQ(error.code(), ErrorCode::kOutOfRange);
    EXPECT_EQ(error.message(), "item " + std::to_string(past) + " of 3");
  }
}

TEST(ItemReaderLocateTest, NothingToLocate) {
  for (const auto& sizes : {std::vector<std::uint32_t>{}, {0, 0}}) {
    const ItemReader reader(table_of(sizes), Verify::kNever);
    EXPECT_EQ(reader.size(), 0U);
    EXPECT_EQ(error_of([&] { return reader.locate(0); }).code(), ErrorCode::kOutOfRange);
  }
}

TEST(ItemReaderLocateTest, CountsPass32Bits) {
  const ItemReader reader(table_of({0xFFFFFFFF, 0xFFFFFFFF, 5}), Verify::kNever);
  EXPECT_EQ(reader.size(), 2 * std::uint64_t{0xFFFFFFFF} + 5);
  EXPECT_EQ(reader.locate(0xFFFFFFFE).item, 0xFFFFFFFEU);
  EXPECT_EQ(reader.locate(0xFFFFFFFF).chunk, 1U);
  EXPECT_EQ(reader.locate(reader.size() - 1).item, 4U);
}

// The hint of the chunk used last, also of an empty or a missing one, changes no answer.
TEST(ItemReaderLocateTest, WhateverWasUsedLast) {
  SampleDataset data;
  const std::vector<std::size_t> sizes{2, 0, 3, 1};
  for (std::size_t c = 0; c < sizes.size(); ++c) data.add(items_of_chunk(c, sizes[c]));
  std::filesystem::remove(data.rows.path(3));
  ItemReader reader(data.table(), Verify::kFirst);
  const std::vector<std::size_t> chunks{0, 0, 2, 2, 2, 3};
  for (std::size_t used = 0; used < sizes.size(); ++used) {
    try {
      reader.chunk(used, kLone);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    }
    for (std::size_t i = 0; i < chunks.size(); ++i) EXPECT_EQ(reader.locate(i).chunk, chunks[i]);
  }
}

TEST(ItemReaderLocateTest, FromAnyThreadWhileChunksOpen) {
  SampleDataset data;
  ItemReader reader(fill(data, 8).table(), Verify::kFirst);
  std::atomic<bool> stop = false;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; !stop; i = (i + 7) % reader.size()) {
        ASSERT_EQ(reader.locate(i).chunk, i / 3);
      }
    });
  }
  for (std::size_t i = 0; i < 500; ++i) reader.chunk(i * 5 % 8, i % 2 == 0 ? kLone : kWhole);
  stop = true;
}

TEST(ItemReaderTest, GivesEveryItem) {
  for (const bool compressed : {false, true}) {
    SampleDataset data(compressed);
    ItemReader reader(fill(data, 5).table(), Verify::kFirst, {.max_open_chunks = 2});
    for (std::uint64_t k = 0; k < 3 * reader.size(); ++k) {
      const ItemAddress at = reader.locate(k * 7 % reader.size());
      const Bytes item = reader.chunk(at.chunk, k % 2 == 0 ? kLone : kWhole).item(at.item);
      ASSERT_EQ(to_buffer(item.span()), items_of_chunk(at.chunk, 3, 100)[at.item]);
    }
  }
}

TEST(ItemReaderTest, AnOpenChunkIsNotOpenedAgain) {
  SampleDataset data;
  ItemReader reader(fill(data, 2).table(), Verify::kFirst);
  const std::uint8_t* address = reader.chunk(0, kWhole).file().data();
  std::filesystem::remove(data.rows.path(0));
  EXPECT_EQ(reader.chunk(0, kLone).file().data(), address);
  EXPECT_EQ(reader.chunk(0, kWhole).file().data(), address);
  EXPECT_EQ(reader.open_chunks(), 1U);
}

TEST(ItemReaderTest, ReadySaysWhatIsOpenAndVerified) {
  SampleDataset data;
  ItemReader reader(fill(data, 3).table(), Verify::kFirst);
  EXPECT_EQ(ready(reader), Chunks{});
  reader.chunk(0, kLone);
  reader.chunk(2, kWhole);
  EXPECT_EQ(ready(reader, kLone), (Chunks{0, 2}));
  EXPECT_EQ(ready(reader, kWhole), Chunks{2});
  reader.chunk(0, kWhole);
  EXPECT_EQ(ready(reader, kWhole), (Chunks{0, 2}));
  EXPECT_EQ(reader.open_chunks(), 2U);
}

TEST(ItemReaderTest, TheOldestMappingIsClosed) {
  SampleDataset data;
  ItemReader reader(fill(data, 5).table(), Verify::kFirst, {.max_open_chunks = 3});
  const std::weak_ptr<const void> first = reader.chunk(0, kLone).file().owner();
  for (const std::size_t c : {1U, 2U}) reader.chunk(c, kLone);
  reader.chunk(0, kLone);  // used again, but opened first
  EXPECT_FALSE(first.expired());
  reader.chunk(3, kLone);
  EXPECT_TRUE(first.expired());
  EXPECT_EQ(ready(reader), (Chunks{1, 2, 3}));
  reader.chunk(1, kWhole);  // verified, not opened: it stays the oldest
  reader.chunk(4, kLone);
  EXPECT_EQ(ready(reader), (Chunks{2, 3, 4}));
  reader.chunk(0, kLone);
  EXPECT_EQ(ready(reader), (Chunks{0, 3, 4}));
  EXPECT_EQ(reader.open_chunks(), 3U);
}

TEST(ItemReaderTest, AtLeastOneChunkIsOpen) {
  for (const bool compressed : {false, true}) {
    SampleDataset data(compressed);
    ItemReader reader(fill(data, 3).table(), Verify::kFirst,
                      {.max_open_chunks = 0, .max_buffer_bytes = 0});
    for (const std::size_t c : {0U, 1U, 2U, 0U}) {
      EXPECT_EQ(to_buffer(reader.chunk(c, kLone).item_span(2)), items_of_chunk(c, 3, 100)[2]);
      EXPECT_EQ(ready(reader), Chunks{c});
      EXPECT_EQ(reader.open_chunks(), 1U);
    }
  }
}

TEST(ItemReaderTest, BuffersOfDecompressedChunksAreLimited) {
  SampleDataset data(true);
  fill(data, 5);
  data.add(items_of_chunk(5, 3, 1000));
  const std::uint64_t each = data.rows.raw_bytes[0];
  ItemReader reader(data.table(), Verify::kFirst,
                    {.max_open_chunks = 100, .max_buffer_bytes = 3 * each});
  for (const std::size_t c : {0U, 1U, 2U}) reader.chunk(c, kLone);
  EXPECT_EQ(ready(reader), (Chunks{0, 1, 2}));  // 3 * each exactly
  reader.chunk(3, kLone);
  EXPECT_EQ(ready(reader), (Chunks{1, 2, 3}));
  reader.chunk(5, kLone);  // larger than the limit: alone
  EXPECT_EQ(ready(reader), Chunks{5});
  reader.chunk(4, kLone);
  EXPECT_EQ(ready(reader), Chunks{4});
  reader.close();
  for (const std::size_t c : {0U, 1U, 2U}) reader.chunk(c, kLone);
  EXPECT_EQ(ready(reader), (Chunks{0, 1, 2}));  // close() gave the budget back
}

TEST(ItemReaderTest, MappingsAreNoBuffers) {
  SampleDataset data;
  ItemReader reader(fill(data, 5).table(), Verify::kFirst, {.max_buffer_bytes = 1});
  for (std::size_t c = 0; c < 5; ++c) reader.chunk(c, kWhole);
  EXPECT_EQ(reader.open_chunks(), 5U);
}

TEST(ItemReaderTest, ALoneItemThenTheWholeChunk) {
  SampleDataset data;
  fill(data, 1);
  const Buffer good = data.get(0);
  data.damage(0, good.size() - 1);
  ItemReader reader(data.table(), Verify::kFirst);
  EXPECT_EQ(to_buffer(reader.chunk(0, kLone).item_span(0)), items_of_chunk(0, 3, 100)[0]);
  for (int again = 0; again < 2; ++again) {
    const Error error = error_of([&] { return reader.chunk(0, kWhole).size(); });
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_EQ(ready(reader, kWhole), Chunks{});
    EXPECT_EQ(reader.chunk(0, kLone).size(), 3U);  // still open for single items
  }
  reader.close();
  data.put(0, good);
  reader.chunk(0, kLone);
  EXPECT_EQ(reader.chunk(0, kWhole).size(), 3U);
  EXPECT_EQ(ready(reader, kWhole), Chunks{0});
}

TEST(ItemReaderTest, AChunkThatCannotBeOpenedCostsNoOther) {
  SampleDataset data;
  fill(data, 3);
  std::filesystem::remove(data.rows.path(1));
  ItemReader reader(data.table(), Verify::kFirst, {.max_open_chunks = 1});
  reader.chunk(0, kLone);
  EXPECT_EQ(error_of([&] { return reader.chunk(1, kLone).size(); }).code(), ErrorCode::kNotFound);
  EXPECT_EQ(ready(reader), Chunks{0});
  EXPECT_EQ(reader.chunk(2, kLone).size(), 3U);
}

TEST(ItemReaderTest, BytesStayValidAfterClose) {
  for (const bool compressed : {false, true}) {
    SampleDataset data(compressed);
    std::optional<ItemReader> reader(std::in_place, fill(data, 2).table(), Verify::kFirst);
    const Bytes item = reader->chunk(0, kWhole).item(1);
    std::weak_ptr<const void> other = reader->chunk(1, kWhole).file().owner();
    reader->close();
    EXPECT_EQ(reader->open_chunks(), 0U);
    EXPECT_EQ(ready(*reader), Chunks{});
    EXPECT_TRUE(other.expired());
    EXPECT_EQ(to_buffer(item.span()), items_of_chunk(0, 3, 100)[1]);
    EXPECT_EQ(reader->chunk(1, kWhole).size(), 3U);  // closed chunks open again
    reader->close();
    reader->close();
    reader.reset();
    EXPECT_EQ(to_buffer(item.span()), items_of_chunk(0, 3, 100)[1]);
  }
}

bool reads(ItemReader& reader, std::size_t chunk) {
  return to_buffer(reader.chunk(chunk, kWhole).item_span(1)) == items_of_chunk(chunk, 3, 100)[1];
}

TEST(ItemReaderTest, AForkedChildGoesOn) {
  for (const bool compressed : {false, true}) {
    SampleDataset data(compressed);
    ItemReader reader(fill(data, 4).table(), Verify::kFirst, {.max_open_chunks = 2});
    reader.chunk(0, kLone);
    EXPECT_EQ(in_child([&] {
                bool good = reads(reader, 0);
                for (std::size_t c = 1; c < 4; ++c) good = good && reads(reader, c);
                reader.close();
                return good && reads(reader, 2) ? 0 : 1;
              }),
              0);
    EXPECT_EQ(ready(reader), Chunks{0});
    EXPECT_TRUE(reads(reader, 0) && reads(reader, 3));
  }
}

// What the child verified counts for the parent, which has not opened it yet.
TEST(ItemReaderTest, AForkedChildVerifiesForItsParent) {
  SampleDataset data;
  ItemReader reader(fill(data, 1).table(), Verify::kFirst);
  EXPECT_EQ(in_child([&] { return reads(reader, 0) ? 0 : 1; }), 0);
  data.damage(0, data.get(0).size() - 1);
  EXPECT_TRUE(reads(reader, 0));
}

}  // namespace
}  // namespace stoker
