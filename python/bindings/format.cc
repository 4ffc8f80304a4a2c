// SPDX-License-Identifier: Apache-2.0
// ChunkBuilder: items in, chunk files out.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "codec/checksum.h"
#include "codec/zstd.h"
#include "convert.h"
#include "format/chunk_builder.h"
#include "format/chunk_view.h"
#include "format/item_layout.h"
#include "io/file.h"
#include "register.h"

namespace stoker::bindings {
namespace {

/// The buffers of one item, held while it is appended.
struct ItemParts {
  ItemParts(nb::list leaves, bool with_sizes) {
    buffers.reserve(leaves.size());
    spans.reserve(leaves.size() + 1);
    if (with_sizes) spans.emplace_back();
    for (nb::handle leaf : leaves) spans.push_back(buffers.emplace_back(leaf).span());
    if (with_sizes) {
      sizes.resize(4 * buffers.size());
      write_leaf_sizes(std::span<const ByteSpan>(spans).subspan(1), sizes.data());
      spans[0] = sizes;
    }
    for (const ByteSpan& span : spans) total += span.size();
  }

  std::vector<InputBuffer> buffers;
  std::vector<std::uint8_t> sizes;
  std::vector<ByteSpan> spans;
  std::uint64_t total = 0;
};

// (raw bytes, file bytes, xxh3_64 of the file)
using Written = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;

// The chunk appears under its final name whole or not at all; an existing file is never replaced.
Written publish_parts(const std::string& path, ByteSpan head, ByteSpan body, std::uint64_t raw,
                      bool sync) {
  const std::string tmp = path + ".tmp-" + std::to_string(::getpid());
  try {
    File file = File::create(tmp);
    file.append({head, body});
    if (sync) file.sync();
    publish(tmp, path, Overwrite::kRefuse);
  } catch (...) {
    remove_file(tmp);
    throw;
  }
  return {raw, head.size() + body.size(), xxh3_64(head, body)};
}

Written write_chunk(const ChunkBuilder& builder, const std::string& path,
                    std::optional<int> zstd_level, bool sync) {
  const std::vector<std::uint8_t> header = builder.header();
  const std::uint64_t raw = header.size() + builder.body().size();
  if (!zstd_level) return publish_parts(path, header, builder.body(), raw, sync);
  std::vector<std::uint8_t> whole(header);
  whole.insert(whole.end(), builder.body().begin(), builder.body().end());
  const Bytes frame = zstd_compress(whole, *zstd_level);
  return publish_parts(path, frame.span(), {}, raw, sync);
}

}  // namespace

void register_format(nb::module_& m) {
  nb::class_<ChunkBuilder>(m, "ChunkBuilder", "Collects items and writes them as one chunk file.")
      .def(
          "__init__",
          [](ChunkBuilder* self, std::optional<std::uint64_t> max_bytes,
             std::optional<std::uint64_t> max_weight) {
            new (self) ChunkBuilder(ChunkLimits{.max_bytes = max_bytes, .max_weight = max_weight});
          },
          nb::arg("max_bytes").none(), nb::arg("max_weight").none())
      .def(
          "append",
          [](ChunkBuilder& self, nb::list leaves, std::uint64_t weight, bool with_sizes) {
            const ItemParts parts(leaves, with_sizes);
            if (self.must_close_before(parts.total, weight)) return false;
            self.append(parts.spans, weight);
            return true;
          },
          nb::arg("leaves"), nb::arg("weight"), nb::arg("with_sizes"),
          nb::sig("def append(self, leaves: list[bytes], weight: int, with_sizes: bool) -> bool"),
          "Append one item (leaf buffers in flatten order). False, and nothing happens, when the "
          "chunk must be written first.")
      .def_prop_ro("items", &ChunkBuilder::items)
      .def_prop_ro("weight", &ChunkBuilder::weight)
      .def_prop_ro("body_bytes", &ChunkBuilder::body_bytes)
      .def(
          "write",
          [](ChunkBuilder& self, const std::string& path, std::optional<int> zstd_level,
             bool sync) {
            nb::gil_scoped_release release;  // only the builder's own memory is touched
            const Written written = write_chunk(self, path, zstd_level, sync);
            self.reset();
            return written;
          },
          nb::arg("path"), nb::arg("zstd_level").none(), nb::arg("sync"),
          "Write and publish the chunk, then start an empty one. Returns (raw bytes, file bytes, "
          "xxh3_64 of the file). An existing file is never replaced.");
  nb::class_<ChunkView>(m, "ChunkView", "An uncompressed chunk held in memory.")
      .def(
          "__init__",
          [](ChunkView* self, nb::handle data, std::uint64_t items, const std::string& path) {
            const InputBuffer buffer(data);
            new (self) ChunkView(ChunkView::open(Bytes::copy_of(buffer.span()), items, path));
          },
          nb::arg("data"), nb::arg("items"), nb::arg("path"))
      .def(
          "item",
          [](const ChunkView& self, std::uint32_t i) { return to_python_bytes(self.item_span(i)); },
          nb::arg("i"), "The bytes of item i.");
  m.attr("MAX_CHUNK_FILE_BYTES") = kMaxChunkFileBytes;
}

}  // namespace stoker::bindings
