// SPDX-License-Identifier: Apache-2.0
#include "plan/epoch_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "plan/rng.h"

namespace stoker {
namespace {

// Purposes keep the random streams of one epoch apart. Part of the order.
constexpr std::uint64_t kOrderOfGroups = 1;
constexpr std::uint64_t kOrderInStream = 2;
constexpr std::uint64_t kOrderInWindow = 3;
constexpr std::uint64_t kFullOrder = 4;

constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();

std::uint64_t key_of(const std::vector<std::uint64_t>& parts) { return derive_key(parts); }

std::uint32_t streams_of(const IntervalSet& set, const PlanOptions& options) {
  if (options.window == 0 || options.streams == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "the shuffle window must have 1 chunk or more, and there must be 1 stream or more");
  }
  if (options.shuffle != Shuffle::kWindows) return 1;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(set.size(), 1, std::uint64_t{options.streams}));
}

}  // namespace

EpochPlan::EpochPlan(std::shared_ptr<const IntervalSet> set, PlanOptions options)
    : set_(std::move(set)), options_(options), streams_(set_->size(), streams_of(*set_, options)) {
  if (options_.shuffle == Shuffle::kNone) {
    plan_in_order();
    return;
  }
  if (set_->intervals().size() > kMost) {
    throw Error(ErrorCode::kUnsupported,
                std::to_string(set_->intervals().size()) + " intervals cannot be shuffled");
  }
  if (options_.shuffle == Shuffle::kFull) {
    permutation_.emplace(size(),
                         key_of({kOrderVersion, options_.seed, options_.epoch, kFullOrder}));
  } else {
    plan_streams();
  }
}

void EpochPlan::plan_in_order() {
  windows_.reserve(set_->groups());
  for (std::size_t g = 0; g < set_->groups(); ++g) {
    windows_.push_back(
        {set_->group_start(g), set_->group_start(g + 1), 0, static_cast<std::uint32_t>(g)});
  }
}

void EpochPlan::plan_streams() {
  std::vector<std::uint32_t> order(set_->groups());
  std::iota(order.begin(), order.end(), 0U);
  Rng rng(key_of({kOrderVersion, options_.seed, kOrderOfGroups}));
  shuffle(order, rng);

  std::vector<Piece> pieces;
  std::uint64_t at = 0;  // in the concatenation
  std::uint32_t stream = 0;
  for (const std::uint32_t group : order) {
    Piece rest{set_->group_start(group), set_->group_start(group + 1)};
    while (rest.begin < rest.end) {
      const std::uint64_t stream_end = streams_.start(stream + 1);
      const std::uint64_t taken = std::min(rest.end - rest.begin, stream_end - at);
      pieces.push_back({rest.begin, rest.begin + taken});
      rest.begin += taken;
      at += taken;
      if (at == stream_end) add_stream(stream++, std::exchange(pieces, {}));
    }
  }
  std::ranges::sort(windows_, {}, [](const PlanWindow& w) { return std::pair(w.begin, w.stream); });
}

void EpochPlan::add_stream(std::uint32_t stream, std::vector<Piece> pieces) {
  std::vector<std::uint32_t> order(pieces.size());
  std::iota(order.begin(), order.end(), 0U);
  Rng rng(key_of({kOrderVersion, options_.seed, options_.epoch, kOrderInStream, stream}));
  shuffle(order, rng);
  std::vector<Piece> permuted;
  std::vector<std::uint64_t> sizes;
  permuted.reserve(order.size());
  for (const std::uint32_t k : order) {
    permuted.push_back(pieces[k]);
    sizes.push_back(pieces[k].end - pieces[k].begin);
  }
  auto firsts = internal::cut_windows(sizes, 1 + stream % options_.window, options_.window);
  orders_.emplace_back(set_, std::move(permuted), std::move(firsts),
                       std::vector{std::uint64_t{kOrderVersion}, options_.seed, options_.epoch,
                                   kOrderInWindow, std::uint64_t{stream}});
  const WindowOrder& made = orders_.back();
  for (std::size_t w = 0; w < made.windows(); ++w) {
    windows_.push_back({made.start(w) * streams_.count() + stream,
                        (made.start(w + 1) - 1) * streams_.count() + stream + 1, stream,
                        static_cast<std::uint32_t>(w)});
  }
}

