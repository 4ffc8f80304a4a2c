// SPDX-License-Identifier: Apache-2.0
#include "engine/chunk_set.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "format/token_block.h"

namespace stoker {

ChunkSet::ChunkSet(std::vector<DatasetPart> parts, const BatchSpec& spec)
    : parts_(std::move(parts)), tokens_(spec.tokens) {
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const DatasetPart& part = parts_[p];
    const std::size_t count = part.opener->table().size();
    if (part.chunk_sizes.size() != count) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the chunk table and the chunk sizes differ in length");
    }
    if (spec.is_tokens() && part.chunk_tokens.size() != count) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the token counts and the chunk sizes differ in length");
    }
    first_.push_back(owner_.size());
    owner_.insert(owner_.end(), count, static_cast<std::uint32_t>(p));
    std::uint64_t total = 0;
    ends_.emplace_back();
    for (const std::uint64_t size : part.chunk_sizes) ends_.back().push_back(total += size);
  }
  if (owner_.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorCode::kInvalidArgument, "datasets of more than 2^32 - 1 chunks");
  }
  set_most_open();
}

void ChunkSet::set_most_open() {
  constexpr std::size_t kMostMapped = 1024;
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
  constexpr std::size_t kWindowsAndNext = 33;  // of one dataset in the default order
  std::uint64_t bytes = 0;
  std::uint64_t compressed = 0;
  for (const DatasetPart& part : parts_) {
    if (!part.opener->table().compressed) continue;
    compressed += part.opener->table().size();
    for (const std::uint64_t size : part.opener->table().raw_bytes) bytes += size;
  }
  most_open_ = kMostMapped;
  if (bytes == 0) return;
  const std::uint64_t affordable = kMostBytes / std::max<std::uint64_t>(bytes / compressed, 1);
  most_open_ = static_cast<std::size_t>(std::clamp<std::uint64_t>(
      affordable, std::min(kWindowsAndNext * parts_.size(), kMostMapped), kMostMapped));
}

ChunkPlace ChunkSet::place_of(std::size_t part, std::uint64_t item) const {
  const std::vector<std::uint64_t>& ends = ends_.at(part);
  const auto end = std::ranges::upper_bound(ends, item);
  if (end == ends.end()) {
    throw Error(ErrorCode::kOutOfRange, "item " + std::to_string(item) + " of a dataset of " +
                                            std::to_string(ends.empty() ? 0 : ends.back()) +
                                            " items");
  }
  const auto chunk = static_cast<std::size_t>(end - ends.begin());
  const std::uint64_t begin = *end - parts_[part].chunk_sizes[chunk];
  return {static_cast<std::uint32_t>(first_[part] + chunk),
          static_cast<std::uint32_t>(item - begin)};
}

ChunkView ChunkSet::open(std::size_t chunk) const {
  const std::size_t owner = owner_[chunk];
  const DatasetPart& part = parts_[owner];
  const std::size_t number = chunk - first_[owner];
  ChunkView view = part.opener->open(number, Purpose::kWholeChunk);
  if (tokens_.block_size != 0) {
    const TokenBlocks blocks(tokens_.block_size, tokens_.token_bytes);
    blocks.check(view, part.chunk_tokens[number], part.opener->table().path(number));
  }
  return view;
}

std::string ChunkSet::path(std::size_t chunk) const {
  const std::size_t owner = owner_[chunk];
  return parts_[owner].opener->table().path(chunk - first_[owner]);
}

}  // namespace stoker
