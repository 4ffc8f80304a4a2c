// SPDX-License-Identifier: Apache-2.0
// Damaged samples and files: which batch raises, what it says, and what skip_corrupt leaves out.
#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/loader.h"
#include "engine/loader_samples.h"
#include "error_of.h"

namespace stoker {
namespace {

using test::Buffer;
using test::error_of;
using test::kLong;
using test::LoaderDataset;
using test::rows_of;

constexpr std::size_t kPerChunk = 8;
const std::vector<std::size_t> kThreads{0, 1, 4};

/// Three chunks of eight fixed items; `damaged` items have a leaf of another size.
LoaderDataset damaged_dataset(const std::vector<std::uint64_t>& damaged) {
  LoaderDataset set;
  set.spec.columns = {test::fixed_column(8), test::fixed_column(100, "['x']")};
  set.row = [](std::uint64_t item, std::uint64_t) {
    return test::joined(test::pattern(8, item, 0), test::pattern(100, item, 1));
  };
  for (std::uint64_t c = 0; c < 3; ++c) {
    std::vector<Buffer> items;
    for (std::uint64_t item = c * kPerChunk; item < (c + 1) * kPerChunk; ++item) {
      const bool bad = std::ranges::count(damaged, item) != 0;
      items.push_back(
          test::item_of({test::pattern(8, item, 0), test::pattern(bad ? 99 : 100, item, 1)}));
    }
    set.add_chunk(items);
  }
  return set;
}

Loader::Next next(Loader& loader, Batch* batch) { return loader.next(kLong, batch); }

Error next_error(Loader& loader) {
  Batch batch;
  return error_of([&] { return loader.next(kLong, &batch); });
}

/// Takes `count` batches, whole and right.
void expect_good(Loader& loader, const LoaderDataset& set, const LoaderInput& input,
                 std::uint64_t count) {
  Batch batch;
  for (std::uint64_t j = 0; j < count; ++j) {
    ASSERT_EQ(next(loader, &batch), Loader::Next::kBatch);
    const BatchSlices::Slice slice = input.slices.slice(j);
    ASSERT_EQ(rows_of(batch, *input.spec), set.expected(input, slice.begin, slice.rows));
  }
}

void expect_contains(const Error& error, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << part << " in: " << error.what();
  }
}

TEST(LoaderErrorsTest, RaisedWithItsBatchAfterAllBefore) {
  const LoaderDataset set = damaged_dataset({17, 14});
  for (const std::size_t threads : kThreads) {
    const LoaderInput input = set.input(4);
    Loader loader(input, {.threads = threads, .depth = 6});
    expect_good(loader, set, input, 3);
    const Error error = next_error(loader);
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    // Item 14 is item 6 of chunk 1, at position 14 of epoch 1. Header 40, items of 116.
    expect_contains(error,
                    {"position 14 of epoch 1", "item 6", "bytes 736 to 851", "['x']", "'int'",
                     "expected 100 bytes", "found 99", input.dataset.opener->table().path(1)});
    EXPECT_EQ(next_error(loader).code(), ErrorCode::kClosed);  // of no further use
  }
}

// A rank's rows do not follow each other: each has a position of its own.
TEST(LoaderErrorsTest, NamesThePositionOfTheRow) {
  const LoaderDataset set = damaged_dataset({14});
  for (const PlanOptions& plan : test::all_orders()) {
    int raised = 0;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      LoaderInput input = set.input(4, plan);
      input.slices.world_size = 3;
      input.slices.rank = rank;
      std::string expected;
      for (const auto& batch : test::positions_of(input)) {
        for (const std::uint64_t p : batch) {
          const bool bad = set.expected(input, p, 1).front() == set.row(14, p);
          if (bad) expected = "position " + std::to_string(p) + " of epoch 1 (item 6,";
        }
      }
      if (expected.empty()) continue;
      ++raised;
      Loader loader(input, {.threads = 2});
      const Error error = error_of([&] {
        Batch batch;
        while (loader.next(kLong, &batch) == Loader::Next::kBatch) {
        }
        return 0;
      });
      expect_contains(error, {expected});
    }
    EXPECT_EQ(raised, 1);
  }
}

TEST(LoaderErrorsTest, TheFirstOfTheBatchByRow) {
  for (int round = 0; round < 20; ++round) {
    const LoaderDataset set = damaged_dataset({11, 5, 23, 9});
    const LoaderInput input = set.input(24);
    for (const std::size_t threads : kThreads) {
      Loader loader(input, {.threads = threads});
      expect_contains(next_error(loader), {"position 5 of epoch 1"});
    }
  }
}

