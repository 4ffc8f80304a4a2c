// SPDX-License-Identifier: Apache-2.0
// Batches told row by row, from one dataset or several.
#include <gtest/gtest.h>

#include <functional>

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

const std::vector<std::size_t> kThreads{0, 1, 3};
constexpr std::size_t kDepth = 2;

/// Parts of the same kind, their items all different from those of the others.
struct Parts {
  explicit Parts(bool images, std::uint32_t batch_rows) {
    sets.push_back(test::mixed_dataset(3, 6, images));
    sets.push_back(test::mixed_dataset(2, 9, images));
    input.spec = sets[0].input(batch_rows).spec;
    for (const LoaderDataset& set : sets) input.datasets.push_back(set.part());
  }
  [[nodiscard]] std::vector<Buffer> expected(const std::vector<ToldRow>& batch) const {
    std::vector<Buffer> rows;
    for (const ToldRow& row : batch) {
      rows.push_back(sets[row.part].row(row.item, row.position));
    }
    return rows;
  }

  std::vector<LoaderDataset> sets;
  ToldInput input;
};

/// Batches of 1 to 5 rows that jump about.
std::vector<std::vector<ToldRow>> some_batches(std::size_t count) {
  std::vector<std::vector<ToldRow>> batches;
  for (std::uint64_t j = 0; j < count; ++j) {
    std::vector<ToldRow> batch;
    for (std::uint64_t i = 0; i < 1 + j % 5; ++i) {
      batch.push_back({.part = static_cast<std::uint32_t>((i + j) % 2),
                       .position = 1000 - 13 * j + i,
                       .item = (7 * j + 11 * i) % 18});
    }
    batches.push_back(std::move(batch));
  }
  return batches;
}

std::vector<Buffer> next_rows(Loader& loader, const ToldInput& input) {
  Batch batch;
  EXPECT_EQ(loader.next(kLong, &batch), Loader::Next::kBatch);
  return rows_of(batch, *input.spec);
}

ErrorCode code_of(const std::function<void()>& call) {
  return error_of([&]() -> int {
           call();
           return 0;
         })
      .code();
}

TEST(ToldLoaderTest, GivesWhatItIsTold) {
  const Parts parts(true, 5);
  const auto batches = some_batches(23);
  for (const std::size_t threads : kThreads) {
    Loader loader(parts.input, {.threads = threads, .depth = kDepth});
    std::size_t told = 0;
    for (; told <= kDepth; ++told) loader.tell(batches[told]);
    for (const auto& batch : batches) {
      EXPECT_EQ(next_rows(loader, parts.input), parts.expected(batch));
      if (told < batches.size()) loader.tell(batches[told++]);
      if (told == batches.size()) loader.finish();
    }
    Batch batch;
    EXPECT_EQ(loader.next(kLong, &batch), Loader::Next::kEnd);
  }
}

// Its keys have the seed of the part and the epoch of the row.
TEST(ToldLoaderTest, TransformsDrawByTheSeedOfThePartAndTheEpochOfTheRow) {
  Parts parts(true, 2);
  parts.input.datasets[1].seed = 7;
  Loader loader(parts.input, {.threads = 1});
  loader.tell({{.part = 0, .item = 3}, {.part = 0, .epoch = 2, .item = 3}});
  loader.tell({{.part = 0, .item = 3}, {.part = 1, .item = 3}});
  const auto epochs = next_rows(loader, parts.input);
  const auto seeds = next_rows(loader, parts.input);
  EXPECT_EQ(epochs[0], parts.expected({{.item = 3}}).front());
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_EQ(seeds[0], epochs[0]);
  EXPECT_NE(seeds[1], epochs[0]);
}

TEST(ToldLoaderTest, NothingToldIsTheEnd) {
  const Parts parts(false, 2);
  for (const std::size_t threads : kThreads) {
    Loader loader(parts.input, {.threads = threads});
    loader.finish();
    Batch batch;
    EXPECT_EQ(loader.next(kLong, &batch), Loader::Next::kEnd);
  }
}

TEST(ToldLoaderTest, WaitsForWhatIsTold) {
  const Parts parts(false, 1);
  Loader loader(parts.input, {.threads = 2});
  Batch batch;
  EXPECT_EQ(loader.next(std::chrono::milliseconds(20), &batch), Loader::Next::kTimeout);
  loader.tell({{.item = 4}});
  EXPECT_EQ(next_rows(loader, parts.input), parts.expected({{.item = 4}}));
}

TEST(ToldLoaderTest, ClosesWhileItWaits) {
  const Parts parts(false, 1);
  for (int round = 0; round < 20; ++round) {
    Loader loader(parts.input, {.threads = 2});
    loader.tell({{.item = 4}});
    if (round % 2 == 0) {
      EXPECT_EQ(next_rows(loader, parts.input).size(), 1U);
    }
    loader.close();
    Batch batch;
    EXPECT_EQ(code_of([&] { static_cast<void>(loader.next(kLong, &batch)); }), ErrorCode::kClosed);
  }
}

TEST(ToldLoaderTest, RowsThatThereAreNotFailInTheirTurn) {
  const Parts parts(false, 2);
  for (const ToldRow& wrong : {ToldRow{.item = 18}, ToldRow{.part = 1, .item = 18}}) {
    for (const std::size_t threads : kThreads) {
      Loader loader(parts.input, {.threads = threads});
      loader.tell({{.item = 17}});
      loader.tell({{.item = 1}, wrong});
      EXPECT_EQ(next_rows(loader, parts.input).size(), 1U);
      Batch batch;
      EXPECT_EQ(code_of([&] { static_cast<void>(loader.next(kLong, &batch)); }),
                ErrorCode::kOutOfRange);
    }
  }
}

TEST(ToldLoaderTest, ImpossibleCallsAreRefused) {
  const Parts parts(false, 2);
  Loader loader(parts.input, {.threads = 0});
  Batch batch;
  const auto refused = [](const std::function<void()>& call) {
    EXPECT_EQ(code_of(call), ErrorCode::kInvalidArgument);
  };
  refused([&] { static_cast<void>(loader.next(kLong, &batch)); });  // nothing was told
  refused([&] { loader.tell({}); });
  refused([&] { loader.tell({{.item = 0}, {.item = 1}, {.item = 2}}); });
  loader.finish();
  refused([&] { loader.tell({{.item = 0}}); });
  Loader planned(parts.sets[0].input(2), {.threads = 1});
  refused([&] { planned.tell({{.item = 0}}); });
  refused([&] { planned.finish(); });
}

TEST(ToldLoaderTest, DamagedRowsAreLeftOutWhenAsked) {
  LoaderDataset set;
  set.spec.columns = {test::fixed_column(8)};
  std::vector<Buffer> items;
  for (std::uint64_t i = 0; i < 6; ++i) {
    items.push_back(test::item_of({test::pattern(i == 2 ? 7 : 8, i, 0)}));
  }
  set.add_chunk(items);
  const ToldInput input{{set.part()}, set.input(3).spec};
  Loader loader(input, {.threads = 2, .skip_corrupt = true});
  loader.tell({{.item = 5}, {.item = 2}, {.item = 0}});
  Batch batch;
  ASSERT_EQ(loader.next(kLong, &batch), Loader::Next::kBatch);
  EXPECT_EQ(batch.skipped, 1U);
  EXPECT_EQ(rows_of(batch, *input.spec),
            (std::vector<Buffer>{test::pattern(8, 5, 0), test::pattern(8, 0, 0)}));
}

}  // namespace
}  // namespace stoker
