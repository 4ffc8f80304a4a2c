// SPDX-License-Identifier: Apache-2.0
// Sets of intervals, and the order that the text of plan/epoch_plan.h gives them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <ostream>
#include <random>
#include <utility>
#include <vector>

#include "plan/batch_slices.h"
#include "plan/epoch_plan.h"
#include "plan/rng.h"

namespace stoker {

inline void PrintTo(const BatchSlices& s, std::ostream* out) {
  *out << "total " << s.total << ", start " << s.start << ", batch " << s.batch_size << ", rank "
       << s.rank << " of " << s.world_size << (s.drop_last ? ", drop_last" : "");
}

namespace test {

using Items = std::vector<std::uint64_t>;
using Intervals = std::vector<Interval>;

/// What an IntervalSet is made of.
struct PlannedSet {
  Intervals intervals;
  Items chunk_sizes;

  [[nodiscard]] std::shared_ptr<const IntervalSet> set() const {
    return std::make_shared<const IntervalSet>(intervals, chunk_sizes);
  }
};

inline EpochPlan plan_of(const PlannedSet& set, const PlanOptions& options) {
  return {set.set(), options};
}

inline Items all_of(EpochPlan& plan) {
  Items items(plan.size());
  plan.fill(0, items);
  return items;
}

inline Items all_of(const PlannedSet& set, const PlanOptions& options) {
  EpochPlan plan = plan_of(set, options);
  return all_of(plan);
}

inline PlanOptions windows(std::uint64_t seed = 42, std::uint64_t epoch = 1,
                           std::uint64_t window = 4, std::uint64_t streams = 8) {
  return {.shuffle = Shuffle::kWindows,
          .seed = seed,
          .epoch = epoch,
          .window = static_cast<std::uint32_t>(window),
          .streams = static_cast<std::uint32_t>(streams)};
}

inline PlanOptions full(std::uint64_t seed = 42, std::uint64_t epoch = 1) {
  return {.shuffle = Shuffle::kFull, .seed = seed, .epoch = epoch};
}

/// Any window and any number of streams, small ones more often.
inline PlanOptions random_windows(std::mt19937_64& random) {
  const std::uint64_t streams = random() % 5 == 0 ? 1 + random() % 300 : 1 + random() % 9;
  return windows(random(), random() % 5, 1 + random() % 12, streams);
}

/// Chunks of one size, a whole interval each.
inline PlannedSet equal_chunks(std::uint64_t chunks, std::uint64_t items) {
  PlannedSet set;
  for (std::uint64_t c = 0; c < chunks; ++c) {
    set.intervals.push_back({c * items, (c + 1) * items});
    set.chunk_sizes.push_back(items);
  }
  return set;
}

/// Up to `most` intervals of up to `longest` items, some empty, none sharing an item; no chunks.
inline PlannedSet random_intervals(std::mt19937_64& random, std::uint64_t most,
                                   std::uint64_t longest) {
  PlannedSet set{Intervals(random() % (most + 1)), {}};
  std::uint64_t at = random() % 5 == 0 ? std::uint64_t{1} << 62 : random() % 100;
  for (Interval& interval : set.intervals) {
    interval.begin = at + random() % 3;
    at = interval.end = interval.begin + (random() % 4 == 0 ? 0 : random() % (longest + 1));
  }
  std::ranges::shuffle(set.intervals, random);
  return set;
}

/// Parts of chunks: several in most of them, now and then some again, empty, or in any order.
inline PlannedSet random_parts(std::mt19937_64& random, std::uint64_t chunks,
                               std::uint64_t longest) {
  PlannedSet set;
  std::uint64_t start = 0;
  for (std::uint64_t c = random() % (chunks + 1); c > 0; --c) {
    const std::uint64_t size = random() % 6 == 0 ? 0 : random() % (longest + 1);
    set.chunk_sizes.push_back(size);
    for (std::uint64_t at = start; at < start + size;) {
      const std::uint64_t begin = std::min(start + size, at + random() % 3);
      const std::uint64_t end = std::min(start + size, begin + random() % 12);
      set.intervals.push_back({begin, end});
      if (random() % 15 == 0) set.intervals.push_back({begin, end});
      at = std::max(end, at + 1);
    }
    start += size;
  }
  switch (random() % 3) {
    case 0:
      std::ranges::shuffle(set.intervals, random);
      break;
    case 1:
      for (std::size_t swaps = set.intervals.size() / 8; swaps > 0; --swaps) {
        std::swap(set.intervals[random() % set.intervals.size()],
                  set.intervals[random() % set.intervals.size()]);
      }
      break;
    default:
      break;
  }
  return set;
}

inline PlannedSet random_set(std::mt19937_64& random) {
  if (random() % 3 == 0) {
    return random_intervals(random, 50, std::uint64_t{1} << (random() % 8));
  }
  return random_parts(random, 30, std::uint64_t{1} << (random() % 8));
}

/// The chunk of an item; all the same for items of no chunk.
inline std::size_t chunk_of(const PlannedSet& set, std::uint64_t item) {
  std::size_t chunk = 0;
  for (std::uint64_t end = 0; chunk < set.chunk_sizes.size(); ++chunk) {
    if (item < (end += set.chunk_sizes[chunk])) break;
  }
  return chunk;
}

/// The items of every group: neighbours in one chunk, ascending; without chunks, every interval.
inline std::vector<Items> groups_of(const PlannedSet& set) {
  std::vector<Items> groups;
  for (const Interval& interval : set.intervals) {
    if (interval.begin == interval.end) continue;
    const std::size_t chunk = chunk_of(set, interval.begin);
    const bool goes_on = !groups.empty() && chunk < set.chunk_sizes.size() &&
                         groups.back().back() < interval.begin &&
                         chunk_of(set, groups.back().back()) == chunk;
    if (!goes_on) groups.emplace_back();
    for (std::uint64_t i = interval.begin; i < interval.end; ++i) groups.back().push_back(i);
  }
  return groups;
}

/// 0 .. count - 1, shuffled with the key of these parts.
inline std::vector<std::uint32_t> permuted(std::size_t count, const Items& parts) {
  std::vector<std::uint32_t> values(count);
  std::iota(values.begin(), values.end(), 0U);
  Rng rng(derive_key(parts));
  shuffle(values, rng);
  return values;
}

/// Steps 3 and 4 of epoch_plan.h, of the pieces of one stream.
inline Items documented_stream(const std::vector<Items>& pieces, std::uint64_t stream,
                               const PlanOptions& options) {
  const auto order = permuted(pieces.size(), {2, options.seed, options.epoch, 2, stream});
  Items result;
  std::size_t taken = 0;
  for (std::uint64_t w = 0; taken < order.size(); ++w) {
    std::size_t count = w == 0 ? 1 + stream % options.window : options.window;
    Items joined;
    for (; count > 0 && taken < order.size(); --count, ++taken) {
      joined.insert(joined.end(), pieces[order[taken]].begin(), pieces[order[taken]].end());
    }
    for (const std::uint32_t k :
         permuted(joined.size(), {2, options.seed, options.epoch, 3, stream, w})) {
      result.push_back(joined[k]);
    }
  }
  return result;
}

/// Steps 1 to 5 of epoch_plan.h, word for word, with nothing in common with the code but rng.h
/// (which has numbers of its own in rng_test.cc). Small sets: no window passes 2^32 - 1 items.
inline Items documented_order(const PlannedSet& set, const PlanOptions& options) {
  const std::vector<Items> groups = groups_of(set);
  std::uint64_t total = 0;
  for (const Items& group : groups) total += group.size();
  if (total == 0) return {};
  const std::uint64_t count = std::min<std::uint64_t>(options.streams, total);

  std::vector<std::vector<Items>> pieces(count);  // of every stream
  std::uint64_t stream = 0;
  std::uint64_t left = total / count + (total % count > 0 ? 1 : 0);  // of the stream
  for (const std::uint32_t g : permuted(groups.size(), {2, options.seed, 1})) {
    bool begins = true;  // a piece
    for (const std::uint64_t item : groups[g]) {
      if (left == 0) {
        ++stream;
        left = total / count + (stream < total % count ? 1 : 0);
        begins = true;
      }
      if (begins) pieces[stream].emplace_back();
      begins = false;
      pieces[stream].back().push_back(item);
      --left;
    }
  }

  std::vector<Items> streams;
  for (std::uint64_t c = 0; c < count; ++c) {
    streams.push_back(documented_stream(pieces[c], c, options));
  }
  Items order;
  for (std::uint64_t p = 0; p < total; ++p) order.push_back(streams[p % count].at(p / count));
  return order;
}

}  // namespace test
}  // namespace stoker
