// SPDX-License-Identifier: Apache-2.0
#include "plan/window_order.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "plan/rng.h"

namespace stoker {
namespace {

// So many buckets per interval: most hold no border, so that finding an offset's interval is a
// table look-up and not a search with unpredictable branches (1.5 instead of 16 ns per item).
constexpr std::uint64_t kBucketsPerPart = 16;

}  // namespace

std::vector<std::size_t> internal::cut_windows(std::span<const std::uint64_t> sizes,
                                               std::uint32_t first, std::uint32_t window,
                                               std::uint64_t max_items) {
  std::vector<std::size_t> firsts;
  std::uint64_t items = 0;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] > max_items) {
      throw Error(ErrorCode::kUnsupported, "a chunk of " + std::to_string(sizes[k]) +
                                               " items cannot be shuffled: at most " +
                                               std::to_string(max_items) + " are possible");
    }
    const std::uint32_t most = firsts.size() == 1 ? first : window;
    if (firsts.empty() || k - firsts.back() == most || sizes[k] > max_items - items) {
      firsts.push_back(k);
      items = 0;
    }
    items += sizes[k];
  }
  return firsts;
}

WindowOrder::WindowOrder(std::shared_ptr<const IntervalSet> set, std::vector<Piece> pieces,
                         std::vector<std::size_t> firsts, std::vector<std::uint64_t> key)
    : set_(std::move(set)),
      pieces_(std::move(pieces)),
      firsts_(std::move(firsts)),
      key_(std::move(key)) {
  std::uint64_t offset = 0;
  for (std::size_t w = 0; w < firsts_.size(); ++w) {
    starts_.push_back(offset);
    for (const Piece& piece : this->pieces(w)) offset += piece.end - piece.begin;
  }
  starts_.push_back(offset);
}

void WindowOrder::load(std::uint64_t offset) {
  const auto after = std::ranges::upper_bound(starts_, offset);
  const auto window = static_cast<std::size_t>(after - starts_.begin()) - 1;
  offsets_.clear();  // in case memory runs out below
  parts_.clear();
  std::uint64_t items = 0;
  for (const Piece& piece : pieces(window)) add_parts(piece, &items);
  index_parts(items);
  begin_ = starts_[window];
  std::vector<std::uint32_t> offsets(items);
  std::iota(offsets.begin(), offsets.end(), 0U);
  std::vector<std::uint64_t> key = key_;
  key.push_back(window);
  Rng rng(derive_key(key));
  shuffle(offsets, rng);
  offsets_ = std::move(offsets);
}

void WindowOrder::add_parts(const Piece& piece, std::uint64_t* items) {
  std::uint64_t at = piece.begin;
  for (std::size_t k = set_->interval_at(at); at < piece.end; ++k) {
    const std::uint64_t size = std::min(set_->start_of(k + 1), piece.end) - at;
    const std::uint64_t place = at - set_->start_of(k);
    if (place + size - 1 > std::numeric_limits<std::uint32_t>::max()) {
      throw Error(ErrorCode::kUnsupported, "a chunk of more than 2^32 items cannot be shuffled");
    }
    parts_.push_back({*items + size, set_->intervals()[k].begin + place - *items, place - *items,
                      static_cast<std::uint32_t>(k)});
    *items += size;
    at += size;
  }
}

void WindowOrder::index_parts(std::uint64_t items) {
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

}  // namespace stoker
