// SPDX-License-Identifier: Apache-2.0
#include "engine/open_chunks.h"

#include <algorithm>
#include <utility>

namespace stoker {

OpenChunks::OpenChunks(std::shared_ptr<const ChunkOpener> opener, const EpochPlan& plan,
                       std::vector<std::uint32_t> chunk_of, std::size_t openers, Check check)
    : opener_(std::move(opener)),
      plan_(plan),
      chunk_of_(std::move(chunk_of)),
      check_(std::move(check)) {
  if (openers > 0) pool_ = std::make_unique<ThreadPool>(openers, "stoker/open");
}

void OpenChunks::advance(std::uint64_t position) {
  const std::uint64_t end = entered_ ? plan_.window_start(window_ + 1) : 0;
  if (!entered_ || position >= end) {
    window_ = plan_.window_at(position);
    entered_ = true;
    for (const std::uint32_t interval : plan_.window_intervals(window_)) {
      need(chunk_of_[interval], window_);
    }
    drop_before(window_);
    next_.clear();
    next_started_ = 0;
    if (window_ + 1 < plan_.windows()) next_ = plan_.window_intervals(window_ + 1);
    look_past_next();
  }
  if (pool_ == nullptr || next_.empty()) return;
  const std::uint64_t start = plan_.window_start(window_);
  const std::uint64_t size = plan_.window_start(window_ + 1) - start;
  const double used = static_cast<double>(position - start) / static_cast<double>(size);
  const auto due = static_cast<std::size_t>(used * static_cast<double>(next_.size())) + 1;
  for (; next_started_ < std::min(due, next_.size()); ++next_started_) {
    need(chunk_of_[next_[next_started_]], window_ + 1);
  }
}

// Without shuffle a window is one interval: one chunk ahead would keep one thread busy, and a
// dataset of many small compressed chunks would be opened nearly one by one.
void OpenChunks::look_past_next() {
  if (pool_ == nullptr || next_.size() != 1) return;
  const std::size_t end = std::min(plan_.windows(), window_ + 1 + pool_->size());
  for (std::size_t w = window_ + 2; w < end; ++w) {
    const std::vector<std::uint32_t> intervals = plan_.window_intervals(w);
    if (intervals.size() != 1) return;
    need(chunk_of_[intervals.front()], w);
  }
}

void OpenChunks::need(std::uint32_t chunk, std::size_t window) {
  Entry& entry = entries_[chunk];
  entry.last_window = std::max(entry.last_window, window);
  if (entry.result.valid() || pool_ == nullptr) return;
  entry.result = pool_->submit([this, chunk] { return open(chunk); }).share();
}

void OpenChunks::drop_before(std::size_t window) {
  std::erase_if(entries_, [window](const auto& item) { return item.second.last_window < window; });
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
    opened->view = opener_->open(chunk, Purpose::kWholeChunk);
    if (check_) check_(opened->view, chunk);
  } catch (...) {
    opened->error = std::current_exception();
  }
  counters_.read_ns.fetch_add(steady_ns() - start, std::memory_order_relaxed);
  return opened;
}

std::shared_ptr<const OpenChunk> OpenChunks::get(std::uint32_t interval) {
  const std::uint32_t chunk = chunk_of_[interval];
  Entry& entry = entries_[chunk];
  entry.last_window = std::max(entry.last_window, window_);
  if (!entry.result.valid()) {
    std::promise<Result> made;
    made.set_value(open(chunk));
    entry.result = made.get_future().share();
  }
  return entry.result.get();
}

}  // namespace stoker
