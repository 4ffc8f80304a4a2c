// SPDX-License-Identifier: Apache-2.0
// The batch loader: spec from Python, batches to Python.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.h"
#include "base/error.h"
#include "concurrency/fork_guard.h"
#include "convert.h"
#include "engine/batch_ring.h"
#include "engine/loader.h"
#include "order.h"
#include "register.h"
#include "vision.h"

namespace stoker::bindings {
namespace {

constexpr std::chrono::milliseconds kSlice{100};  // between looks for Ctrl-C

ColumnKind kind_of(const std::string& name) {
  if (name == "fixed") return ColumnKind::kFixed;
  if (name == "shaped") return ColumnKind::kShaped;
  if (name == "image") return ColumnKind::kImage;
  if (name == "text" || name == "bytes") return ColumnKind::kObject;
  throw Error(ErrorCode::kInvalidArgument, "unknown kind of column '" + name + "'");
}

/// A batch spec with what Python needs to wrap its columns.
class SpecHandle {
 public:
  explicit SpecHandle(std::uint32_t batch_rows) { spec_->batch_rows = batch_rows; }

  void add_column(const std::string& kind, std::string path, std::string format,
                  std::size_t row_bytes, nb::bytes header) {
    Column column;
    column.kind = kind_of(kind);
    column.is_text = kind == "text";
    column.path = std::move(path);
    column.format = std::move(format);
    column.row_bytes = row_bytes;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(header.c_str());
    column.header.assign(bytes, bytes + header.size());
    spec_->columns.push_back(std::move(column));
  }
  void add_image(std::string path, std::string format, const StepsHandle& steps,
                 std::uint32_t width, std::uint32_t height) {
    Column column;
    column.kind = ColumnKind::kImage;
    column.path = std::move(path);
    column.format = std::move(format);
    column.row_bytes = steps.steps->format.image_bytes(width, height);
    column.steps = steps.steps;
    column.size = {width, height};
    spec_->columns.push_back(std::move(column));
  }
  void set_tokens(std::uint64_t block_size, std::uint64_t token_bytes, bool is_signed,
                  bool to_int64) {
    spec_->tokens = {block_size, token_bytes, is_signed, to_int64};
  }
  void lay_out() { spec_->lay_out(); }

  [[nodiscard]] const BatchSpec& spec() const noexcept { return *spec_; }
  [[nodiscard]] std::shared_ptr<const BatchSpec> share() const { return spec_; }

 private:
  std::shared_ptr<BatchSpec> spec_ = std::make_shared<BatchSpec>();
};

/// How the rows of a column become a tensor.
struct View {
  ElementType type;
  std::vector<std::int64_t> shape;  // of one row, as it lies in memory
  std::size_t column = 0;
};

/// Writable memory of a Python buffer; its owner may be dropped on any thread.
Slab slab_from_python(nb::handle object) {
  auto* view = new Py_buffer();
  if (PyObject_GetBuffer(object.ptr(), view, PyBUF_WRITABLE) != 0) {
    delete view;
    throw nb::python_error();
  }
  const MutableByteSpan memory{static_cast<std::uint8_t*>(view->buf),
                               static_cast<std::size_t>(view->len)};
  return {memory, std::shared_ptr<Py_buffer>(view, [](Py_buffer* held) {
            const nb::gil_scoped_acquire gil;
            PyBuffer_Release(held);
            delete held;
          })};
}

using Sizes = std::vector<std::uint64_t>;

class BatchLoader {
 public:
  BatchLoader(const LoaderInput& input, const LoaderOptions& options)
      : spec_(input.spec), loader_(std::make_unique<Loader>(input, options)) {}
  BatchLoader(const ToldInput& input, const LoaderOptions& options)
      : spec_(input.spec), loader_(std::make_unique<Loader>(input, options)) {}

  ~BatchLoader() {
    if (guard_.forked()) {
      static_cast<void>(loader_.release());  // its threads stayed in the parent
      return;
    }
    const nb::gil_scoped_release release;  // joins threads; no Python object is touched
    loader_.reset();
  }
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  [[nodiscard]] bool forked() const noexcept { return guard_.forked(); }

  void set_views(nb::sequence views) {
    views_.clear();
    for (nb::handle row : views) {
      View view;
      view.column = nb::cast<std::size_t>(row[0]);
      if (!row[1].is_none()) {
        view.type = element_type(row[1]);
        view.shape = nb::cast<std::vector<std::int64_t>>(row[2]);
      }
      views_.push_back(std::move(view));
    }
  }

  void offer(nb::handle memory) {
    Slab slab = slab_from_python(memory);
    const nb::gil_scoped_release release;  // may wait for a lock; no Python object is touched
    loader_->offer(std::move(slab));
  }

