// SPDX-License-Identifier: Apache-2.0
// Closing in the middle, batches that are held, and the counters.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>

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

Slab offered_slab(std::size_t bytes) {
  auto buffer = std::make_shared<HostBuffer>(bytes);
  return {buffer->span(), buffer};
}

TEST(LoaderLifetimeTest, ClosedByItsConsumer) {
  const LoaderDataset set = test::mixed_dataset(4, 20, false);
  const LoaderInput input = set.input(4);
  for (const std::size_t threads : {0U, 1U, 4U}) {
    Loader loader(input, {.threads = threads});
    Batch first;
    ASSERT_EQ(loader.next(kLong, &first), Loader::Next::kBatch);
    loader.close();
    loader.close();
    Batch batch;
    EXPECT_EQ(error_of([&] { return loader.next(kLong, &batch); }).code(), ErrorCode::kClosed);
    EXPECT_EQ(error_of([&] { return loader.next(kLong, &batch); }).code(), ErrorCode::kClosed);
    loader.offer(offered_slab(input.spec->slab_bytes));                 // goes nowhere
    EXPECT_EQ(rows_of(first, *input.spec), set.expected(input, 0, 4));  // stays valid
    EXPECT_EQ(loader.stats().batches, 1U);
  }
}

TEST(LoaderLifetimeTest, WithoutThreadsAClosedLoaderNeedsNoOffer) {
  const LoaderDataset set = test::fixed_dataset(2, 8);
  Loader loader(set.input(4), {.threads = 0, .offered_slabs = true});
  loader.close();
  Batch batch;
  EXPECT_EQ(error_of([&] { return loader.next(kLong, &batch); }).code(), ErrorCode::kClosed);
}

// After any number of batches, with threads anywhere: planning, opening, decoding, waiting for
// memory or for the consumer.
TEST(LoaderLifetimeTest, GoneInTheMiddleManyTimes) {
  const LoaderDataset set = test::mixed_dataset(6, 15, false);
  const LoaderInput input = set.input(3, test::windows(2));
  for (std::size_t round = 0; round < 150; ++round) {
    const bool offered = round % 3 == 0;
    Loader loader(input,
                  {.threads = 1 + round % 5, .depth = 1 + round % 4, .offered_slabs = offered});
    Batch batch;
    for (std::size_t i = 0; i < round % 9; ++i) {
      if (offered) loader.offer(offered_slab(input.spec->slab_bytes));
      ASSERT_EQ(loader.next(kLong, &batch), Loader::Next::kBatch);
    }
    if (round % 2 == 0) loader.close();
  }
}

TEST(LoaderLifetimeTest, GoneWithAnErrorInTheMiddle) {
  const LoaderDataset set = test::fixed_dataset(6, 15);
  set.data->damage(3, 200);
  for (std::size_t round = 0; round < 60; ++round) {
    Loader loader(set.input(4, test::windows(2)),
                  {.threads = 1 + round % 5, .depth = 1 + round % 4});
    Batch batch;
    try {
      while (loader.next(kLong, &batch) == Loader::Next::kBatch) {
      }
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    }
  }
}

TEST(LoaderLifetimeTest, BatchesOutliveTheirLoader) {
  const LoaderDataset set = test::mixed_dataset(3, 6, true);
  const LoaderInput input = set.input(5, test::windows());
  std::vector<Batch> held;
  {
    Loader loader(input, {.threads = 2});
    Batch batch;
    while (loader.next(kLong, &batch) == Loader::Next::kBatch) held.push_back(std::move(batch));
  }
  for (const Batch& batch : held) {
    EXPECT_EQ(rows_of(batch, *input.spec), set.expected(input, batch.position, batch.rows));
  }
}

TEST(LoaderLifetimeTest, AHeldBatchIsNeverOverwritten) {
  const LoaderDataset set = test::mixed_dataset(10, 20, false);
  const LoaderInput input = set.input(4, test::windows(3));
  for (const std::size_t threads : {0U, 3U}) {
    Loader loader(input, {.threads = threads, .depth = 2});
    std::vector<Batch> held;
    Batch batch;
    for (std::uint64_t j = 0; loader.next(kLong, &batch) == Loader::Next::kBatch; ++j) {
      if (j % 3 == 0) held.push_back(std::move(batch));
      if (held.size() > 5) held.erase(held.begin());
      for (const Batch& kept : held) {
        ASSERT_EQ(rows_of(kept, *input.spec), set.expected(input, kept.position, kept.rows));
      }
    }
  }
}

