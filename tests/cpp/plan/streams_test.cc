// SPDX-License-Identifier: Apache-2.0
// Which positions of a batch a rank reads, and from which streams they come.
#include "plan/streams.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "plan/plan_samples.h"

namespace stoker {
namespace {

using Positions = std::vector<std::uint64_t>;

Positions rows_of(const Streams& streams, const BatchSlices::Slice& slice) {
  Positions rows(slice.rows);
  streams.rows(slice, rows);
  return rows;
}

/// The words of Streams::rows: sorted by (stream, position), cut, ascending.
Positions documented_rows(std::uint32_t count, const BatchSlices::Slice& slice) {
  Positions sorted;
  for (std::uint64_t i = 0; i < slice.size; ++i) sorted.push_back(slice.begin + i);
  std::ranges::sort(sorted, {}, [&](std::uint64_t p) { return std::pair(p % count, p); });
  const auto first = sorted.begin() + static_cast<std::ptrdiff_t>(slice.first);
  Positions rows(first, first + slice.rows);
  std::ranges::sort(rows);
  return rows;
}

TEST(StreamsTest, SizesAndStarts) {
  for (std::uint64_t total = 0; total < 40; ++total) {
    for (std::uint32_t count = 1; count < 15; ++count) {
      const Streams streams(total, count);
      EXPECT_EQ(streams.total(), total);
      EXPECT_EQ(streams.count(), count);
      Positions sizes(count);
      for (std::uint64_t p = 0; p < total; ++p) ++sizes[p % count];
      std::uint64_t start = 0;
      for (std::uint32_t c = 0; c < count; ++c) {
        EXPECT_EQ(streams.size(c), sizes[c]);
        EXPECT_EQ(streams.start(c), start);
        start += sizes[c];
      }
      EXPECT_EQ(streams.start(count), total);
    }
  }
}

TEST(StreamsTest, LargeNumbers) {
  constexpr std::uint64_t kTotal = (std::uint64_t{1} << 63) - 1;
  constexpr std::uint32_t kCount = 0xFFFFFFFF;
  const Streams streams(kTotal, kCount);
  EXPECT_EQ(streams.start(kCount), kTotal);
  EXPECT_EQ(streams.start(kCount - 1) + streams.size(kCount - 1), kTotal);
  const Streams few(kTotal, 7);  // 2^63 - 1 is 7 * 1317624576693539401
  EXPECT_EQ(few.start(3), 3 * few.size(0));
  const BatchSlices::Slice slice{kTotal - 4, 4, 1, 2};
  EXPECT_EQ(rows_of(few, slice), documented_rows(7, slice));
}

/// All ranks' rows of every batch: as documented, and together the positions of the batch.
void check_rows(BatchSlices s, std::uint32_t count) {
  const Streams streams(s.total, count);
  std::map<std::uint64_t, Positions> batches;
  for (s.rank = 0; s.rank < s.world_size; ++s.rank) {
    for (std::uint64_t j = 0; j < s.count(); ++j) {
      const BatchSlices::Slice slice = s.slice(j);
      const Positions rows = rows_of(streams, slice);
      ASSERT_EQ(rows, documented_rows(count, slice))
          << testing::PrintToString(s) << ", " << count << " streams";
      Positions& batch = batches[slice.begin];
      batch.insert(batch.end(), rows.begin(), rows.end());
    }
  }
  for (auto& [begin, batch] : batches) {
    std::ranges::sort(batch);
    ASSERT_EQ(batch.size(), std::min(s.global_batch(), s.total - begin));
    for (std::size_t i = 0; i < batch.size(); ++i) ASSERT_EQ(batch[i], begin + i);
  }
}

TEST(StreamsTest, RowsAreTheBatchSortedByStreamAndCut) {
  std::mt19937_64 random(21);
  for (int round = 0; round < 1500; ++round) {
    const std::uint64_t total = random() % (round % 2 == 0 ? 60 : 400);
    check_rows({total, random() % (total + 1), static_cast<std::uint32_t>(1 + random() % 20), 0,
                static_cast<std::uint32_t>(1 + random() % 9), random() % 2 == 0},
               static_cast<std::uint32_t>(1 + random() % 14));
  }
}

TEST(StreamsTest, RowsOfOneRankAreThePositionsThemselves) {
  std::mt19937_64 random(22);
  for (int round = 0; round < 100; ++round) {
    const std::uint64_t total = 1 + random() % 300;
    const BatchSlices s{total, random() % total, static_cast<std::uint32_t>(1 + random() % 40)};
    const Streams streams(total, static_cast<std::uint32_t>(1 + random() % 14));
    for (std::uint64_t j = 0; j < s.count(); ++j) {
      const Positions rows = rows_of(streams, s.slice(j));
      for (std::size_t i = 0; i < rows.size(); ++i) {
        ASSERT_EQ(rows[i], s.start + j * s.batch_size + i);
      }
    }
  }
}

/// The streams that the full batches of a rank read.
std::set<std::uint32_t> streams_read(const BatchSlices& s, std::uint32_t count) {
  std::set<std::uint32_t> read;
  for (std::uint64_t j = 0; j < (s.total - s.start) / s.global_batch(); ++j) {
    for (const std::uint64_t p : documented_rows(count, s.slice(j))) {
      read.insert(static_cast<std::uint32_t>(p % count));
    }
  }
  return read;
}

TEST(StreamsTest, TheRangeHoldsAllThatFullBatchesRead) {
  std::mt19937_64 random(23);
  for (int round = 0; round < 600; ++round) {
    BatchSlices s{0, random() % 40, static_cast<std::uint32_t>(1 + random() % 20), 0,
                  static_cast<std::uint32_t>(1 + random() % 9)};
    s.total = s.start + s.global_batch() * (random() % 20) + random() % 30;
    const auto count = static_cast<std::uint32_t>(1 + random() % 20);
    for (s.rank = 0; s.rank < s.world_size; ++s.rank) {
      const Streams::Range range = Streams(s.total, count).range_of(s);
      ASSERT_LT(range.begin, range.end);
      ASSERT_LE(range.end, count);
      for (const std::uint32_t c : streams_read(s, count)) {
        ASSERT_TRUE(range.begin <= c && c < range.end)
            << c << " of " << count << ", not in [" << range.begin << ", " << range.end << "); "
            << testing::PrintToString(s);
      }
    }
  }
}

// Wherever batches begin, over many starts: the range has no stream that none of them reads.
TEST(StreamsTest, TheRangeIsNotWiderThanNeedBe) {
  std::mt19937_64 random(24);
  for (int round = 0; round < 300; ++round) {
    BatchSlices s{0, 0, static_cast<std::uint32_t>(1 + random() % 20), 0,
                  static_cast<std::uint32_t>(1 + random() % 9)};
    const auto count = static_cast<std::uint32_t>(1 + random() % 20);
    if (s.global_batch() < count) continue;
    for (s.rank = 0; s.rank < s.world_size; ++s.rank) {
      std::set<std::uint32_t> read;
      for (s.start = 0; s.start < count; ++s.start) {
        s.total = s.start + s.global_batch();
        read.merge(streams_read(s, count));
      }
      const Streams::Range range = Streams(s.total, count).range_of(s);
      ASSERT_EQ(range.begin, *read.begin()) << testing::PrintToString(s) << ", " << count;
      ASSERT_EQ(range.end, *read.rbegin() + 1) << testing::PrintToString(s) << ", " << count;
    }
  }
}

TEST(StreamsTest, TheRangeIsTheSharesOfTheRankWhenStreamsDivideTheBatch) {
  for (const std::uint32_t count : {1U, 2U, 3U, 8U, 12U}) {
    for (const std::uint32_t world : {1U, 2U, 3U, 4U, 8U, 24U}) {
      for (const std::uint32_t batch : {1U, 2U, 3U, 5U, 24U}) {
        BatchSlices s{1000, 7, batch, 0, world};
        if (s.global_batch() % count != 0) continue;
        const std::uint64_t each = s.global_batch() / count;
        for (s.rank = 0; s.rank < world; ++s.rank) {
          const Streams::Range range = Streams(s.total, count).range_of(s);
          EXPECT_EQ(range.begin, s.rank * batch / each);
          EXPECT_EQ(range.end, ((s.rank + 1) * batch - 1) / each + 1);
        }
      }
    }
  }
}

TEST(StreamsTest, ABatchOfFewerRowsThanStreamsReadsAllOfThem) {
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const Streams::Range range = Streams(1000, 16).range_of({1000, 0, 5, rank, 3});
    EXPECT_EQ(range.begin, 0U);
    EXPECT_EQ(range.end, 16U);
  }
}

/// For each node of a job the chunks that its ranks read in an epoch.
std::vector<std::set<std::size_t>> chunks_of_nodes(const test::PlannedSet& set, BatchSlices s,
                                                   std::uint32_t nodes,
                                                   const PlanOptions& options) {
  EpochPlan plan = test::plan_of(set, options);
  std::vector<std::set<std::size_t>> chunks(nodes);
  for (s.rank = 0; s.rank < s.world_size; ++s.rank) {
    for (std::uint64_t j = 0; j < s.count(); ++j) {
      const Positions rows = rows_of(plan.streams(), s.slice(j));
      Positions items(rows.size());
      plan.items_at(rows, items);
      for (const std::uint64_t item : items) {
        chunks[s.rank / (s.world_size / nodes)].insert(test::chunk_of(set, item));
      }
    }
  }
  return chunks;
}

// The reason of it all. The last, short batch too: all sizes are multiples of the streams.
TEST(StreamsTest, EveryChunkIsReadByOneNodeInAllEpochs) {
  constexpr std::uint32_t kStreams = 8;
  const test::PlannedSet set = test::equal_chunks(6 * kStreams, 10);
  for (const std::uint32_t nodes : {1U, 2U, 4U, 8U}) {
    for (const std::uint32_t gpus : {1U, 2U, 3U}) {
      for (const std::uint32_t batch : {1U, 2U, 8U, 24U}) {
        const BatchSlices s{480, 0, batch, 0, nodes * gpus};
        if (s.global_batch() % kStreams != 0) continue;
        const auto first = chunks_of_nodes(set, s, nodes, test::windows(9, 1, 2, kStreams));
        std::set<std::size_t> all;
        for (const std::set<std::size_t>& chunks : first) {
          EXPECT_EQ(chunks.size(), 6 * kStreams / nodes);
          all.insert(chunks.begin(), chunks.end());
        }
        EXPECT_EQ(all.size(), 6 * kStreams);
        for (const std::uint64_t epoch : {2U, 3U, 50U}) {
          ASSERT_EQ(chunks_of_nodes(set, s, nodes, test::windows(9, epoch, 2, kStreams)), first)
              << nodes << " nodes, batches of " << batch;
        }
      }
    }
  }
}

}  // namespace
}  // namespace stoker