TEST(LoaderErrorsTest, SkippedRowsAreLeftOutInOrder) {
  const LoaderDataset set = damaged_dataset({0, 1, 6, 11, 23});
  for (const std::size_t threads : kThreads) {
    for (const PlanOptions& plan : test::all_orders()) {
      const LoaderInput input = set.input(6, plan);
      Loader loader(input, {.threads = threads, .skip_corrupt = true});
      std::vector<Buffer> found;
      std::uint64_t skipped = 0;
      Batch batch;
      for (std::uint64_t j = 0; next(loader, &batch) == Loader::Next::kBatch; ++j) {
        EXPECT_EQ(batch.rows + batch.skipped, 6U);
        EXPECT_EQ(batch.position, 6 * j);
        skipped += batch.skipped;
        for (Buffer& row : rows_of(batch, *input.spec)) found.push_back(std::move(row));
      }
      std::vector<Buffer> expected = set.expected(input, 0, 24);
      for (const std::uint64_t bad : {0U, 1U, 6U, 11U, 23U}) {
        std::erase(expected, set.row(bad, 0));
      }
      EXPECT_EQ(found, expected);
      EXPECT_EQ(skipped, 5U);
      EXPECT_EQ(loader.stats().skipped, 5U);
      EXPECT_EQ(loader.stats().samples, 24U);
    }
  }
}

TEST(LoaderErrorsTest, SkippedRowsOfTextAndImages) {
  LoaderDataset set = test::mixed_dataset(1, 6, true);
  std::vector<Buffer> items;
  for (std::uint64_t i = 0; i < 8; ++i) {
    const std::string text = i == 2 ? "\xFF" : "t" + std::to_string(i);
    const Buffer jpeg =
        i == 5 ? Buffer{0xFF, 0xD8, 1, 2}
               : test::encode_jpeg(test::make_photo(20, 20, 3, static_cast<unsigned>(i)), {});
    items.push_back(test::item_of({test::pattern(8, i, 0), test::bytes_of_text(text), {}, jpeg}));
  }
  set.add_chunk(items);
  const LoaderInput input = set.input(14);
  Loader loader(input, {.threads = 2, .skip_corrupt = true});
  Batch batch;
  ASSERT_EQ(next(loader, &batch), Loader::Next::kBatch);
  EXPECT_EQ(batch.rows, 12U);
  EXPECT_EQ(batch.skipped, 2U);
  const std::vector<Buffer> before = set.expected(input, 0, 6);
  const std::vector<Buffer> rows = rows_of(batch, *input.spec);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), rows.begin()));
  std::vector<std::string> texts;
  for (std::size_t r = 6; r < 12; ++r) {
    const ByteSpan text = batch.objects[0][r];
    texts.emplace_back(text.begin(), text.end());
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"t0", "t1", "t3", "t4", "t6", "t7"}));
}

TEST(LoaderErrorsTest, TextThatIsNotUtf8AndBadImages) {
  for (const bool image : {false, true}) {
    LoaderDataset set = test::mixed_dataset(1, 3, true);
    set.add_chunk({test::item_of(
        {test::pattern(8, 0, 0), test::bytes_of_text(image ? "x" : "\xFF"), {}, Buffer(50, 7)})});
    Loader loader(set.input(4), {.threads = 2});
    const Error error = next_error(loader);
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    expect_contains(error, {"position 3", "item 0", "bytes 12 to",
                            image ? "leaf ['image'] (stored as 'jpeg')"
                                  : "leaf ['text'] (stored as 'str'): the bytes are not UTF-8"});
  }
}

TEST(LoaderErrorsTest, ImagesOfAnotherSizeSayWhatToDo) {
  LoaderDataset set;
  set.spec.columns = {test::image_column({}, {20, 10})};
  set.add_chunk({test::item_of({test::encode_jpeg(test::make_photo(20, 10), {})}),
                 test::item_of({test::encode_jpeg(test::make_photo(21, 10), {})})});
  Loader loader(set.input(2), {.threads = 1, .skip_corrupt = true});  // the data is not damaged
  const Error error = next_error(loader);
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  expect_contains(error, {"item 1", "leaf ['image']", "20", "21", "vision.Resize"});
}

