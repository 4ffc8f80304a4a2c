// SPDX-License-Identifier: Apache-2.0
// One zstd frame in, one out.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"

namespace stoker {

constexpr int kZstdDefaultLevel = 4;
constexpr int kZstdMinLevel = 1;
constexpr int kZstdMaxLevel = 22;

/// One frame with its content size in the header. Throws kInvalidArgument for a level
/// outside 1..22.
[[nodiscard]] Bytes zstd_compress(ByteSpan data, int level = kZstdDefaultLevel);

/// The content size stated by the frame header; nothing when `frame` is no zstd frame or does not
/// say.
[[nodiscard]] std::optional<std::uint64_t> zstd_content_size(ByteSpan frame) noexcept;

/// Decompresses one or more concatenated frames into `out`, which must be exactly the content size.
/// Throws kCorrupt when the data is damaged or the size differs.
void zstd_decompress_into(ByteSpan frame, MutableByteSpan out);

/// Decompresses to a new buffer of `expected_size` bytes (from the index, so that a hostile frame
/// header cannot make us allocate). Throws kCorrupt as above.
[[nodiscard]] Bytes zstd_decompress(ByteSpan frame, std::uint64_t expected_size);

}  // namespace stoker
