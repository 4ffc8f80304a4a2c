// SPDX-License-Identifier: Apache-2.0
#include "reader/chunk_table.h"

#include <utility>

#include "base/error.h"

namespace stoker {

std::string ChunkTable::path(std::size_t chunk) const { return directory + "/" + filenames[chunk]; }

void ChunkTable::check() const {
  const std::pair<const char*, std::size_t> columns[] = {
      {"items", items.size()},
      {"raw_bytes", raw_bytes.size()},
      {"file_bytes", file_bytes.size()},
      {"checksums", checksums.size()},
      {"has_checksum", has_checksum.size()},
  };
  for (const auto& [name, length] : columns) {
    if (length == filenames.size()) continue;
    throw Error(ErrorCode::kInvalidArgument,
                "the chunk table has " + std::to_string(filenames.size()) + " filenames, but " +
                    std::to_string(length) + " values of " + name);
  }
}

}  // namespace stoker
