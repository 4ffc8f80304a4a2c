// SPDX-License-Identifier: Apache-2.0
#include "reader/chunk_opener.h"

#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "codec/checksum.h"
#include "codec/zstd.h"
#include "io/mapped_file.h"

namespace stoker {
namespace {

constexpr const char* kWhatToDo =
    ". The file was cut or altered: restore it from its source, or write the dataset again";

std::string hex(std::uint64_t value) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

[[noreturn]] void throw_size(std::uint64_t expected, std::uint64_t found, const std::string& path) {
  throw Error(ErrorCode::kCorrupt,
              "expected a file of " + std::to_string(expected) + " bytes (index.json), found " +
                  std::to_string(found) + kWhatToDo,
              {path, std::nullopt});
}

// Asked only after a file was found unreadable: the bytes of a good chunk may look like anything.
void throw_if_foreign(ByteSpan file, const std::string& path) {
  const std::string layout = foreign_layout(file);
  if (layout.empty()) return;
  throw Error(ErrorCode::kUnsupported,
              "the chunk has the " + layout +
                  " layout; this version reads the classic one: write the dataset again, with "
                  "stoker or in litdata's classic layout",
              {path, std::nullopt});
}

Bytes decompress(ByteSpan file, std::uint64_t raw_bytes, const std::string& path) {
  try {
    return zstd_decompress(file, raw_bytes);
  } catch (const Error& error) {
    throw_if_foreign(file, path);
    throw Error(error.code(), error.message() + kWhatToDo, {path, std::nullopt});
  }
}

}  // namespace

ChunkOpener::ChunkOpener(std::shared_ptr<const ChunkTable> table, Verify verify)
    : table_(std::move(table)),
      verify_(verify),
      verified_(std::make_shared<VerifyMap>(table_->size())) {
  table_->check();
}

ChunkView ChunkOpener::open(std::size_t chunk, Purpose purpose) const {
  const Bytes bytes = read_file(chunk, purpose);
  const std::string path = table_->path(chunk);
  const std::uint32_t items = table_->items[chunk];
  try {
    return purpose == Purpose::kLoneItem ? ChunkView::open_lazy(bytes, items, path)
                                         : ChunkView::open(bytes, items, path);
  } catch (const Error&) {
    throw_if_foreign(bytes.span(), path);
    throw;
  }
}

Bytes ChunkOpener::read_file(std::size_t chunk, Purpose purpose) const {
  const std::string path = table_->path(chunk);
  const bool whole = purpose == Purpose::kWholeChunk || table_->compressed;
  // Not kSequential: the items of a shuffled chunk come in any order, and the kernel would drop
  // its pages first although the next epoch wants them.
  Bytes file = map_chunk(path, whole ? AccessHint::kNormal : AccessHint::kRandom);
  check_size(chunk, file.size());
  if (whole || verify_ == Verify::kAlways) check_sum(chunk, file.span());
  if (!table_->compressed) return file;
  return decompress(file.span(), table_->raw_bytes[chunk], path);
}

void ChunkOpener::verify_whole(std::size_t chunk, const ChunkView& view) const {
  if (!table_->compressed) {
    advise(view.file().span(), AccessHint::kNormal);  // it was mapped for random access
    // With kAlways the sum was checked when the chunk was opened.
    if (verify_ == Verify::kFirst) check_sum(chunk, view.file().span());
  }
  static_cast<void>(ChunkView::open(view.file(), table_->items[chunk], table_->path(chunk)));
}

Bytes ChunkOpener::map_chunk(const std::string& path, AccessHint hint) const {
  try {
    return map_file(path, hint);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    throw Error(ErrorCode::kNotFound,
                "the index lists this chunk, but it is not in the dataset directory " +
                    table_->directory + ": restore it from its source, or write the dataset again",
                {path, std::nullopt});
  }
}

void ChunkOpener::check_size(std::size_t chunk, std::uint64_t found) const {
  const std::uint64_t raw = table_->raw_bytes[chunk];
  const std::uint64_t stated = table_->file_bytes[chunk];
  if (!table_->compressed && found != raw) {
    throw_size(raw, found, table_->path(chunk));
  }
  if (stated != 0 && found != stated) throw_size(stated, found, table_->path(chunk));
}

void ChunkOpener::check_sum(std::size_t chunk, ByteSpan file) const {
  if (verify_ == Verify::kNever || table_->has_checksum[chunk] == 0) return;
  if (verify_ == Verify::kFirst && verified_->verified(chunk)) return;
  const std::string path = table_->path(chunk);
  populate(file, path);  // a disk or server that fails is an Error here, not a SIGBUS
  const std::uint64_t expected = table_->checksums[chunk];
  const std::uint64_t found = xxh3_64(file);
  if (found != expected) {
    throw Error(ErrorCode::kCorrupt,
                "the checksum differs: expected xxh3_64 " + hex(expected) +
                    " (index.json), found " + hex(found) + kWhatToDo,
                {path, std::nullopt});
  }
  verified_->mark(chunk);
}

}  // namespace stoker