  void tell(const Sizes& parts, const Sizes& epochs, const Sizes& positions, const Sizes& items) {
    const std::size_t count = parts.size();
    if (epochs.size() != count || positions.size() != count || items.size() != count) {
      throw Error(ErrorCode::kInvalidArgument, "the columns of told rows differ in length");
    }
    std::vector<ToldRow> rows;
    rows.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      rows.push_back({static_cast<std::uint32_t>(parts[i]), epochs[i], positions[i], items[i]});
    }
    loader_->tell(std::move(rows));
  }

  void finish() { loader_->finish(); }

  /// (position, rows, skipped, columns, slab memory or None), or None at the end.
  [[nodiscard]] nb::object next(bool wrap) {
    Batch batch;
    for (;;) {
      Loader::Next found{};
      {
        const nb::gil_scoped_release release;  // waits; no Python object is touched
        found = loader_->next(kSlice, &batch);
      }
      if (found == Loader::Next::kEnd) return nb::none();
      if (found == Loader::Next::kBatch) break;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    nb::list columns;
    if (wrap) {
      for (const View& view : views_) columns.append(wrap_column(batch, view));
    } else {
      for (const View& view : views_) {
        columns.append(view.type.carrier.is_valid() ? nb::none() : objects_of(batch, view.column));
      }
    }
    return nb::make_tuple(batch.position, batch.rows, batch.skipped, columns);
  }

  void close() {
    if (guard_.forked()) return;
    const nb::gil_scoped_release release;  // joins threads; no Python object is touched
    loader_->close();
  }

  [[nodiscard]] nb::dict stats() const {
    const LoaderStats s = loader_->stats();
    nb::dict out;
    out["wait_data_ns"] = s.wait_data_ns;
    out["read_ns"] = s.read_ns;
    out["decode_ns"] = s.decode_ns;
    out["resample_ns"] = s.resample_ns;
    out["store_ns"] = s.store_ns;
    out["wait_consumer_ns"] = s.wait_consumer_ns;
    out["consumer_wait_ns"] = s.consumer_wait_ns;
    out["bytes_read"] = s.bytes_read;
    out["samples"] = s.samples;
    out["skipped"] = s.skipped;
    out["batches"] = s.batches;
    out["queued"] = loader_->queued();
    return out;
  }

 private:
  [[nodiscard]] nb::object wrap_column(const Batch& batch, const View& view) const {
    if (!view.type.carrier.is_valid()) return objects_of(batch, view.column);
    std::vector<std::int64_t> shape{batch.rows};
    shape.insert(shape.end(), view.shape.begin(), view.shape.end());
    const std::size_t offset = spec_->is_tokens() ? 0 : spec_->columns[view.column].offset;
    nb::object array =
        array_over(view.type, shape, batch.slab.memory.data() + offset, batch.slab.owner);
    return to_tensor(std::move(array), view.type);
  }

  /// A list of str or bytes, one per row.
  [[nodiscard]] nb::object objects_of(const Batch& batch, std::size_t column) const {
    std::size_t place = 0;
    for (std::size_t c = 0; c < column; ++c) {
      place += spec_->columns[c].kind == ColumnKind::kObject ? 1 : 0;
    }
    const std::vector<ByteSpan>& spans = batch.objects[place];
    const bool is_text = spec_->columns[column].is_text;
    nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(spans.size())));
    if (!list.is_valid()) throw nb::python_error();
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const auto* text = reinterpret_cast<const char*>(spans[i].data());
      const auto size = static_cast<Py_ssize_t>(spans[i].size());
      PyObject* value = is_text ? PyUnicode_DecodeUTF8(text, size, nullptr)
                                : PyBytes_FromStringAndSize(text, size);
      if (value == nullptr) throw nb::python_error();
      PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), value);
    }
    return list;
  }

  std::shared_ptr<const BatchSpec> spec_;
  std::vector<View> views_;
  ForkGuard guard_;
  std::unique_ptr<Loader> loader_;
};

using Slices = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, std::uint32_t, bool>;
/// (opener, seed of transforms, chunk sizes, chunk tokens)
using Part = std::tuple<std::shared_ptr<ChunkOpener>, std::uint64_t, Sizes, Sizes>;

DatasetPart part_of(Part&& part) {
  auto& [opener, seed, sizes, tokens] = part;
  return {std::move(opener), seed, std::move(sizes), std::move(tokens)};
}

void make_loader(BatchLoader* self, Part dataset, std::shared_ptr<IntervalSet> intervals,
                 const Order& order, const Slices& slices, const SpecHandle& spec, SlabPool& pool,
                 std::size_t threads, std::size_t depth, bool skip_corrupt, bool offered_slabs) {
  LoaderInput input;
  const std::uint64_t total = intervals->size();
  input.dataset = part_of(std::move(dataset));
  input.intervals = std::move(intervals);
  input.plan = options_of(order);
  const auto& [start, batch_size, rank, world_size, drop_last] = slices;
  if (batch_size == 0 || world_size == 0 || rank >= world_size || start > total) {
    throw Error(ErrorCode::kInvalidArgument, "impossible slices of an epoch");
  }
  input.slices = {total, start, batch_size, rank, world_size, drop_last};
  input.spec = spec.share();
  new (self)
      BatchLoader(input, {threads, depth, skip_corrupt, offered_slabs, pool.in_this_process()});
}

