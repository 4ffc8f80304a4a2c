// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <string>
#include <vector>

#include "base/error.h"

namespace stoker {

Bytes Bytes::copy_of(ByteSpan view) {
  auto owner = std::make_shared<const std::vector<std::uint8_t>>(view.begin(), view.end());
  const ByteSpan copy(*owner);
  return {copy, std::move(owner)};
}

Bytes Bytes::slice(std::size_t offset, std::size_t length) const {
  if (offset > size() || length > size() - offset) {
    throw Error(ErrorCode::kOutOfRange, "slice of " + std::to_string(length) + " bytes at " +
                                            std::to_string(offset) + " of " +
                                            std::to_string(size()) + " bytes");
  }
  return {view_.subspan(offset, length), owner_};
}

}  // namespace stoker