void EpochPlan::check_positions(std::uint64_t first, std::uint64_t count) const {
  if (first <= size() && count <= size() - first) return;
  throw Error(ErrorCode::kOutOfRange, std::to_string(count) + " positions from " +
                                          std::to_string(first) + " on, of " +
                                          std::to_string(size()));
}

void EpochPlan::fill(std::uint64_t position, std::span<std::uint64_t> out) {
  check_positions(position, out.size());
  if (options_.shuffle == Shuffle::kWindows) {
    std::uint32_t stream = static_cast<std::uint32_t>(position % streams_.count());
    std::uint64_t offset = position / streams_.count();
    for (std::uint64_t& item : out) {
      item = orders_[stream].item_at(offset);
      if (++stream == streams_.count()) {
        stream = 0;
        ++offset;
      }
    }
    return;
  }
  if (permutation_) {
    permutation_->fill(position, out);
    for (std::uint64_t& item : out) item = set_->item_at(item);
    return;
  }
  while (!out.empty()) {
    const auto run =
        static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), set_->run_at(position)));
    const auto part = out.first(run);
    std::iota(part.begin(), part.end(), set_->item_at(position));
    position += run;
    out = out.subspan(run);
  }
}

void EpochPlan::items_at(std::span<const std::uint64_t> positions, std::span<std::uint64_t> out) {
  for (std::size_t i = 0; i < positions.size();) {  // one call per run of neighbours
    std::size_t end = i + 1;
    while (end < positions.size() && positions[end] == positions[i] + (end - i)) ++end;
    fill(positions[i], out.subspan(i, end - i));
    i = end;
  }
}

ItemPlace EpochPlan::place_in_set(std::uint64_t position, std::size_t* interval) const {
  if (position < set_->start_of(*interval) || position >= set_->start_of(*interval + 1)) {
    const bool is_next = *interval + 2 <= set_->intervals().size() &&
                         position >= set_->start_of(*interval + 1) &&
                         position < set_->start_of(*interval + 2);
    *interval = is_next ? *interval + 1 : set_->interval_at(position);
  }
  const std::uint64_t offset = position - set_->start_of(*interval);
  if (((*interval | offset) >> 32) != 0) {
    throw Error(ErrorCode::kUnsupported, "more than 2^32 - 1 intervals, or items in one");
  }
  return {static_cast<std::uint32_t>(*interval), static_cast<std::uint32_t>(offset)};
}

void EpochPlan::places_at(std::span<const std::uint64_t> positions, std::span<ItemPlace> out) {
  if (positions.empty()) return;
  check_positions(positions.back(), 1);
  if (options_.shuffle == Shuffle::kWindows) {
    const std::uint64_t count = streams_.count();
    std::uint64_t expected = positions.front();
    auto stream = static_cast<std::uint32_t>(expected % count);
    std::uint64_t offset = expected / count;
    for (std::size_t i = 0; i < positions.size(); ++i) {
      if (positions[i] != expected) {
        expected = positions[i];
        stream = static_cast<std::uint32_t>(expected % count);
        offset = expected / count;
      }
      out[i] = orders_[stream].place_at(offset);
      ++expected;
      if (++stream == count) {
        stream = 0;
        ++offset;
      }
    }
    return;
  }
  std::size_t interval = 0;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::uint64_t at = permutation_ ? permutation_->at(positions[i]) : positions[i];
    out[i] = place_in_set(at, &interval);
  }
}

std::vector<std::uint32_t> EpochPlan::intervals_of(const PlanWindow& window) const {
  std::vector<std::uint32_t> intervals;
  if (options_.shuffle == Shuffle::kNone) {
    intervals.push_back(static_cast<std::uint32_t>(set_->interval_at(window.begin)));
    return intervals;
  }
  for (const Piece& piece : orders_[window.stream].pieces(window.number)) {
    intervals.push_back(static_cast<std::uint32_t>(set_->interval_at(piece.begin)));
  }
  return intervals;
}

}  // namespace stoker