std::unique_ptr<BatchLoader> make_told_loader(std::vector<Part> datasets, const SpecHandle& spec,
                                              SlabPool& pool, std::size_t threads,
                                              std::size_t depth, bool skip_corrupt,
                                              bool offered_slabs) {
  ToldInput input;
  for (Part& part : datasets) input.datasets.push_back(part_of(std::move(part)));
  input.spec = spec.share();
  const LoaderOptions options{threads, depth, skip_corrupt, offered_slabs, pool.in_this_process()};
  return std::make_unique<BatchLoader>(input, options);
}

void register_spec(nb::module_& m) {
  nb::class_<SpecHandle>(m, "BatchSpec", "What a batch consists of.")
      .def(nb::init<std::uint32_t>(), nb::arg("batch_rows"))
      .def("add_column", &SpecHandle::add_column, nb::arg("kind"), nb::arg("path"),
           nb::arg("format"), nb::arg("row_bytes"), nb::arg("header"),
           "kind: 'fixed', 'shaped' (a header that every row must have), 'text' or 'bytes'.")
      .def("add_image", &SpecHandle::add_image, nb::arg("path"), nb::arg("format"),
           nb::arg("steps"), nb::arg("width"), nb::arg("height"))
      .def("set_tokens", &SpecHandle::set_tokens, nb::arg("block_size"), nb::arg("token_bytes"),
           nb::arg("is_signed"), nb::arg("to_int64"))
      .def("lay_out", &SpecHandle::lay_out, "Give every column its place; call once, at the end.")
      .def(
          "offset",
          [](const SpecHandle& self, std::size_t c) {
            return self.spec().is_tokens() ? 0 : self.spec().columns.at(c).offset;
          },
          nb::arg("column"), "Where a column begins in the memory of a batch.")
      .def_prop_ro("slab_bytes", [](const SpecHandle& self) { return self.spec().slab_bytes; });
}

}  // namespace

void register_engine(nb::module_& m) {
  register_spec(m);
  m.attr("MAX_BATCH_ROWS") = BatchRing::kMaxRows;
  nb::class_<SlabPool>(m, "SlabPool", "Memory of batches, used again when no tensor lies in it.")
      .def(nb::init<std::size_t, std::size_t>(), nb::arg("bytes"), nb::arg("spare"))
      .def_prop_ro("allocated", &SlabPool::allocated, "Slabs made so far.");
  nb::class_<BatchLoader>(m, "BatchLoader", "Batches of one epoch on one rank, by threads.")
      .def("__init__", &make_loader, nb::arg("dataset"), nb::arg("intervals"), nb::arg("order"),
           nb::arg("slices"), nb::arg("spec"), nb::arg("pool"), nb::arg("threads"),
           nb::arg("depth"), nb::arg("skip_corrupt"), nb::arg("offered_slabs"),
           "dataset: (opener, seed of transforms, items of every chunk, tokens of every chunk or "
           "nothing); order: as of EpochPlan; slices: (start, batch size, rank, world size, "
           "drop_last).")
      .def_static("told", &make_told_loader, nb::arg("datasets"), nb::arg("spec"), nb::arg("pool"),
                  nb::arg("threads"), nb::arg("depth"), nb::arg("skip_corrupt"),
                  nb::arg("offered_slabs"), "A loader whose batches are those of `tell`.")
      .def("tell", &BatchLoader::tell, nb::arg("parts"), nb::arg("epochs"), nb::arg("positions"),
           nb::arg("items"),
           "The rows of the next batch: number of the dataset, epoch and position in it (for its "
           "transforms), item number. `depth` batches before they are wanted.")
      .def("finish", &BatchLoader::finish, "No batch comes after those told.")
      .def("set_views", &BatchLoader::set_views, nb::arg("views"),
           nb::sig("def set_views(self, views: Sequence[object]) -> None"),
           "Per column: (column, (numpy dtype, torch dtype | None) | None, shape of a row).")
      .def("offer", &BatchLoader::offer, nb::arg("memory"),
           nb::sig("def offer(self, memory: object) -> None"),
           "Writable memory for a batch to come, slab_bytes long.")
      .def("next", &BatchLoader::next, nb::arg("wrap"),
           nb::sig("def next(self, wrap: bool) -> "
                   "tuple[int, int, int, list[typing.Any]] | None"),
           "(position, rows, skipped, columns) of the next batch, None at the end. wrap: columns "
           "are tensors; else None (offered memory), but lists of str or bytes in either case.")
      .def("close", &BatchLoader::close, "Stop and join the threads.")
      .def("stats", &BatchLoader::stats, nb::sig("def stats(self) -> dict[str, int]"))
      .def_prop_ro("forked", &BatchLoader::forked,
                   "True in a child of the process that made it, where it cannot be used.");
}

}  // namespace stoker::bindings
