// SPDX-License-Identifier: Apache-2.0
#include "format/chunk_view.h"

#include <string_view>
#include <utility>

#include "base/error.h"

namespace stoker {
namespace {

constexpr std::string_view kWhatToDo =
    "The file was cut or altered: restore it from its source, or write the dataset again";

[[noreturn]] void throw_corrupt(const std::string& problem, const std::string& path,
                                std::uint64_t offset) {
  throw Error(ErrorCode::kCorrupt, problem + ". " + std::string(kWhatToDo), {path, offset});
}

std::string counts(std::string_view what, std::uint64_t expected, std::uint64_t found) {
  return "expected " + std::to_string(expected) + " " + std::string(what) + ", found " +
         std::to_string(found);
}

}  // namespace

ChunkView ChunkView::open_lazy(Bytes file, std::uint64_t expected_items, const std::string& path) {
  const std::uint64_t header = chunk_header_size(expected_items);
  if (file.size() < 4) throw_corrupt(counts("bytes or more", header, file.size()), path, 0);
  const std::uint32_t items = load_u32(file.data());
  if (items != expected_items) {
    throw_corrupt(counts("items (index.json)", expected_items, items) + " in the header", path, 0);
  }
  if (file.size() < header) {
    throw_corrupt(counts("bytes or more", header, file.size()), path, file.size());
  }
  const std::uint32_t first = load_u32(file.data() + 4);
  if (first != header) throw_corrupt("first item: " + counts("as offset", header, first), path, 4);
  const std::uint32_t last = load_u32(file.data() + 4 + std::size_t{4} * items);
  if (last != file.size()) {
    throw_corrupt("end of the last item: " + counts("as offset", file.size(), last), path,
                  header - 4);
  }
  ChunkView view;
  view.file_ = std::move(file);
  view.items_ = items;
  view.path_ = path;
  return view;
}

ChunkView ChunkView::open(Bytes file, std::uint64_t expected_items, const std::string& path) {
  ChunkView view = open_lazy(std::move(file), expected_items, path);
  const std::uint8_t* offsets = view.file_.data() + 4;
  std::uint32_t descents = 0;  // no early exit and no bool: compilers vectorise this
  for (std::size_t i = 0; i < view.items_; ++i) {
    descents |=
        static_cast<std::uint32_t>(load_u32(offsets + 4 * i) > load_u32(offsets + 4 * i + 4));
  }
  // With the ends right and no descent every item is inside. Otherwise name the first bad one.
  for (std::uint32_t i = 0; descents != 0 && i < view.items_; ++i) {
    static_cast<void>(view.item_span(i));
  }
  return view;
}

void ChunkView::throw_bad_offsets(std::uint32_t i) const {
  if (i >= items_) {
    throw Error(ErrorCode::kOutOfRange,
                "item " + std::to_string(i) + " of " + std::to_string(items_), {path_, {}});
  }
  const std::size_t at = 4 + std::size_t{4} * i;
  throw_corrupt("item " + std::to_string(i) + " lies at [" +
                    std::to_string(load_u32(file_.data() + at)) + ", " +
                    std::to_string(load_u32(file_.data() + at + 4)) + ") of " +
                    std::to_string(file_.size()) + " bytes",
                path_, at);
}

ByteSpan ChunkView::payload() const noexcept {
  return file_.span().subspan(file_.empty() ? 0 : chunk_header_size(items_));
}

std::string foreign_layout(ByteSpan file) {
  constexpr std::string_view kFramed("LDFZ01\0\0", 8);
  constexpr std::string_view kArrow("LDARW01\0", 8);
  const auto text = std::string_view(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with(kFramed)) return "framed zstd";
  if (text.ends_with(kArrow)) return "Arrow-footer";
  return "";
}

}  // namespace stoker
