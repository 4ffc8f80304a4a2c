// SPDX-License-Identifier: Apache-2.0
#include "plan/mixture.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/error.h"
#include "plan/rng.h"

namespace stoker {
namespace {

__extension__ using Uint128 = unsigned __int128;

// Purposes keep the random streams apart. Part of the order.
constexpr std::uint64_t kCounts = 1;
constexpr std::uint64_t kOrder = 2;
constexpr std::uint64_t kMostWeight = std::uint64_t{1} << 40;
constexpr std::uint64_t kMostUnits = std::uint64_t{1} << 63;

Rng rng_of(std::uint64_t key, std::uint64_t purpose, std::uint64_t block) {
  const std::array<std::uint64_t, 3> parts{key, purpose, block};
  return Rng(derive_key(parts));
}

std::uint64_t checked_sum(std::span<const std::uint64_t> values, std::uint64_t limit,
                          const char* what) {
  std::uint64_t sum = 0;
  for (const std::uint64_t value : values) {
    if (value >= limit - sum) {
      throw Error(ErrorCode::kInvalidArgument, std::string("the ") + what +
                                                   " of a mixture add up to " +
                                                   std::to_string(limit) + " or more");
    }
    sum += value;
  }
  return sum;
}

}  // namespace

Mixture::Mixture(std::vector<std::uint64_t> left, std::vector<std::uint64_t> weights,
                 std::uint64_t key, bool exhaust)
    : left_(std::move(left)), weights_(std::move(weights)), key_(key), exhaust_(exhaust) {
  if (left_.empty() || left_.size() != weights_.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "a mixture needs one source or more, and one weight for each; found " +
                    std::to_string(left_.size()) + " sources and " +
                    std::to_string(weights_.size()) + " weights");
  }
  total_ = checked_sum(left_, kMostUnits, "units");
  if (!exhaust_ && checked_sum(weights_, kMostWeight, "weights") == 0) {
    throw Error(ErrorCode::kInvalidArgument, "the weights of a mixture are all 0");
  }
  drawn_.assign(sources(), 0);
  counts_.assign(sources(), 0);
  find_end();
}

std::uint64_t Mixture::count_block(std::uint64_t k, std::span<const std::uint64_t> drawn,
                                   std::span<std::uint64_t> counts) const {
  const auto share = [&](std::size_t i) { return exhaust_ ? left_[i] - drawn[i] : weights_[i]; };
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < sources(); ++i) total += share(i);
  const std::uint64_t size = exhaust_ ? std::min(kBlock, total) : kBlock;
  if (size == 0) return 0;
  const std::uint64_t offset = rng_of(key_, kCounts, k).below(total);
  std::uint64_t cumulative = 0;
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < sources(); ++i) {
    cumulative += share(i);
    const Uint128 scaled = Uint128{cumulative} * size + offset;
    const auto until = (scaled >> 64) == 0 ? static_cast<std::uint64_t>(scaled) / total
                                           : static_cast<std::uint64_t>(scaled / total);
    counts[i] = until - before;
    before = until;
  }
  return size;
}

void Mixture::shuffle_block(std::uint64_t k, std::span<const std::uint64_t> counts) {
  sources_.clear();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    sources_.insert(sources_.end(), counts[i], static_cast<std::uint32_t>(i));
  }
  Rng rng = rng_of(key_, kOrder, k);
  shuffle(sources_, rng);
}

void Mixture::find_end() {
  std::vector<std::uint64_t> drawn(sources(), 0);
  std::vector<std::uint64_t> counts(sources(), 0);
  for (std::uint64_t k = 0;; ++k) {
    if (k % kStride == 0) kept_.insert(kept_.end(), drawn.begin(), drawn.end());
    if (exhaust_) {
      if (size_ == total_) return;
      size_ += count_block(k, drawn, counts);
    } else {
      static_cast<void>(count_block(k, drawn, counts));
      bool runs_out = false;
      for (std::size_t i = 0; i < sources(); ++i) runs_out |= counts[i] > left_[i] - drawn[i];
      if (runs_out) {
        shuffle_block(k, counts);
        for (const std::uint32_t source : sources_) {
          if (drawn[source]++ == left_[source]) return;
          ++size_;
        }
      }
      size_ += kBlock;
    }
    for (std::size_t i = 0; i < sources(); ++i) drawn[i] += counts[i];
  }
}

void Mixture::go_to(std::uint64_t k) {
  if (block_ == k) return;
  if (block_ == kNoBlock || k < block_ || k / kStride != block_ / kStride) {
    block_ = k / kStride * kStride;
    const auto from = kept_.begin() + static_cast<std::ptrdiff_t>(k / kStride * sources());
    drawn_.assign(from, from + static_cast<std::ptrdiff_t>(sources()));
    static_cast<void>(count_block(block_, drawn_, counts_));
  }
  while (block_ < k) {
    for (std::size_t i = 0; i < sources(); ++i) drawn_[i] += counts_[i];
    static_cast<void>(count_block(++block_, drawn_, counts_));
  }
  shuffle_block(k, counts_);
}

void Mixture::fill(std::uint64_t first, std::span<std::uint32_t> out) {
  if (first > size_ || out.size() > size_ - first) {
    throw Error(ErrorCode::kOutOfRange, std::to_string(out.size()) + " draws from " +
                                            std::to_string(first) + " on, of " +
                                            std::to_string(size_));
  }
  while (!out.empty()) {
    go_to(first / kBlock);
    const std::size_t at = first % kBlock;
    const std::size_t run = std::min(out.size(), sources_.size() - at);
    std::copy_n(sources_.begin() + static_cast<std::ptrdiff_t>(at), run, out.begin());
    out = out.subspan(run);
    first += run;
  }
}

std::vector<std::uint64_t> Mixture::drawn_before(std::uint64_t draw) {
  if (draw > size_) {
    throw Error(ErrorCode::kOutOfRange,
                "draw " + std::to_string(draw) + " of " + std::to_string(size_));
  }
  if (draw == 0) return std::vector<std::uint64_t>(sources(), 0);
  go_to((draw - 1) / kBlock);  // the block of the end may not exist
  std::vector<std::uint64_t> drawn = drawn_;
  for (std::uint64_t i = 0; i <= (draw - 1) % kBlock; ++i) ++drawn[sources_[i]];
  return drawn;
}

}  // namespace stoker
