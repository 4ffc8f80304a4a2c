// SPDX-License-Identifier: Apache-2.0
// Read-only memory mappings as Bytes.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"

namespace stoker {

enum class AccessHint : std::uint8_t { kNormal, kRandom, kSequential };

/// Maps the whole file; the mapping lives as long as any Bytes of it. The descriptor is closed at
/// once, so a mapping costs no descriptor. Unlinking or replacing the file later is safe (POSIX);
/// truncating it while mapped is not, and dataset files are never truncated by stoker. An empty
/// file gives empty Bytes. Throws as File::open does.
[[nodiscard]] Bytes map_file(const std::string& path, AccessHint hint = AccessHint::kNormal);

/// Tells the kernel how [bytes] will be read. Advice only: errors are ignored. `bytes` must lie in
/// a mapping.
void advise(ByteSpan bytes, AccessHint hint) noexcept;

/// Brings the pages in, waiting for the disk; throws kIo instead of a SIGBUS when the file cannot
/// be read (MADV_POPULATE_READ; on kernels before 5.14 this only starts read-ahead).
void populate(ByteSpan bytes, const std::string& path);

}  // namespace stoker