TEST(LoaderErrorsTest, AnImageLeafThatIsEmpty) {
  LoaderDataset set;
  set.spec.columns = {test::image_column({}, {20, 10})};
  set.add_chunk({test::item_of({Buffer{}})});
  Loader loader(set.input(1), {.threads = 1});
  EXPECT_EQ(next_error(loader).code(), ErrorCode::kCorrupt);
}

TEST(LoaderErrorsTest, AWhollyDamagedBatchRaises) {
  const LoaderDataset set = damaged_dataset({4, 5, 6, 7});
  for (const std::size_t threads : kThreads) {
    const LoaderInput input = set.input(4);
    Loader loader(input, {.threads = threads, .skip_corrupt = true});
    expect_good(loader, set, input, 1);
    expect_contains(next_error(loader), {"position 4 of epoch 1"});
  }
}

TEST(LoaderErrorsTest, ADamagedChunkRaisesForTheFirstBatchThatNeedsIt) {
  for (const std::size_t threads : kThreads) {
    const LoaderDataset set = damaged_dataset({});
    set.data->damage(1, 100);
    const LoaderInput input = set.input(3);
    Loader loader(input, {.threads = threads, .depth = 8});
    expect_good(loader, set, input, 2);  // the third has two samples of chunk 0, one of chunk 1
    const Error error = next_error(loader);
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    expect_contains(error, {"checksum", input.dataset.opener->table().path(1)});
  }
}

TEST(LoaderErrorsTest, ADamagedChunkIsLeftOut) {
  for (const std::size_t threads : kThreads) {
    const LoaderDataset set = damaged_dataset({2});
    set.data->damage(1, 100);
    const LoaderInput input = set.input(12);
    Loader loader(input, {.threads = threads, .skip_corrupt = true});
    Batch batch;
    ASSERT_EQ(next(loader, &batch), Loader::Next::kBatch);
    EXPECT_EQ(batch.skipped, 5U);
    EXPECT_EQ(batch.rows, 7U);
    ASSERT_EQ(next(loader, &batch), Loader::Next::kBatch);
    EXPECT_EQ(batch.skipped, 4U);
    EXPECT_EQ(rows_of(batch, *input.spec), set.expected(input, 16, 8));
    EXPECT_EQ(next(loader, &batch), Loader::Next::kEnd);
  }
}

TEST(LoaderErrorsTest, AMissingChunkRaisesThoughDamageIsSkipped) {
  for (const std::size_t threads : kThreads) {
    const LoaderDataset set = damaged_dataset({12});
    const LoaderInput input = set.input(8);
    std::filesystem::remove(input.dataset.opener->table().path(2));
    Loader loader(input, {.threads = threads, .skip_corrupt = true});
    Batch batch;
    ASSERT_EQ(next(loader, &batch), Loader::Next::kBatch);
    ASSERT_EQ(next(loader, &batch), Loader::Next::kBatch);
    EXPECT_EQ(batch.skipped, 1U);
    const Error error = next_error(loader);
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    expect_contains(error, {input.dataset.opener->table().path(2)});
  }
}

TEST(LoaderErrorsTest, TokensThatDisagreeWithTheIndex) {
  LoaderDataset set = test::token_dataset(3, 6, 5, true);
  set.tokens[1] += 5;
  for (const std::size_t threads : kThreads) {
    const LoaderInput input = set.input(6);
    Loader loader(input, {.threads = threads});
    expect_good(loader, set, input, 1);
    const Error error = next_error(loader);
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    expect_contains(error, {"expected 36 tokens", input.dataset.opener->table().path(1)});
  }
}

