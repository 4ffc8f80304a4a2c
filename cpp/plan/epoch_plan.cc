// SPDX-License-Identifier: Apache-2.0
#include "plan/epoch_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "plan/rng.h"

namespace stoker {
namespace {

// Purposes keep the random streams of one epoch apart. Part of the order.
constexpr std::uint64_t kOrderOfIntervals = 1;
constexpr std::uint64_t kOrderInWindow = 2;

// So many buckets per interval: most hold no border, so that finding an offset's interval is a
// table look-up and not a search with unpredictable branches (1.5 instead of 16 ns per item).
constexpr std::uint64_t kBucketsPerPart = 16;

Rng rng_for(const PlanOptions& options, std::uint64_t purpose, std::uint64_t number) {
  const std::array<std::uint64_t, 5> parts{kOrderVersion, options.seed, options.epoch, purpose,
                                           number};
  return Rng(derive_key(parts));
}

}  // namespace

std::vector<std::size_t> internal::cut_windows(std::span<const std::uint64_t> sizes,
                                               std::uint32_t window, std::uint64_t max_items) {
  std::vector<std::size_t> firsts;
  std::uint64_t items = 0;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] > max_items) {
      throw Error(ErrorCode::kUnsupported, "an interval of " + std::to_string(sizes[k]) +
                                               " items cannot be shuffled: at most " +
                                               std::to_string(max_items) + " are possible");
    }
    if (firsts.empty() || k - firsts.back() == window || sizes[k] > max_items - items) {
      firsts.push_back(k);
      items = 0;
    }
    items += sizes[k];
  }
  return firsts;
}

EpochPlan::EpochPlan(std::shared_ptr<const IntervalSet> set, PlanOptions options)
    : set_(std::move(set)), options_(options) {
  if (options_.window == 0) {
    throw Error(ErrorCode::kInvalidArgument, "the shuffle window must have 1 interval or more");
  }
  if (!options_.shuffle) return;
  const auto intervals = set_->intervals();
  if (intervals.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorCode::kUnsupported,
                std::to_string(intervals.size()) + " intervals cannot be shuffled");
  }
  order_.resize(intervals.size());
  std::iota(order_.begin(), order_.end(), 0U);
  Rng rng = rng_for(options_, kOrderOfIntervals, 0);
  shuffle(order_, rng);

  std::vector<std::uint64_t> sizes(order_.size());
  std::ranges::transform(order_, sizes.begin(),
                         [&](std::uint32_t k) { return intervals[k].size(); });
  window_firsts_ = internal::cut_windows(sizes, options_.window);
  std::uint64_t position = 0;
  for (std::size_t w = 0; w < window_firsts_.size(); ++w) {
    const std::size_t end = w + 1 < window_firsts_.size() ? window_firsts_[w + 1] : sizes.size();
    for (std::size_t k = window_firsts_[w]; k < end; ++k) position += sizes[k];
    window_ends_.push_back(position);
  }
}

void EpochPlan::check_range(std::uint64_t position, std::size_t count) const {
  if (position <= size() && count <= size() - position) return;
  throw Error(ErrorCode::kOutOfRange, std::to_string(count) + " positions from " +
                                          std::to_string(position) + " on, of " +
                                          std::to_string(size()));
}

void EpochPlan::fill(std::uint64_t position, std::span<std::uint64_t> out) {
  check_range(position, out.size());
  if (!options_.shuffle) {
    fill_in_order(position, out);
    return;
  }
  for_shuffled(position, out.size(), [&](std::size_t i, std::uint32_t offset) {
    out[i] = offset + part_at_offset(offset).to_item;
  });
}

void EpochPlan::fill_places(std::uint64_t position, std::span<ItemPlace> out) {
  check_range(position, out.size());
  if (!options_.shuffle) {
    places_in_order(position, out);
    return;
  }
  for_shuffled(position, out.size(), [&](std::size_t i, std::uint32_t offset) {
    const Part& part = part_at_offset(offset);
    out[i] = {part.interval, offset - part.begin};
  });
}

