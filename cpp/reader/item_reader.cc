// SPDX-License-Identifier: Apache-2.0
#include "reader/item_reader.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"

namespace stoker {

ItemReader::ItemReader(std::shared_ptr<const ChunkTable> table, Verify verify,
                       ItemReaderOptions options)
    : opener_(std::move(table), verify), options_(options) {
  const ChunkTable& rows = opener_.table();
  ends_.reserve(rows.size());
  std::uint64_t total = 0;
  for (const std::uint32_t items : rows.items) ends_.push_back(total += items);
  slots_.resize(rows.size());
}

ItemAddress ItemReader::locate(std::uint64_t item) const {
  if (item >= size()) [[unlikely]] {
    throw Error(ErrorCode::kOutOfRange,
                "item " + std::to_string(item) + " of " + std::to_string(size()));
  }
  const auto start_of = [this](std::size_t k) { return k == 0 ? 0 : ends_[k - 1]; };
  std::size_t chunk = last_used_.load(std::memory_order_relaxed);
  if (item < start_of(chunk) || item >= ends_[chunk]) {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), item);
    chunk = static_cast<std::size_t>(end - ends_.begin());
  }
  return {chunk, static_cast<std::uint32_t>(item - start_of(chunk))};
}

const ChunkView& ItemReader::chunk(std::size_t chunk, Purpose purpose) {
  Slot& slot = slots_[chunk];
  const bool whole = purpose == Purpose::kWholeChunk;
  last_used_.store(chunk, std::memory_order_relaxed);
  if (slot.open && (slot.whole || !whole)) [[likely]]
    return slot.view;
  if (slot.open) {
    opener_.verify_whole(chunk, slot.view);
    slot.whole = true;
    return slot.view;
  }
  ChunkView view = opener_.open(chunk, purpose);
  make_room(buffer_bytes_of(chunk));
  opened_.push_back(chunk);
  buffer_bytes_ += buffer_bytes_of(chunk);
  slot = Slot{std::move(view), /*open=*/true, whole};
  return slot.view;
}

std::uint64_t ItemReader::buffer_bytes_of(std::size_t chunk) const noexcept {
  const ChunkTable& rows = opener_.table();
  return rows.compressed ? rows.raw_bytes[chunk] : 0;
}

bool ItemReader::is_ready(std::size_t chunk, Purpose purpose) const noexcept {
  const Slot& slot = slots_[chunk];
  return slot.open && (slot.whole || purpose == Purpose::kLoneItem);
}

void ItemReader::make_room(std::uint64_t incoming_bytes) {
  while (!opened_.empty() &&
         (opened_.size() >= options_.max_open_chunks ||
          (incoming_bytes > 0 && buffer_bytes_ + incoming_bytes > options_.max_buffer_bytes))) {
    const std::size_t oldest = opened_.front();
    opened_.pop_front();
    buffer_bytes_ -= buffer_bytes_of(oldest);
    slots_[oldest] = Slot{};
  }
}

void ItemReader::close() noexcept {
  for (const std::size_t chunk : opened_) slots_[chunk] = Slot{};
  opened_.clear();
  buffer_bytes_ = 0;
}

}  // namespace stoker
