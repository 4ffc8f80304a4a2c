// SPDX-License-Identifier: Apache-2.0
#include "sample_reader.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"

namespace stoker::bindings {

namespace {

// A shuffled epoch goes back and forth in 8 streams of 4 chunks each: all of them must stay
// decompressed, or each sample would decompress its chunk anew.
ItemReaderOptions options_for(const ChunkTable& table) {
  constexpr std::uint64_t kWindowsAndNext = 33;
  ItemReaderOptions options;
  for (const std::uint64_t bytes : table.raw_bytes) {
    options.max_buffer_bytes = std::max(options.max_buffer_bytes, kWindowsAndNext * bytes);
  }
  return options;
}

}  // namespace

SharedItemReader::SharedItemReader(std::shared_ptr<const ChunkTable> table, Verify verify)
    : table_(std::move(table)),
      verify_(verify),
      mutex_(std::make_unique<std::mutex>()),
      reader_(std::make_unique<ItemReader>(table_, verify_, options_for(*table_))) {
  size_ = reader_->size();
}

void SharedItemReader::recover_after_fork() {
  if (!fork_guard_.forked()) [[likely]]
    return;
  fork_guard_.reset();
  if (mutex_->try_lock()) {
    mutex_->unlock();  // nobody was inside: mappings and state are inherited whole
    return;
  }
  static_cast<void>(mutex_.release());
  static_cast<void>(reader_.release());
  mutex_ = std::make_unique<std::mutex>();
  reader_ = std::make_unique<ItemReader>(table_, verify_, options_for(*table_));
}

Bytes SharedItemReader::item(std::uint64_t index, Purpose purpose, ItemAddress* address) {
  recover_after_fork();
  *address = reader_->locate(index);  // reads only what the constructor made
  {
    const std::unique_lock lock(*mutex_, std::try_to_lock);
    if (lock && reader_->is_ready(address->chunk, purpose)) [[likely]] {
      return reader_->chunk(address->chunk, purpose).item(address->item);
    }
  }
  const nb::gil_scoped_release release;  // no Python object is touched from here
  const std::scoped_lock lock(*mutex_);
  return reader_->chunk(address->chunk, purpose).item(address->item);
}

ChunkView SharedItemReader::chunk(std::size_t chunk, Purpose purpose) {
  recover_after_fork();
  {
    const std::unique_lock lock(*mutex_, std::try_to_lock);
    if (lock && reader_->is_ready(chunk, purpose)) [[likely]]
      return reader_->chunk(chunk, purpose);
  }
  const nb::gil_scoped_release release;  // no Python object is touched from here
  const std::scoped_lock lock(*mutex_);
  return reader_->chunk(chunk, purpose);
}

Bytes SharedItemReader::read_file(std::size_t chunk, Purpose purpose) {
  recover_after_fork();
  const nb::gil_scoped_release release;  // the opener is immutable; no Python object is touched
  return reader_->opener().read_file(chunk, purpose);
}

void SharedItemReader::close() {
  recover_after_fork();
  const nb::gil_scoped_release release;  // unmapping may take long; no Python object is touched
  const std::scoped_lock lock(*mutex_);
  reader_->close();
}

std::uint64_t normalize_index(std::int64_t index, std::uint64_t size) {
  const auto length = static_cast<std::int64_t>(size);
  const std::int64_t shifted = index < 0 ? index + length : index;
  if (shifted < 0 || shifted >= length) [[unlikely]] {
    throw Error(ErrorCode::kOutOfRange, "index " + std::to_string(index) +
                                            " is out of range for a dataset of " +
                                            std::to_string(size) + " samples");
  }
  return static_cast<std::uint64_t>(shifted);
}

void rethrow_with_sample(const Error& error, std::uint64_t sample, const std::string& path) {
  const bool has_path = !error.context().path.empty();
  throw Error(error.code(), "sample " + std::to_string(sample) + ": " + error.message(),
              has_path ? error.context() : ErrorContext{path, std::nullopt});
}

}  // namespace stoker::bindings
