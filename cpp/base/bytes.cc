// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <cstring>
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

bool is_utf8(ByteSpan text) noexcept {
  constexpr std::uint64_t kHighBits = 0x8080808080808080ULL;
  const std::uint8_t* at = text.data();
  const std::uint8_t* const end = at + text.size();
  while (at < end) {
    if (end - at >= 8) {  // eight ASCII characters at once
      std::uint64_t word = 0;
      std::memcpy(&word, at, sizeof(word));
      if ((word & kHighBits) == 0) {
        at += sizeof(word);
        continue;
      }
    }
    const std::uint8_t lead = *at++;
    if (lead < 0x80) continue;
    const std::ptrdiff_t more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    if (lead < 0xC2 || lead > 0xF4 || end - at < more) return false;
    const std::uint8_t second = *at;
    // The second byte rules out overlong forms, surrogates and what lies above U+10FFFF.
    const std::uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const std::uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (second < low || second > high) return false;
    for (std::ptrdiff_t i = 1; i < more; ++i) {
      if ((at[i] & 0xC0) != 0x80) return false;
    }
    at += more;
  }
  return true;
}

}  // namespace stoker
