// SPDX-License-Identifier: Apache-2.0
#include "token_reader.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/error.h"
#include "engine/widen.h"

namespace stoker::bindings {

TokenReader::TokenReader(std::shared_ptr<const ChunkTable> table, Verify verify,
                         std::vector<std::uint64_t> tokens, std::uint64_t block_size,
                         ElementType type, bool as_tensor, std::optional<ElementType> wide)
    : items_(std::move(table), verify),
      tokens_(std::move(tokens)),
      checked_(tokens_.size(), 0),
      type_(std::move(type)),
      wide_(std::move(wide)),
      as_tensor_(as_tensor),
      block_size_(block_size),
      blocks_(block_size, type_.itemsize) {
  if (tokens_.size() != items_.table().size()) {
    throw Error(ErrorCode::kInvalidArgument, "token counts and chunks differ in number");
  }
  std::uint64_t total = 0;
  for (const std::uint64_t count : tokens_) ends_.push_back(total += blocks_.blocks_in(count));
}

nb::object TokenReader::get(std::int64_t index, bool whole) {
  const std::uint64_t block = normalize_index(index, size());
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), block);
  const auto k = static_cast<std::size_t>(end - ends_.begin());
  const std::uint64_t start = k == 0 ? 0 : ends_[k - 1];
  const ChunkView view = items_.chunk(k, whole ? Purpose::kWholeChunk : Purpose::kLoneItem);
  if (checked_[k] == 0) {
    blocks_.check(view, tokens_[k], items_.table().path(k));
    checked_[k] = 1;
  }
  const std::array<std::int64_t, 1> shape{static_cast<std::int64_t>(block_size_)};
  const ByteSpan tokens = blocks_.block(view, block - start);
  if (wide_) {
    std::uint8_t* to = nullptr;
    nb::object array = new_array(*wide_, shape, &to);
    const bool is_signed = nb::cast<std::string>(type_.carrier.attr("kind")) == "i";
    widen_to_int64(tokens.data(), type_.itemsize, is_signed, block_size_, to, /*streaming=*/false);
    return as_tensor_ ? to_tensor(std::move(array), *wide_) : array;
  }
  nb::object array = array_from_bytes(type_, shape, tokens);
  return as_tensor_ ? to_tensor(std::move(array), type_) : array;
}

}  // namespace stoker::bindings
