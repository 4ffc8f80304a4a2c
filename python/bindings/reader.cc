// SPDX-License-Identifier: Apache-2.0
// Datasets as Python reads them: SampleReader (PyTreeLoader) and TokenReader (TokensLoader).
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "convert.h"
#include "io/mapped_file.h"
#include "register.h"
#include "sample_decoder.h"
#include "sample_reader.h"
#include "token_reader.h"

namespace stoker::bindings {
namespace {

constexpr std::size_t kBigItem = std::size_t{1} << 16;  // pages are brought in without the GIL

Verify verify_from_name(const std::string& name) {
  if (name == "never") return Verify::kNever;
  if (name == "first") return Verify::kFirst;
  if (name == "always") return Verify::kAlways;
  throw Error(ErrorCode::kInvalidArgument,
              "verify='" + name + "' is unknown; use 'first', 'always' or 'never'");
}

std::shared_ptr<const ChunkTable> make_table(
    std::string directory, std::vector<std::string> filenames, std::vector<std::uint32_t> items,
    std::vector<std::uint64_t> raw_bytes, std::vector<std::uint64_t> file_bytes,
    std::vector<std::uint64_t> checksums, std::vector<std::uint8_t> has_checksum, bool compressed) {
  auto table = std::make_shared<ChunkTable>();
  table->directory = std::move(directory);
  table->filenames = std::move(filenames);
  table->items = std::move(items);
  table->raw_bytes = std::move(raw_bytes);
  table->file_bytes = std::move(file_bytes);
  table->checksums = std::move(checksums);
  table->has_checksum = std::move(has_checksum);
  table->compressed = compressed;
  table->check();
  return table;
}

/// Samples of a PyTree dataset. All methods REQUIRE the GIL.
class SampleReader {
 public:
  SampleReader(std::shared_ptr<const ChunkTable> table, const std::string& verify,
               nb::object decoder)
      : items_(std::move(table), verify_from_name(verify)),
        decoder_object_(std::move(decoder)),
        decoder_(nb::cast<const SampleDecoder&>(decoder_object_)) {}

  [[nodiscard]] std::uint64_t size() const noexcept { return items_.size(); }

  [[nodiscard]] nb::object get(std::int64_t index, bool whole) {
    const std::uint64_t sample = normalize_index(index, size());
    ItemAddress address;
    try {
      const Bytes item = fetch(sample, whole, &address);
      return decoder_.decode(item.span());
    } catch (const Error& error) {
      rethrow_with_sample(error, sample, items_.table().path(address.chunk));
    } catch (nb::python_error& error) {
      error.value().attr("add_note")("in sample " + std::to_string(sample) + " of " +
                                     items_.table().path(address.chunk));
      throw;
    }
  }

  [[nodiscard]] nb::bytes item(std::int64_t index, bool whole) {
    ItemAddress address;
    return to_python_bytes(fetch(normalize_index(index, size()), whole, &address).span());
  }

  [[nodiscard]] nb::bytes file(std::size_t chunk, bool whole) {
    if (chunk >= items_.table().size()) throw Error(ErrorCode::kOutOfRange, "no such chunk");
    const Bytes bytes = items_.read_file(chunk, whole ? Purpose::kWholeChunk : Purpose::kLoneItem);
    return to_python_bytes(bytes.span());
  }

  void close() { items_.close(); }

 private:
  [[nodiscard]] Bytes fetch(std::uint64_t sample, bool whole, ItemAddress* address) {
    Bytes item = items_.item(sample, whole ? Purpose::kWholeChunk : Purpose::kLoneItem, address);
    if (item.size() >= kBigItem && !items_.table().compressed) {
      const std::string path = items_.table().path(address->chunk);
      const nb::gil_scoped_release release;  // waits for the disk; no Python object is touched
      populate(item.span(), path);
    }
    return item;
  }

  SharedItemReader items_;
  nb::object decoder_object_;  // keeps decoder_ alive
  const SampleDecoder& decoder_;
};

void register_sample_reader(nb::module_& m) {
  nb::class_<SampleReader>(m, "SampleReader", "Random access to the samples of a dataset.")
      .def(
          "__init__",
          [](SampleReader* self, std::shared_ptr<ChunkTable> table, const std::string& verify,
             nb::object decoder) {
            new (self) SampleReader(std::move(table), verify, std::move(decoder));
          },
          nb::arg("table"), nb::arg("verify"), nb::arg("decoder"),
          nb::sig("def __init__(self, table: ChunkTable, verify: str, decoder: SampleDecoder) -> "
                  "None"))
      .def_prop_ro("size", &SampleReader::size)
      .def("get", &SampleReader::get, nb::arg("index"), nb::arg("whole") = false,
           "Sample `index` (negative from the end). whole: the chunk is being read as a whole, so "
           "its checksum is due.")
      .def("item", &SampleReader::item, nb::arg("index"), nb::arg("whole") = false,
           "The stored bytes of one item.")
      .def("file", &SampleReader::file, nb::arg("chunk"), nb::arg("whole") = false,
           "The bytes of one chunk file, decompressed when it is compressed.")
      .def("close", &SampleReader::close, "Close all chunks; they open again when needed.");
}

void register_token_reader(nb::module_& m) {
  nb::class_<TokenReader>(m, "TokenReader", "Fixed windows over the token run of each chunk.")
      .def(
          "__init__",
          [](TokenReader* self, std::shared_ptr<ChunkTable> table, const std::string& verify,
             std::vector<std::uint64_t> tokens, std::uint64_t block_size, nb::object type,
             bool as_tensor, nb::object wide) {
            new (self) TokenReader(
                std::move(table), verify_from_name(verify), std::move(tokens), block_size,
                element_type(type), as_tensor,
                wide.is_none() ? std::nullopt : std::optional<ElementType>(element_type(wide)));
          },
          nb::arg("table"), nb::arg("verify"), nb::arg("tokens"), nb::arg("block_size"),
          nb::arg("type"), nb::arg("as_tensor"), nb::arg("wide").none(),
          "wide: the int64 that tokens are widened to, or None.")
      .def_prop_ro("size", &TokenReader::size)
      .def("get", &TokenReader::get, nb::arg("index"), nb::arg("whole") = false)
      .def("close", &TokenReader::close, "Close all chunks; they open again when needed.");
}

}  // namespace

void register_reader(nb::module_& m) {
  nb::class_<ChunkTable>(m, "ChunkTable", "What the index says about every chunk.")
      .def_prop_ro("size", &ChunkTable::size);
  m.def("make_table", &make_table, nb::arg("directory"), nb::arg("filenames"), nb::arg("items"),
        nb::arg("raw_bytes"), nb::arg("file_bytes"), nb::arg("checksums"), nb::arg("has_checksum"),
        nb::arg("compressed"));
  nb::class_<ChunkOpener>(m, "ChunkOpener",
                          "Opens the chunks of a table and remembers which were verified.")
      .def(
          "__init__",
          [](ChunkOpener* self, std::shared_ptr<ChunkTable> table, const std::string& verify) {
            new (self) ChunkOpener(std::move(table), verify_from_name(verify));
          },
          nb::arg("table"), nb::arg("verify"));
  register_sample_reader(m);
  register_token_reader(m);
}

}  // namespace stoker::bindings
