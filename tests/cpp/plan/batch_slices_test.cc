// SPDX-License-Identifier: Apache-2.0
// Every row of an epoch in exactly one batch of one rank. Row i of a global batch stands for
// position begin + i here; which position it is with several streams is the matter of
// streams_test.cc.
#include "plan/batch_slices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "plan/plan_samples.h"

namespace stoker {
namespace {

using Positions = std::vector<std::uint64_t>;
using Batches = std::vector<Positions>;

/// The batches of a rank, position by position, from the words of batch_slices.h.
Batches documented(const BatchSlices& s) {
  const std::uint64_t global = std::uint64_t{s.batch_size} * s.world_size;
  Batches batches;
  for (std::uint64_t first = s.start; first < s.total; first += global) {
    Positions batch;
    const std::uint64_t left = s.total - first;
    if (left < global && s.drop_last) break;
    for (std::uint64_t i = 0; i < std::min(left, global); ++i) {
      // Position i of n goes to the rank r with r * n / world <= i < (r + 1) * n / world.
      const std::uint64_t n = std::min(left, global);
      const bool mine =
          i >= s.rank * n / s.world_size && i < (std::uint64_t{s.rank} + 1) * n / s.world_size;
      if (mine) batch.push_back(first + i);
    }
    if (!batch.empty()) batches.push_back(batch);
  }
  return batches;
}

Batches batches_of(const BatchSlices& s) {
  Batches batches(s.count());
  for (std::uint64_t j = 0; j < batches.size(); ++j) {
    const BatchSlices::Slice slice = s.slice(j);
    EXPECT_LE(slice.first + slice.rows, slice.size);
    for (std::uint32_t i = 0; i < slice.rows; ++i) {
      batches[j].push_back(slice.begin + slice.first + i);
    }
  }
  return batches;
}

/// All ranks of a world give what the text says, and together each position once.
void check_world(BatchSlices s) {
  std::vector<int> seen(s.total);
  for (s.rank = 0; s.rank < s.world_size; ++s.rank) {
    const Batches batches = batches_of(s);
    ASSERT_EQ(batches, documented(s)) << testing::PrintToString(s);
    for (const Positions& batch : batches) {
      for (const std::uint64_t position : batch) ++seen.at(position);
    }
  }
  const std::uint64_t end =
      s.drop_last ? s.total - (s.total - s.start) % s.global_batch() : s.total;
  for (std::uint64_t p = 0; p < s.total; ++p) {
    ASSERT_EQ(seen[p], p >= s.start && p < end ? 1 : 0) << p << " " << testing::PrintToString(s);
  }
}

TEST(BatchSlicesTest, EachPositionOnceInAnyWorld) {
  for (std::uint64_t total = 0; total < 27; ++total) {
    for (std::uint64_t start = 0; start <= total; start += 1 + start % 3) {
      for (const std::uint32_t batch : {1U, 2U, 3U, 5U, 30U}) {
        for (const std::uint32_t world : {1U, 2U, 3U, 4U, 7U}) {
          for (const bool drop_last : {false, true}) {
            check_world({total, start, batch, 0, world, drop_last});
          }
        }
      }
    }
  }
}

TEST(BatchSlicesTest, EachPositionOnceAtRandom) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 60; ++round) {
    const std::uint64_t total = random() % 3000;
    check_world({total, random() % (total + 1), static_cast<std::uint32_t>(1 + random() % 70), 0,
                 static_cast<std::uint32_t>(1 + random() % 20), random() % 2 == 0});
  }
}

// What Streams needs to know: the same global batch in every rank.
TEST(BatchSlicesTest, AllRanksSeeTheSameGlobalBatches) {
  std::mt19937_64 random(13);
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t total = random() % 500;
    BatchSlices s{total,
                  random() % (total + 1),
                  static_cast<std::uint32_t>(1 + random() % 9),
                  0,
                  static_cast<std::uint32_t>(1 + random() % 9),
                  random() % 2 == 0};
    for (s.rank = 0; s.rank < s.world_size; ++s.rank) {
      for (std::uint64_t j = 0; j < s.count(); ++j) {
        const BatchSlices::Slice slice = s.slice(j);
        ASSERT_EQ(slice.begin, s.start + j * s.global_batch()) << testing::PrintToString(s);
        ASSERT_EQ(slice.size, std::min(s.global_batch(), total - slice.begin));
      }
    }
  }
}

TEST(BatchSlicesTest, WithDropLastAllRanksHaveEquallyManyFullBatches) {
  std::mt19937_64 random(12);
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t total = random() % 500;
    BatchSlices s{total,
                  random() % (total + 1),
                  static_cast<std::uint32_t>(1 + random() % 9),
                  0,
                  static_cast<std::uint32_t>(1 + random() % 9),
                  true};
    for (s.rank = 0; s.rank < s.world_size; ++s.rank) {
      ASSERT_EQ(s.count(), (total - s.start) / s.global_batch()) << testing::PrintToString(s);
      for (std::uint64_t j = 0; j < s.count(); ++j) ASSERT_EQ(s.slice(j).rows, s.batch_size);
    }
  }
}

// No rank is more than one sample or one batch ahead of another.
TEST(BatchSlicesTest, TheShortBatchIsSharedEvenly) {
  for (std::uint64_t total = 0; total < 200; ++total) {
    BatchSlices s{total, 0, 4, 0, 6, false};
    std::uint64_t fewest = total;
    std::uint64_t most = 0;
    for (s.rank = 0; s.rank < s.world_size; ++s.rank) {
      std::uint64_t samples = 0;
      for (std::uint64_t j = 0; j < s.count(); ++j) samples += s.slice(j).rows;
      fewest = std::min(fewest, samples);
      most = std::max(most, samples);
      ASSERT_LE(s.count(), total / 24 + 1);
      ASSERT_GE(s.count(), total / 24);
    }
    ASSERT_LE(most - fewest, 1U) << total;
  }
}

TEST(BatchSlicesTest, AStateMovesToAnotherWorldWithoutLossOrRepeats) {
  constexpr std::uint64_t kTotal = 101;
  std::vector<int> seen(kTotal);
  const auto deliver = [&](BatchSlices s, std::uint64_t batches) {
    for (s.rank = 0; s.rank < s.world_size; ++s.rank) {
      const Batches all = batches_of(s);
      for (std::uint64_t j = 0; j < std::min<std::uint64_t>(batches, all.size()); ++j) {
        for (const std::uint64_t position : all[j]) ++seen.at(position);
      }
    }
  };
  deliver({kTotal, 0, 4, 0, 3, false}, 2);
  deliver({kTotal, 24, 5, 0, 2, false}, 3);
  deliver({kTotal, 54, 7, 0, 4, false}, 1000);
  EXPECT_EQ(seen, std::vector<int>(kTotal, 1));
}

TEST(BatchSlicesTest, LargeNumbers) {
  constexpr std::uint64_t kTotal = (std::uint64_t{1} << 62) + 12345;
  const BatchSlices s{kTotal, 5, 8'000'000, 1023, 1024, false};
  const BatchSlices::Slice last = s.slice(s.count() - 1);
  EXPECT_EQ(last.begin + last.size, kTotal);
  EXPECT_EQ(last.first + last.rows, last.size);
  EXPECT_EQ(s.slice(0).begin, 5U);
  EXPECT_EQ(s.slice(0).first, std::uint64_t{1023} * 8'000'000);
  EXPECT_EQ(s.slice(0).size, std::uint64_t{1024} * 8'000'000);
}

}  // namespace
}  // namespace stoker