TEST(LoaderErrorsTest, BothShapesAreNamed) {
  const Buffer header = test::header_of(9, {2, 5});
  const auto error_for = [&](const Buffer& leaf, const Buffer& expected, bool with_text,
                             ErrorCode code = ErrorCode::kInvalidArgument) {
    LoaderDataset set;
    set.spec.columns = {test::shaped_column(expected, 40)};
    if (with_text) set.spec.columns.push_back(test::object_column(true, "['text']"));
    std::vector<Buffer> leaves{leaf};
    if (with_text) leaves.emplace_back();
    set.add_chunk({test::item_of(leaves)});
    Loader loader(set.input(1), {.threads = 1});
    const Error error = next_error(loader);
    EXPECT_EQ(error.code(), code);  // another shape is no damage: skipping must not hide it
    return error;
  };
  for (const bool with_text : {false, true}) {
    const auto numpy = [&](const std::vector<std::uint32_t>& shape, std::uint32_t dtype = 9) {
      return error_for(test::joined(test::header_of(dtype, shape), Buffer(40)), header, with_text);
    };
    expect_contains(numpy({5, 2}), {"leaf ['array'] (stored as 'numpy')",
                                    "expected dtype 9, shape (2, 5) as in the first sample",
                                    "found dtype 9, shape (5, 2)."});
    expect_contains(numpy({2, 5}, 6), {"expected dtype 9, ", "found dtype 6, shape (2, 5)."});
    expect_contains(numpy({2, 5, 1}), {"found dtype 9, shape (2, 5, 1)."});
    expect_contains(numpy({10}), {"found dtype 9, shape (10)."});
    expect_contains(numpy({}), {"found dtype 9, shape ()."});
    expect_contains(error_for(Buffer(7), header, with_text, ErrorCode::kCorrupt),
                    {"found unreadable."});
    expect_contains(error_for(header, header, with_text, ErrorCode::kCorrupt),
                    {"asks for 56 bytes", "found 16"});
    const Buffer tensor = test::header_of(1, {2, 5}, true);
    const auto torch = [&](const Buffer& found) {
      return error_for(test::joined(found, Buffer(40)), tensor, with_text);
    };
    expect_contains(torch(test::header_of(1, {5, 2}, true)),
                    {"expected dtype 1, shape (2, 5)", "found dtype 1, shape (5, 2)."});
    expect_contains(torch(test::header_of(17, {}, true)), {"found dtype 17, shape ()."});
  }
}

TEST(LoaderErrorsTest, AGarbledRankMakesNoLongMessage) {
  LoaderDataset set;
  set.spec.columns = {test::shaped_column(test::header_of(9, {2, 5}), 40)};
  set.add_chunk({test::item_of({test::joined(test::header_of(9, {60'000}), Buffer(100'000))})});
  Buffer chunk = set.data->get(0);
  store_u32(chunk.data() + 12 + 4 + 4, 60'000);  // header of one item, leaf size, dtype
  set.data->put(0, chunk);
  Loader loader(set.input(1, {}, Verify::kNever), {.threads = 1});
  EXPECT_LT(next_error(loader).message().size(), 1000U);
}

TEST(LoaderErrorsTest, AnItemThatIsCut) {
  LoaderDataset set = damaged_dataset({});
  set.add_chunk({Buffer(3), Buffer(0), test::item_of({Buffer(8), Buffer(100), Buffer(2)}),
                 test::item_of({test::pattern(8, 27, 0), test::pattern(100, 27, 1)})});
  const LoaderInput input = set.input(28);
  Loader loader(input, {.threads = 2});
  expect_contains(next_error(loader), {"position 24", "item 0", "bytes 24 to 27"});
  Loader skipping(input, {.threads = 2, .skip_corrupt = true});
  Batch batch;
  ASSERT_EQ(next(skipping, &batch), Loader::Next::kBatch);
  EXPECT_EQ(batch.skipped, 3U);
  EXPECT_EQ(rows_of(batch, *input.spec).back(), set.row(27, 0));
}

// The index says more items than the chunk has room for; the header check finds it.
TEST(LoaderErrorsTest, AChunkWithFewerItemsThanTheIndexSays) {
  LoaderDataset set = damaged_dataset({});
  set.data->rows.items[1] = 9;
  set.sizes[1] = 9;
  const LoaderInput input = set.input(8);
  Loader loader(input, {.threads = 1});
  expect_good(loader, set, input, 1);
  EXPECT_EQ(next_error(loader).code(), ErrorCode::kCorrupt);
}

// On the planner's thread, where nobody would catch it.
TEST(LoaderErrorsTest, MemoryThatCannotBeHadIsRaised) {
  const LoaderDataset set = damaged_dataset({});
  LoaderInput input = set.input(4);
  BatchSpec spec = *input.spec;
  spec.slab_bytes = ~std::size_t{0};
  input.spec = std::make_shared<const BatchSpec>(spec);
  for (const std::size_t threads : kThreads) {
    Loader loader(input, {.threads = threads});
    EXPECT_EQ(next_error(loader).code(), ErrorCode::kOutOfMemory);
    EXPECT_EQ(next_error(loader).code(), ErrorCode::kClosed);
  }
}

}  // namespace
}  // namespace stoker
