// SPDX-License-Identifier: Apache-2.0
#include "engine/open_chunks.h"

#include <algorithm>
#include <utility>

namespace stoker {
namespace {

constexpr std::uint64_t kNever = ~std::uint64_t{0};

}  // namespace

OpenChunks::OpenChunks(Open open, const EpochPlan& plan, const std::vector<std::uint32_t>& chunk_of,
                       Streams::Range range, std::size_t openers, std::size_t most_open)
    : open_(std::move(open)),
      most_open_(most_open),
      has_windows_(plan.size() == 0 || !plan.windows().empty()) {
  make_schedule(plan, chunk_of, range);
  if (openers == 0) return;
  if (plan.streams().count() == 1) open_ahead_in_order(openers);
  pool_ = std::make_unique<ThreadPool>(openers, "stoker/open");
}

OpenChunks::OpenChunks(Open open, std::size_t openers, std::size_t most_open)
    : open_(std::move(open)), most_open_(most_open) {
  if (openers > 0) pool_ = std::make_unique<ThreadPool>(openers, "stoker/open");
}

// The chunks of a window become due one after another during the window before it.
void OpenChunks::make_schedule(const EpochPlan& plan, const std::vector<std::uint32_t>& chunk_of,
                               Streams::Range range) {
  for (const PlanWindow& window : plan.windows()) {
    if (window.stream < range.begin || window.stream >= range.end) continue;
    const std::vector<std::uint32_t> intervals = plan.intervals_of(window);
    const std::uint64_t length = window.end - window.begin;
    span_ = std::max(span_, length);
    for (std::size_t k = 0; k < intervals.size(); ++k) {
      const std::uint64_t ahead = length - length / intervals.size() * k;
      schedule_.push_back({window.begin - std::min(window.begin, ahead), window.begin, window.end,
                           chunk_of[intervals[k]]});
    }
  }
  std::ranges::stable_sort(schedule_, {}, &Due::position);
}

// One chunk ahead would keep one thread busy, and a dataset of many small compressed chunks would
// be opened nearly one by one.
void OpenChunks::open_ahead_in_order(std::size_t openers) {
  for (std::size_t k = schedule_.size(); k > openers; --k) {
    Due& due = schedule_[k - 1];
    due.position = std::min(due.position, schedule_[k - openers].position);
  }
  for (std::size_t k = 0; k < std::min(openers, schedule_.size()); ++k) schedule_[k].position = 0;
}

void OpenChunks::advance(std::uint64_t position) {
  if (!position_) {  // what is read now comes before what is only due
    for (const Due& due : schedule_) {
      if (due.position > position) break;
      if (due.needed_from <= position && due.needed_until > position) {
        need(due.chunk, due.needed_until);
      }
    }
  }
  position_ = position;
  if (position >= drop_at_) drop_before(position);
  for (; started_ < schedule_.size() && schedule_[started_].position <= position; ++started_) {
    const Due& due = schedule_[started_];
    if (due.needed_until > position) need(due.chunk, due.needed_until);
  }
}

void OpenChunks::need(std::uint32_t chunk, std::uint64_t until) {
  Entry& entry = entries_[chunk];
  entry.needed_until = std::max(entry.needed_until, until);
  drop_at_ = std::min(drop_at_, entry.needed_until);
  if (entry.result.valid() || pool_ == nullptr) return;
  entry.result = pool_->submit([this, chunk] { return open(chunk); }).share();
}

void OpenChunks::drop_before(std::uint64_t position) {
  drop_at_ = kNever;
  std::erase_if(entries_, [&](const auto& item) {
    if (item.second.needed_until <= position) return true;
    drop_at_ = std::min(drop_at_, item.second.needed_until);
    return false;
  });
}

void OpenChunks::drop_least_used() {
  const auto least =
      std::ranges::min_element(entries_, {}, [](const auto& item) { return item.second.used; });
  entries_.erase(least);
}

void OpenChunks::close() noexcept {
  pool_.reset();
  entries_.clear();
}

OpenChunks::Result OpenChunks::open(std::size_t chunk) {
  const std::uint64_t start = steady_ns();
  auto opened = std::make_shared<OpenChunk>();
  opened->chunk = chunk;
  try {
    opened->view = open_(chunk);
  } catch (...) {
    opened->error = std::current_exception();
  }
  counters_.read_ns.fetch_add(steady_ns() - start, std::memory_order_relaxed);
  return opened;
}

void OpenChunks::expect(std::span<const std::uint32_t> chunks) {
  if (has_windows_ || pool_ == nullptr) return;
  for (const std::uint32_t chunk : chunks) {
    if (entries_.contains(chunk)) continue;
    if (entries_.size() >= most_open_) drop_least_used();
    need(chunk, kNever);
    entries_[chunk].used = ++gets_;
  }
}

std::shared_ptr<const OpenChunk> OpenChunks::get(std::uint32_t chunk) {
  if (!entries_.contains(chunk)) {
    // Of a stream at the border of this rank's, in a short last batch, or without windows.
    if (!has_windows_ && entries_.size() >= most_open_) drop_least_used();
    need(chunk, has_windows_ ? position_.value_or(0) + span_ : kNever);
  }
  Entry& entry = entries_[chunk];
  entry.used = ++gets_;
  if (!entry.result.valid()) {
    std::promise<Result> made;
    made.set_value(open(chunk));
    entry.result = made.get_future().share();
  }
  return entry.result.get();
}

}  // namespace stoker