void EpochPlan::fill_in_order(std::uint64_t position, std::span<std::uint64_t> out) const {
  while (!out.empty()) {
    const auto run =
        static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), set_->run_at(position)));
    const auto part = out.first(run);
    std::iota(part.begin(), part.end(), set_->item_at(position));
    position += run;
    out = out.subspan(run);
  }
}

void EpochPlan::places_in_order(std::uint64_t position, std::span<ItemPlace> out) const {
  if (out.empty()) return;
  std::size_t k = window_at(position);
  for (ItemPlace& place : out) {
    while (position == set_->start_of(k + 1)) ++k;
    const std::uint64_t offset = position++ - set_->start_of(k);
    if (((k | offset) >> 32) != 0) {
      throw Error(ErrorCode::kUnsupported, "more than 2^32 - 1 intervals, or items in one");
    }
    place = {static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(offset)};
  }
}

template <typename Take>
void EpochPlan::for_shuffled(std::uint64_t position, std::size_t count, const Take& take) {
  std::size_t done = 0;
  while (done < count) {
    const auto end = std::ranges::upper_bound(window_ends_, position);
    const auto window = static_cast<std::size_t>(end - window_ends_.begin());
    if (window != loaded_) load_window(window);
    const auto left = static_cast<std::size_t>(*end - position);
    const std::size_t run = std::min(count - done, left);
    const std::uint32_t* from = offsets_.data() + (offsets_.size() - left);
    for (std::size_t i = 0; i < run; ++i) take(done + i, from[i]);
    position += run;
    done += run;
  }
}

std::size_t EpochPlan::window_at(std::uint64_t position) const {
  check_range(position, 1);
  if (options_.shuffle) {
    return static_cast<std::size_t>(std::ranges::upper_bound(window_ends_, position) -
                                    window_ends_.begin());
  }
  return set_->interval_at(position);
}

std::uint64_t EpochPlan::window_start(std::size_t w) const noexcept {
  if (!options_.shuffle) return set_->start_of(w);
  return w == 0 ? 0 : window_ends_[w - 1];
}

std::size_t EpochPlan::window_end(std::size_t window) const noexcept {
  return window + 1 < window_firsts_.size() ? window_firsts_[window + 1] : order_.size();
}

std::vector<std::uint32_t> EpochPlan::window_intervals(std::size_t w) const {
  if (!options_.shuffle) return {static_cast<std::uint32_t>(w)};
  const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(window_firsts_[w]);
  return {begin, order_.begin() + static_cast<std::ptrdiff_t>(window_end(w))};
}

void EpochPlan::load_window(std::size_t window) {
  loaded_ = std::numeric_limits<std::size_t>::max();  // in case memory runs out below
  parts_.clear();
  std::uint64_t items = 0;
  for (std::size_t k = window_firsts_[window]; k < window_end(window); ++k) {
    const Interval& interval = set_->intervals()[order_[k]];
    const std::uint64_t start = items;
    items += interval.size();
    parts_.push_back({items, interval.begin - start, order_[k], static_cast<std::uint32_t>(start)});
  }
  index_parts(items);
  offsets_.resize(items);
  std::iota(offsets_.begin(), offsets_.end(), 0U);
  Rng rng = rng_for(options_, kOrderInWindow, window);
  shuffle(offsets_, rng);
  loaded_ = window;
}

void EpochPlan::index_parts(std::uint64_t items) {
  const auto bits_of = [](std::uint64_t n) { return static_cast<unsigned>(std::bit_width(n)); };
  const unsigned wanted = bits_of(kBucketsPerPart * parts_.size());
  bucket_bits_ = bits_of(items) > wanted ? bits_of(items) - wanted : 0;
  buckets_.resize(((items - 1) >> bucket_bits_) + 1);
  std::uint32_t part = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    while ((std::uint64_t{b} << bucket_bits_) >= parts_[part].end) ++part;
    buckets_[b] = part;
  }
}

const EpochPlan::Part& EpochPlan::part_at_offset(std::uint32_t offset) const noexcept {
  std::uint32_t part = buckets_[offset >> bucket_bits_];
  while (offset >= parts_[part].end) ++part;
  return parts_[part];
}

}  // namespace stoker
