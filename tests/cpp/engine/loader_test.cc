// SPDX-License-Identifier: Apache-2.0
// What the batches of a loader hold: the same with any threads, depth, memory and world.
#include "engine/loader.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>

#include "base/error.h"
#include "engine/loader_samples.h"
#include "error_of.h"

namespace stoker {
namespace {

using test::Buffer;
using test::error_of;
using test::kLong;
using test::LoaderDataset;
using test::positions_of;
using test::rows_of;
using test::windows;

struct Result {
  std::vector<Buffer> rows;
  std::vector<std::uint64_t> positions;  // of batches
  std::vector<std::uint32_t> counts;
  std::uint64_t next_position = 0;
};

/// Memory as a caller offers it; batches give it back by dropping their slab.
Slab offered_slab(std::size_t bytes) {
  auto buffer = std::make_shared<HostBuffer>(bytes + 100);
  return {buffer->span(), buffer};
}

Result run(const LoaderInput& input, const LoaderOptions& options) {
  Loader loader(input, options);
  Result result;
  const auto offer = [&] {
    if (options.offered_slabs) loader.offer(offered_slab(input.spec->slab_bytes));
  };
  for (std::size_t i = 0; i < std::max<std::size_t>(options.depth, 1); ++i) offer();
  Batch batch;
  for (;;) {
    const Loader::Next next = loader.next(kLong, &batch);
    if (next == Loader::Next::kEnd) break;
    if (next != Loader::Next::kBatch) {
      ADD_FAILURE() << "no batch came";
      break;
    }
    for (Buffer& row : rows_of(batch, *input.spec)) result.rows.push_back(std::move(row));
    result.positions.push_back(batch.position);
    result.counts.push_back(batch.rows);
    EXPECT_EQ(batch.skipped, 0U);
    offer();
  }
  EXPECT_EQ(loader.next(kLong, &batch), Loader::Next::kEnd);
  return result;
}

/// The rows one rank should get, batch after batch.
std::vector<Buffer> expected_of(const LoaderDataset& set, const LoaderInput& input) {
  std::vector<std::uint64_t> all;
  for (const std::vector<std::uint64_t>& batch : positions_of(input)) {
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return set.expected_at(input, all);
}

const std::vector<LoaderOptions> kOptions{
    {.threads = 0, .depth = 4},
    {.threads = 0, .depth = 1, .offered_slabs = true},
    {.threads = 1, .depth = 1},
    {.threads = 2, .depth = 3, .skip_corrupt = true},
    {.threads = 5, .depth = 2},
    {.threads = 5, .depth = 0},
    {.threads = 3, .depth = 16, .offered_slabs = true},
};

/// The same right rows with all options.
void check(const LoaderDataset& set, const LoaderInput& input) {
  const std::vector<Buffer> expected = expected_of(set, input);
  for (const LoaderOptions& options : kOptions) {
    const Result result = run(input, options);
    ASSERT_EQ(result.rows.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(result.rows[i], expected[i])
          << "row " << i << ", " << options.threads << " threads";
    }
    const auto batches = positions_of(input);
    ASSERT_EQ(result.positions.size(), batches.size());
    for (std::size_t j = 0; j < batches.size(); ++j) {
      ASSERT_EQ(result.positions[j], batches[j].front());
      ASSERT_EQ(result.counts[j], batches[j].size());
    }
  }
}

/// In every kind of order, batches of one, some, and more than all rows.
void check_all(const LoaderDataset& set, const std::vector<std::uint32_t>& batch_sizes) {
  for (const std::uint32_t batch_size : batch_sizes) {
    for (const PlanOptions& plan : test::all_orders()) check(set, set.input(batch_size, plan));
  }
}

TEST(LoaderTest, FixedLeaves) { check_all(test::fixed_dataset(7, 9), {1, 5, 64}); }

TEST(LoaderTest, FixedLeavesOfCompressedChunks) {
  check_all(test::fixed_dataset(4, 9, /*compressed=*/true), {5});
}

TEST(LoaderTest, FixedLeavesInManyClaims) { check_all(test::fixed_dataset(9, 300), {512}); }

TEST(LoaderTest, TextAndBytes) { check_all(test::mixed_dataset(5, 8, false), {1, 7, 64}); }

TEST(LoaderTest, Images) {
  const LoaderDataset set = test::mixed_dataset(4, 6, true);
  for (const PlanOptions& plan : test::all_orders()) check(set, set.input(5, plan));
}

TEST(LoaderTest, Tokens) {
  for (const bool to_int64 : {false, true}) {
    check_all(test::token_dataset(5, 6, 13, to_int64), {1, 4, 64});
  }
}

// Memory of more than 4 MiB is written past the cache.
TEST(LoaderTest, LargeRowsAreStreamed) {
  for (const bool to_int64 : {false, true}) {
    const LoaderDataset tokens = test::token_dataset(3, 40, 8192, to_int64);
    const LoaderInput input = tokens.input(to_int64 ? 80 : 110, windows());
    const Result result = run(input, {.threads = 3});
    EXPECT_EQ(result.rows, expected_of(tokens, input));
  }
  for (const bool with_text : {false, true}) {  // both ways through the writer
    LoaderDataset set;
    const auto leaf = [](std::uint64_t item) { return test::pattern(70'000, item, 1); };
    set.spec.columns = {test::fixed_column(70'000)};
    if (with_text) set.spec.columns.push_back(test::object_column(true, "['text']"));
    std::vector<Buffer> items;
    for (std::uint64_t i = 0; i < 70; ++i) {
      std::vector<Buffer> leaves{leaf(i)};
      if (with_text) leaves.emplace_back();
      items.push_back(test::item_of(leaves));
    }
    set.add_chunk(items);
    set.row = [=](std::uint64_t item, std::uint64_t) {
      return test::joined(leaf(item), Buffer(with_text ? 4 : 0));
    };
    const LoaderInput input = set.input(65);
    EXPECT_EQ(run(input, {.threads = 3}).rows, expected_of(set, input));
  }
}

/// Every rank of worlds of several sizes, at the start and in the middle of an epoch.
void check_ranks(const LoaderDataset& set, const std::vector<std::uint32_t>& worlds) {
  for (const PlanOptions& plan : test::all_orders()) {
    for (const std::uint32_t world : worlds) {
      for (std::uint32_t rank = 0; rank < world; ++rank) {
        LoaderInput input = set.input(4, plan);
        input.slices.world_size = world;
        input.slices.rank = rank;
        input.slices.start = world % 2 == 0 ? 5 : 0;
        for (const bool drop_last : {false, true}) {
          input.slices.drop_last = drop_last;
          const std::vector<Buffer> expected = expected_of(set, input);
          for (const std::size_t threads : {0U, 1U, 3U}) {
            ASSERT_EQ(run(input, {.threads = threads}).rows, expected)
                << "rank " << rank << " of " << world;
          }
        }
      }
    }
  }
}

TEST(LoaderTest, SeveralRanks) { check_ranks(test::fixed_dataset(5, 17), {2, 3, 7}); }

// The rows of a rank do not follow each other in the epoch, and dice depend on their positions.
TEST(LoaderTest, ImagesOfSeveralRanks) { check_ranks(test::mixed_dataset(5, 7, true), {2, 3}); }

void sort_rows(std::vector<Buffer>& rows) {
  std::ranges::sort(rows, [](const Buffer& a, const Buffer& b) {
    return std::ranges::lexicographical_compare(a, b);
  });
}

// An image is the same whichever rank delivers it.
TEST(LoaderTest, AllWorldsGiveTheSameRows) {
  const LoaderDataset set = test::mixed_dataset(6, 8, true);
  for (const PlanOptions& plan : test::all_orders()) {
    std::vector<Buffer> whole = run(set.input(4, plan), {.threads = 2}).rows;
    sort_rows(whole);
    for (const std::uint32_t world : {2U, 3U, 5U}) {
      std::vector<Buffer> rows;
      for (std::uint32_t rank = 0; rank < world; ++rank) {
        LoaderInput input = set.input(4, plan);
        input.slices.world_size = world;
        input.slices.rank = rank;
        for (Buffer& row : run(input, {.threads = 2}).rows) rows.push_back(std::move(row));
      }
      sort_rows(rows);
      EXPECT_EQ(rows, whole);
    }
  }
}

/// The chunks that were opened, by what the opener still checks. Damages all of them.
std::vector<std::size_t> opened_chunks(const LoaderDataset& set, const LoaderInput& input) {
  std::vector<std::size_t> opened;
  for (std::size_t c = 0; c < set.sizes.size(); ++c) {
    set.data->damage(c, 100);
    try {
      static_cast<void>(input.dataset.opener->open(c, Purpose::kWholeChunk));
      opened.push_back(c);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    }
  }
  return opened;
}

// So that a node neither reads nor holds the chunks of others.
TEST(LoaderTest, ARankOpensTheChunksOfItsStreamsOnly) {
  for (const std::size_t threads : {0U, 3U}) {
    std::vector<std::size_t> all;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      const LoaderDataset set = test::fixed_dataset(24, 10);
      LoaderInput input = set.input(6, {.shuffle = Shuffle::kWindows, .window = 2, .streams = 4});
      input.slices.world_size = 2;
      input.slices.rank = rank;
      EXPECT_EQ(run(input, {.threads = threads}).rows.size(), 120U);
      const std::vector<std::size_t> opened = opened_chunks(set, input);
      EXPECT_EQ(opened.size(), 12U);
      all.insert(all.end(), opened.begin(), opened.end());
    }
    std::ranges::sort(all);
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
  }
}

// Images too: their dice depend on the position, not on the batch.
TEST(LoaderTest, AStartInTheMiddleGivesTheRest) {
  const LoaderDataset set = test::mixed_dataset(4, 6, true);
  for (const PlanOptions& plan : test::all_orders()) {
    const LoaderInput whole = set.input(5, plan);
    const std::vector<Buffer> all = run(whole, {.threads = 2}).rows;
    ASSERT_EQ(all.size(), 24U);
    for (const std::uint64_t start : {0U, 1U, 7U, 12U, 23U, 24U}) {
      for (const std::size_t threads : {0U, 2U}) {
        LoaderInput input = whole;
        input.slices.start = start;
        const Result rest = run(input, {.threads = threads});
        EXPECT_EQ(rest.rows, std::vector<Buffer>(all.begin() + static_cast<int>(start), all.end()));
      }
    }
  }
}

TEST(LoaderTest, IntervalsOfPartsOfChunks) {
  const LoaderDataset set = test::fixed_dataset(4, 10);
  for (const PlanOptions& plan : test::all_orders()) {
    LoaderInput input = set.input(6, plan);
    for (const bool grouped : {false, true}) {
      input.intervals = std::make_shared<const IntervalSet>(
          std::vector<Interval>{
              {3, 10}, {0, 3}, {12, 13}, {15, 16}, {19, 20}, {35, 40}, {30, 36}, {30, 36}},
          grouped ? set.sizes : std::vector<std::uint64_t>{});
      input.slices.total = input.intervals->size();
      check(set, input);
    }
  }
}

TEST(LoaderTest, NothingToRead) {
  const LoaderDataset set = test::fixed_dataset(2, 3);
  for (const PlanOptions& plan : test::all_orders()) {
    LoaderInput input = set.input(4, plan);
    input.slices.start = 6;
    check(set, input);
    input.intervals = std::make_shared<const IntervalSet>();
    input.slices = {.total = 0, .batch_size = 4};
    check(set, input);
  }
}

TEST(LoaderTest, OtherEpochsAndSeedsOtherOrdersAndDice) {
  const LoaderDataset set = test::mixed_dataset(2, 6, true);
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kWindows, Shuffle::kFull}) {
    const auto rows = [&](std::uint64_t seed, std::uint64_t epoch) {
      return run(set.input(4, {.shuffle = shuffle, .seed = seed, .epoch = epoch}), {.threads = 2})
          .rows;
    };
    const auto base = rows(42, 1);
    EXPECT_EQ(rows(42, 1), base);
    EXPECT_NE(rows(42, 2), base);
    EXPECT_NE(rows(43, 1), base);
  }
}

TEST(LoaderTest, OfferedMemoryIsUsedInTheOrderOfTheOffers) {
  const LoaderDataset set = test::fixed_dataset(3, 8);
  for (const std::size_t threads : {0U, 2U}) {
    const LoaderInput input = set.input(4);
    Loader loader(input, {.threads = threads, .depth = 2, .offered_slabs = true});
    std::deque<std::uint8_t*> places;
    const auto offer = [&] {
      const Slab slab = offered_slab(input.spec->slab_bytes);
      places.push_back(slab.memory.data());
      loader.offer(slab);
    };
    offer();
    offer();
    Batch batch;
    while (loader.next(kLong, &batch) == Loader::Next::kBatch) {
      EXPECT_EQ(batch.slab.memory.data(), places.front());
      places.pop_front();
      offer();
    }
    EXPECT_EQ(places.size(), 2U);
  }
}

TEST(LoaderTest, WithoutAnOfferNoBatch) {
  const LoaderDataset set = test::fixed_dataset(2, 8);
  const LoaderInput input = set.input(4);
  Batch batch;
  Loader threaded(input, {.threads = 1, .offered_slabs = true});
  EXPECT_EQ(threaded.next(std::chrono::milliseconds(5), &batch), Loader::Next::kTimeout);
  Loader alone(input, {.threads = 0, .offered_slabs = true});
  EXPECT_EQ(error_of([&] { return alone.next(kLong, &batch); }).code(),
            ErrorCode::kInvalidArgument);
  for (Loader* loader : {&threaded, &alone}) {
    loader->offer(offered_slab(input.spec->slab_bytes));
    EXPECT_EQ(loader->next(kLong, &batch), Loader::Next::kBatch);  // still of use
    EXPECT_EQ(rows_of(batch, *input.spec), set.expected(input, 0, 4));
  }
}

TEST(LoaderTest, MemoryThatIsTooSmallIsRefused) {
  const LoaderDataset set = test::fixed_dataset(2, 8);
  const LoaderInput input = set.input(4);
  Loader loader(input, {.threads = 1, .offered_slabs = true});
  Slab slab = offered_slab(input.spec->slab_bytes);
  slab.memory = slab.memory.first(input.spec->slab_bytes - 1);
  const Error error = error_of([&] {
    loader.offer(slab);
    return 0;
  });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message().find(std::to_string(input.spec->slab_bytes)), std::string::npos);
}

void expect_refused(const LoaderInput& input) {
  for (const std::size_t threads : {0U, 2U}) {
    EXPECT_EQ(error_of([&] { return Loader(input, {.threads = threads}).queued(); }).code(),
              ErrorCode::kInvalidArgument);
  }
}

TEST(LoaderTest, PartsThatDoNotFitAreRefused) {
  const LoaderDataset set = test::fixed_dataset(3, 8);
  const std::vector<std::function<void(LoaderInput&)>> changes{
      [](LoaderInput& in) { in.slices.total = 23; },
      [](LoaderInput& in) { in.slices.start = 25; },
      [](LoaderInput& in) { in.slices.batch_size = 0; },
      [](LoaderInput& in) { in.slices.batch_size = 5; },
      [](LoaderInput& in) { in.slices.world_size = 0; },
      [](LoaderInput& in) { in.slices.rank = 1; },
      [](LoaderInput& in) { in.plan.window = 0; },
      [](LoaderInput& in) { in.plan.streams = 0; },
      [](LoaderInput& in) { in.dataset.chunk_sizes.pop_back(); },
      [](LoaderInput& in) {
        in.dataset.chunk_sizes = {8, 7, 9};
      },
      [](LoaderInput& in) { in.dataset.chunk_sizes.back() = 7; },
      [](LoaderInput& in) {
        in.spec = std::make_shared<const BatchSpec>(BatchSpec{{}, {}, 4});
      },
  };
  for (const auto& change : changes) {
    LoaderInput input = set.input(4);
    change(input);
    expect_refused(input);
  }
  LoaderInput tokens = test::token_dataset(3, 4, 5, true).input(4);
  tokens.dataset.chunk_tokens.pop_back();
  expect_refused(tokens);
}

// An exception on a thread would end the process.
TEST(LoaderTest, StepsThatNeverWorkAreRefused) {
  LoaderDataset set = test::mixed_dataset(1, 3, true);
  set.spec.columns[3] = test::image_column({CenterCropStep{{0, 5}}}, {12, 8});
  expect_refused(set.input(2));
}

}  // namespace
}  // namespace stoker
