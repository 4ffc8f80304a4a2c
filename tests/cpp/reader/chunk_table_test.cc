// SPDX-License-Identifier: Apache-2.0
#include "reader/chunk_table.h"

#include <gtest/gtest.h>

#include <string>

#include "error_of.h"

namespace stoker {
namespace {

using test::error_of;

ChunkTable two_rows() {
  ChunkTable table;
  table.directory = "/data/set";
  table.filenames = {"chunk-0-0.bin", "sub/chunk-0-1.bin"};
  table.items = {1, 2};
  table.raw_bytes = {10, 20};
  table.file_bytes = {10, 0};
  table.checksums = {5, 0};
  table.has_checksum = {1, 0};
  return table;
}

TEST(ChunkTableTest, PathsLieInTheDirectory) {
  const ChunkTable table = two_rows();
  EXPECT_EQ(table.size(), 2U);
  EXPECT_EQ(table.path(0), "/data/set/chunk-0-0.bin");
  EXPECT_EQ(table.path(1), "/data/set/sub/chunk-0-1.bin");
}

TEST(ChunkTableTest, EqualColumnsPass) {
  two_rows().check();
  ChunkTable().check();
}

template <typename Column>
void expect_refused(Column ChunkTable::*column, const std::string& name) {
  for (const std::size_t length : {0U, 1U, 3U}) {
    ChunkTable table = two_rows();
    (table.*column).resize(length);
    const Error error = error_of([&] {
      table.check();
      return 0;
    });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(error.message(), "the chunk table has 2 filenames, but " + std::to_string(length) +
                                   " values of " + name);
  }
}

TEST(ChunkTableTest, EveryColumnIsChecked) {
  expect_refused(&ChunkTable::items, "items");
  expect_refused(&ChunkTable::raw_bytes, "raw_bytes");
  expect_refused(&ChunkTable::file_bytes, "file_bytes");
  expect_refused(&ChunkTable::checksums, "checksums");
  expect_refused(&ChunkTable::has_checksum, "has_checksum");
}

}  // namespace
}  // namespace stoker
