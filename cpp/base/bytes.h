// SPDX-License-Identifier: Apache-2.0
// Ref-counted, immutable bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace stoker {

using ByteSpan = std::span<const std::uint8_t>;
using MutableByteSpan = std::span<std::uint8_t>;

/// A view of bytes together with whatever keeps them alive (a mapping, a buffer, another Bytes).
/// Copies share the owner and are cheap (one atomic increment). The bytes never change, so a Bytes
/// may be read from any thread. Destroying the last copy releases the owner on that thread.
class Bytes {
 public:
  Bytes() = default;
  Bytes(ByteSpan view, std::shared_ptr<const void> owner) noexcept
      : view_(view), owner_(std::move(owner)) {}

  /// A private copy of `view`.
  [[nodiscard]] static Bytes copy_of(ByteSpan view);

  /// Bytes [offset, offset + length), sharing the owner. Throws kOutOfRange when they are not all
  /// inside.
  [[nodiscard]] Bytes slice(std::size_t offset, std::size_t length) const;

  [[nodiscard]] const std::uint8_t* data() const noexcept { return view_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return view_.size(); }
  [[nodiscard]] bool empty() const noexcept { return view_.empty(); }
  [[nodiscard]] ByteSpan span() const noexcept { return view_; }
  [[nodiscard]] const std::shared_ptr<const void>& owner() const noexcept { return owner_; }

 private:
  ByteSpan view_;
  std::shared_ptr<const void> owner_;
};

/// Well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
[[nodiscard]] bool is_utf8(ByteSpan text) noexcept;

[[nodiscard]] inline ByteSpan as_bytes(std::string_view text) noexcept {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace stoker