// What is let go is used again: no more memory than batches under way and the one in hand.
TEST(LoaderLifetimeTest, MemoryIsUsedAgain) {
  const LoaderDataset set = test::fixed_dataset(10, 20);
  Loader loader(set.input(2), {.threads = 2, .depth = 3});
  std::set<const std::uint8_t*> places;
  Batch batch;
  while (loader.next(kLong, &batch) == Loader::Next::kBatch) {
    places.insert(batch.slab.memory.data());
  }
  EXPECT_LE(places.size(), 5U);
}

// A batch keeps its chunks, the loader drops those it has passed.
TEST(LoaderLifetimeTest, ChunksLiveAsLongAsTheirBatches) {
  const LoaderDataset set = test::mixed_dataset(8, 4, false);
  Loader loader(set.input(4), {.threads = 1, .depth = 1});
  Batch batch;
  ASSERT_EQ(loader.next(kLong, &batch), Loader::Next::kBatch);
  const std::weak_ptr<const OpenChunk> first = batch.chunks.at(0);
  Batch last;
  while (loader.next(kLong, &last) == Loader::Next::kBatch) {
  }
  EXPECT_FALSE(first.expired());
  batch = {};
  EXPECT_TRUE(first.expired());
}

TEST(LoaderLifetimeTest, StatsAddUp) {
  const LoaderDataset set = test::fixed_dataset(5, 21);
  for (const std::size_t threads : {0U, 1U, 4U}) {
    Loader loader(set.input(8), {.threads = threads});
    EXPECT_EQ(loader.stats().batches, 0U);
    Batch batch;
    std::uint64_t batches = 0;
    while (loader.next(kLong, &batch) == Loader::Next::kBatch) {
      EXPECT_EQ(loader.stats().batches, ++batches);
    }
    const LoaderStats stats = loader.stats();
    EXPECT_EQ(stats.batches, 14U);
    EXPECT_EQ(stats.samples, 105U);
    EXPECT_EQ(stats.skipped, 0U);
    // Sizes of 3 leaves, 8 + 40 + 3 bytes, and the header of (2, 5).
    EXPECT_EQ(stats.bytes_read, 105U * (12 + 51 + 16));
    EXPECT_GT(stats.read_ns, 0U);
    EXPECT_GT(stats.store_ns, 0U);
    EXPECT_EQ(stats.decode_ns, 0U);
    EXPECT_EQ(loader.queued(), 0U);
  }
}

TEST(LoaderLifetimeTest, StatsOfImagesAndTokens) {
  const auto stats_of = [](const LoaderDataset& set) {
    Loader loader(set.input(4), {.threads = 2});
    Batch batch;
    while (loader.next(kLong, &batch) == Loader::Next::kBatch) {
    }
    return loader.stats();
  };
  const LoaderStats images = stats_of(test::mixed_dataset(2, 6, true));
  EXPECT_GT(images.decode_ns, 0U);
  EXPECT_GT(images.resample_ns, 0U);
  EXPECT_EQ(images.samples, 12U);
  const LoaderStats tokens = stats_of(test::token_dataset(3, 5, 7, true));
  EXPECT_EQ(tokens.samples, 15U);
  EXPECT_EQ(tokens.bytes_read, 15U * 7 * 2);  // as stored
}

TEST(LoaderLifetimeTest, StatsMayBeAskedForAnyTime) {
  const LoaderDataset set = test::fixed_dataset(20, 20);
  Loader loader(set.input(4), {.threads = 3});
  std::atomic<bool> stop{false};
  std::thread asker([&] {
    std::uint64_t before = 0;
    while (!stop) {
      const std::uint64_t samples = loader.stats().samples;
      EXPECT_GE(samples, before);
      EXPECT_LE(loader.queued(), 4U);
      before = samples;
    }
  });
  Batch batch;
  while (loader.next(kLong, &batch) == Loader::Next::kBatch) {
  }
  stop = true;
  asker.join();
  EXPECT_EQ(loader.stats().samples, 400U);
}

TEST(LoaderLifetimeTest, QueuedGrowsToTheDepth) {
  const LoaderDataset set = test::fixed_dataset(5, 20);
  Loader loader(set.input(4), {.threads = 2, .depth = 3});
  for (int i = 0; i < 10'000 && loader.queued() < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(loader.queued(), 3U);
  EXPECT_LE(loader.stats().samples, 12U);  // nothing beyond
}

}  // namespace
}  // namespace stoker
