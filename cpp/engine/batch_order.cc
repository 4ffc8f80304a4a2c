// SPDX-License-Identifier: Apache-2.0
#include "engine/batch_order.h"

#include <string>
#include <utility>

#include "base/error.h"

namespace stoker {
namespace {

OpenChunks::Open opener_of(std::shared_ptr<const ChunkSet> set) {
  return [set = std::move(set)](std::size_t chunk) { return set->open(chunk); };
}

/// The first item of every interval.
std::vector<ChunkPlace> begins_of(const ChunkSet& set, const IntervalSet& intervals) {
  std::vector<ChunkPlace> begins;
  for (const Interval& interval : intervals.intervals()) {
    const bool is_there = interval.end <= set.items(0);
    const ChunkPlace begin = is_there ? set.place_of(0, interval.begin) : ChunkPlace{};
    if (!is_there || set.place_of(0, interval.end - 1).chunk != begin.chunk) {
      throw Error(ErrorCode::kInvalidArgument, "the interval [" + std::to_string(interval.begin) +
                                                   ", " + std::to_string(interval.end) +
                                                   ") is not inside one chunk");
    }
    begins.push_back(begin);
  }
  return begins;
}

std::vector<std::uint32_t> chunks_of(const std::vector<ChunkPlace>& places) {
  std::vector<std::uint32_t> chunks;
  chunks.reserve(places.size());
  for (const ChunkPlace& place : places) chunks.push_back(place.chunk);
  return chunks;
}

const BatchSlices& checked(const BatchSlices& slices, const IntervalSet& intervals) {
  if (slices.batch_size == 0 || slices.rank >= slices.world_size || slices.start > slices.total ||
      slices.total != intervals.size()) {
    throw Error(ErrorCode::kInvalidArgument, "impossible slices of an epoch");
  }
  return slices;
}

}  // namespace

EpochOrder::EpochOrder(std::shared_ptr<const ChunkSet> set,
                       std::shared_ptr<const IntervalSet> intervals, const PlanOptions& plan,
                       const BatchSlices& slices, std::size_t openers)
    : set_(std::move(set)),
      plan_(std::move(intervals), plan),
      slices_(checked(slices, plan_.set())),
      key_{set_->seed_of(0), plan.epoch},
      begins_(begins_of(*set_, plan_.set())),
      chunks_(opener_of(set_), plan_, chunks_of(begins_), plan_.streams().range_of(slices_),
              openers, set_->most_open()) {}

void EpochOrder::fill_next(BatchData& data, std::vector<ChunkPlace>& places) {
  const BatchSlices::Slice slice = slices_.slice(next_++);
  data.keys.assign(1, key_);
  data.positions.resize(slice.rows);
  places_.resize(slice.rows);
  places.resize(slice.rows);
  chunks_.advance(slice.begin);
  plan_.streams().rows(slice, data.positions);
  plan_.places_at(data.positions, places_);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const ChunkPlace& begin = begins_[places_[i].interval];
    places[i] = {begin.chunk, begin.item + places_[i].offset};
  }
}

ToldOrder::ToldOrder(std::shared_ptr<const ChunkSet> set, std::size_t openers)
    : set_(std::move(set)), chunks_(opener_of(set_), openers, set_->most_open()) {}

void ToldOrder::tell(std::vector<ToldRow> batch) {
  MutexLock lock(mutex_);
  if (finished_) throw Error(ErrorCode::kInvalidArgument, "a batch was told after the last one");
  told_.push_back(std::move(batch));
  changed_.notify_one();
}

void ToldOrder::finish() {
  MutexLock lock(mutex_);
  finished_ = true;
  changed_.notify_one();
}

bool ToldOrder::is_told() {
  MutexLock lock(mutex_);
  return finished_ || closed_ || !told_.empty();
}

bool ToldOrder::wait_for_next() {
  MutexLock lock(mutex_);
  while (told_.empty() && !finished_ && !closed_) changed_.wait(mutex_);
  return !told_.empty() && !closed_;
}

void ToldOrder::fill_next(BatchData& data, std::vector<ChunkPlace>& places) {
  std::vector<ToldRow> rows;
  {
    MutexLock lock(mutex_);
    rows = std::move(told_.front());
    told_.pop_front();
  }
  data.keys.clear();
  data.positions.clear();
  places.clear();
  for (const ToldRow& row : rows) {
    places.push_back(set_->place_of(row.part, row.item));
    data.keys.push_back({set_->seed_of(row.part), row.epoch});
    data.positions.push_back(row.position);
  }
}

void ToldOrder::close() noexcept {
  MutexLock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace stoker
