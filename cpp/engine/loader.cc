// SPDX-License-Identifier: Apache-2.0
#include "engine/loader.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"

namespace stoker {
namespace {

constexpr std::uint32_t kNoPlace = ~std::uint32_t{0};
constexpr std::size_t kMostOpeners = 4;
constexpr std::size_t kChunksAhead = 8;
constexpr std::size_t kSlabsBesideRing = 2;  // the one a user works on, and the one before it

/// Rows per claim: an image is work enough for one, everything else comes in runs. Long ones: the
/// atomic operations of a claim wait until all writes past the cache have left the core.
std::uint32_t grain_of(const BatchSpec& spec, std::size_t threads) {
  constexpr std::size_t kBytesPerClaim = std::size_t{512} << 10;
  constexpr std::size_t kBytesWorthAClaim = std::size_t{64} << 10;
  constexpr std::size_t kMostRows = 256;
  constexpr std::size_t kClaimsPerThread = 4;  // of a batch, so that all end at the same time
  std::size_t row_bytes = spec.tokens.block_size * 8;
  for (const Column& column : spec.columns) {
    if (column.kind == ColumnKind::kImage) return 1;
    row_bytes += column.row_bytes + 16;
  }
  row_bytes = std::max<std::size_t>(row_bytes, 1);
  std::size_t rows = std::clamp<std::size_t>(kBytesPerClaim / row_bytes, 1, kMostRows);
  if (threads > 1) {
    const std::size_t least = std::clamp<std::size_t>(kBytesWorthAClaim / row_bytes, 1, 16);
    rows = std::min(rows, std::max(spec.batch_rows / (kClaimsPerThread * threads), least));
  }
  return static_cast<std::uint32_t>(rows);
}

const LoaderInput& checked(const LoaderInput& input) {
  if (std::min<std::uint64_t>(input.slices.batch_size, input.slices.total) >
      input.spec->batch_rows) {
    throw Error(ErrorCode::kInvalidArgument, "slices and spec of a loader disagree");
  }
  return input;
}

std::shared_ptr<const BatchSpec> checked(std::shared_ptr<const BatchSpec> spec) {
  if (spec->slab_bytes == 0) {
    throw Error(ErrorCode::kInvalidArgument, "the spec of a loader is not laid out");
  }
  return spec;
}

std::shared_ptr<const ChunkSet> set_of(std::vector<DatasetPart> parts, const BatchSpec& spec) {
  return std::make_shared<const ChunkSet>(std::move(parts), spec);
}

std::size_t openers_of(const LoaderOptions& options) {
  return std::min(options.threads, kMostOpeners);
}

void name_thread(const char* name) noexcept { pthread_setname_np(pthread_self(), name); }

}  // namespace

Loader::Loader(const LoaderInput& input, const LoaderOptions& options)
    : Loader(checked(input).spec, set_of({input.dataset}, *input.spec), options) {
  order_ = std::make_unique<EpochOrder>(set_, input.intervals, input.plan, input.slices,
                                        openers_of(options_));
  start_threads(input.plan.shuffle != Shuffle::kNone);
}

Loader::Loader(ToldInput input, const LoaderOptions& options)
    : Loader(input.spec, set_of(std::move(input.datasets), *input.spec), options) {
  order_ = std::make_unique<ToldOrder>(set_, openers_of(options_));
  start_threads(true);
}

Loader::Loader(std::shared_ptr<const BatchSpec> spec, std::shared_ptr<const ChunkSet> set,
               const LoaderOptions& options)
    : spec_(checked(std::move(spec))),
      set_(std::move(set)),
      options_(options),
      pool_(options.pool ? *options.pool
                         : SlabPool(spec_->slab_bytes, options.depth + kSlabsBesideRing)),
      ring_(options.threads == 0 ? 1 : std::max<std::size_t>(options.depth, 1),
            grain_of(*spec_, options.threads)) {
  if (pool_.slab_bytes() < spec_->slab_bytes) {
    throw Error(ErrorCode::kInvalidArgument, "the slabs of the pool are too small for a batch");
  }
  for (const Column& column : spec_->columns) {
    object_columns_ += column.kind == ColumnKind::kObject ? 1 : 0;
  }
  for (std::size_t i = 0; i < ring_.depth(); ++i) data_.push_back(std::make_unique<BatchData>());
  local_.assign(set_->size(), kNoPlace);
  for (std::size_t i = 0; i < options_.threads + 2; ++i) {
    counters_.push_back(std::make_unique<ThreadCounters>());
  }
}

void Loader::start_threads(bool scattered) {
  if (is_inline()) {
    inline_writer_.emplace(make_writer(scattered));
    return;
  }
  try {
    threads_.emplace_back([this] { run_planner(); });
    for (std::size_t i = 0; i < options_.threads; ++i) {
      threads_.emplace_back(
          [this, i, writer = make_writer(scattered)]() mutable { run_worker(i, writer); });
    }
  } catch (...) {
    close();
    throw;
  }
}

Loader::~Loader() { close(); }

void Loader::close() noexcept {
  {
    MutexLock lock(offered_mutex_);
    closed_ = true;
    has_offer_.notify_all();
  }
  ring_.close();
  if (order_ == nullptr) return;  // a constructor failed
  order_->close();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  order_->chunks().close();
}

ToldOrder& Loader::told_order() {
  auto* told = dynamic_cast<ToldOrder*>(order_.get());
  if (told == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "this loader has an order of its own");
  }
  return *told;
}

void Loader::tell(std::vector<ToldRow> batch) {
  if (batch.empty() || batch.size() > spec_->batch_rows) {
    throw Error(ErrorCode::kInvalidArgument,
                "a batch of " + std::to_string(batch.size()) + " rows; 1 to " +
                    std::to_string(spec_->batch_rows) + " are possible");
  }
  told_order().tell(std::move(batch));
}

void Loader::finish() { told_order().finish(); }

void Loader::offer(Slab slab) {
  if (slab.memory.size() < spec_->slab_bytes) {
    throw Error(ErrorCode::kInvalidArgument, "a batch needs " + std::to_string(spec_->slab_bytes) +
                                                 " bytes, the memory offered has " +
                                                 std::to_string(slab.memory.size()));
  }
  MutexLock lock(offered_mutex_);
  offered_.push_back(std::move(slab));
  has_offer_.notify_one();
}

/// False when closed.
bool Loader::wait_for_offer(ThreadCounters& counters) {
  const std::uint64_t start = steady_ns();
  MutexLock lock(offered_mutex_);
  if (is_inline() && !closed_ && offered_.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "no memory was offered for the next batch");
  }
  while (!closed_ && offered_.empty()) has_offer_.wait(offered_mutex_);
  ThreadCounters::add(counters.wait_consumer_ns, steady_ns() - start);
  return !closed_;
}

Slab Loader::take_slab() {
  if (!options_.offered_slabs) return pool_.take();
  MutexLock lock(offered_mutex_);
  Slab slab = std::move(offered_.front());
  offered_.pop_front();
  return slab;
}

void Loader::run_planner() {
  name_thread("stoker/plan");
  ThreadCounters& counters = *counters_[options_.threads];
  for (;;) {
    const std::uint64_t start = steady_ns();
    const bool more = order_->wait_for_next();
    if (more && !ring_.wait_for_slot()) return;
    ThreadCounters::add(counters.wait_consumer_ns, steady_ns() - start);
    if (!more) return ring_.finish();
    if (!plan_next(counters)) return;
  }
}

/// Plans and opens the next batch. False when there is no more to do.
bool Loader::plan_next(ThreadCounters& counters) {
  if (options_.offered_slabs && !wait_for_offer(counters)) return false;
  BatchData& data = data_of(ring_.opened());
  try {
    data.slab = take_slab();
    fill_plan(data);
  } catch (...) {  // the consumer will not come past this batch
    data.rows.clear();
    data.add_error(0, std::current_exception());
    ring_.open(0);
    ring_.finish();
    return false;
  }
  ring_.open(static_cast<std::uint32_t>(data.rows.size()));
  return true;
}

void Loader::fill_plan(BatchData& data) {
  order_->fill_next(data, places_);
  data.rows.resize(places_.size());
  data.objects.resize(object_columns_);
  for (auto& spans : data.objects) spans.assign(places_.size(), ByteSpan{});
  distinct_.clear();
  for (std::size_t i = 0; i < places_.size(); ++i) {
    std::uint32_t& local = local_[places_[i].chunk];
    if (local == kNoPlace) {
      local = static_cast<std::uint32_t>(distinct_.size());
      distinct_.push_back(places_[i].chunk);
    }
    data.rows[i] = {local, places_[i].item};
  }
  for (const std::uint32_t chunk : distinct_) local_[chunk] = kNoPlace;
  open_chunks_of(data);
}

void Loader::open_chunks_of(BatchData& data) {
  OpenChunks& chunks = order_->chunks();
  const std::span<const std::uint32_t> wanted(distinct_);
  data.chunks.clear();
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    if (k % kChunksAhead == 0) {
      chunks.expect(wanted.subspan(k, std::min(2 * kChunksAhead, wanted.size() - k)));
    }
    data.chunks.push_back(chunks.get(wanted[k]));
  }
}

RowWriter Loader::make_writer(bool scattered) const {
  return {spec_, [set = set_](std::size_t chunk) { return set->path(chunk); }, scattered};
}

void Loader::run_worker(std::size_t number, RowWriter& writer) {
  name_thread("stoker/decode");
  ThreadCounters& counters = *counters_[number];
  BatchRing::Cursor cursor;
  for (;;) {
    std::optional<BatchRing::Claim> claim = ring_.try_claim(cursor);
    if (!claim) {
      const std::uint64_t start = steady_ns();
      claim = ring_.claim(cursor);
      ThreadCounters::add(counters.wait_data_ns, steady_ns() - start);
    }
    if (!claim) return;
    writer.write(data_of(claim->batch), claim->first, claim->rows, counters);
    ring_.done(*claim);
  }
}

void Loader::work_inline() {
  if (auto* told = dynamic_cast<ToldOrder*>(order_.get()); told != nullptr && !told->is_told()) {
    throw Error(ErrorCode::kInvalidArgument, "the next batch was not told");
  }
  if (!order_->wait_for_next()) return ring_.finish();
  if (!plan_next(*counters_[options_.threads])) return;
  while (const std::optional<BatchRing::Claim> claim = ring_.try_claim(inline_cursor_)) {
    inline_writer_->write(data_of(claim->batch), claim->first, claim->rows, *counters_[0]);
    ring_.done(*claim);
  }
}

Loader::Next Loader::next(std::chrono::milliseconds timeout, Batch* batch) {
  ThreadCounters& counters = *counters_.back();
  const std::uint64_t start = steady_ns();
  const std::uint64_t number = ring_.delivered();
  if (is_inline() && ring_.opened() == number) work_inline();
  const BatchRing::Ready ready = ring_.wait_ready(timeout);
  ThreadCounters::add(counters.consumer_wait_ns, steady_ns() - start);
  switch (ready) {
    case BatchRing::Ready::kBatch:
      try {
        deliver(data_of(number), batch);
      } catch (...) {
        ring_.close();
        throw;
      }
      ThreadCounters::add(counters.batches, 1);
      ThreadCounters::add(counters.skipped, batch->skipped);
      ring_.release();
      return Next::kBatch;
    case BatchRing::Ready::kEnd:
      return Next::kEnd;
    case BatchRing::Ready::kTimeout:
      return Next::kTimeout;
    case BatchRing::Ready::kClosed:
      break;
  }
  throw Error(ErrorCode::kClosed, "the loader was closed");
}

void Loader::deliver(BatchData& data, Batch* batch) {
  const std::vector<BatchData::RowError> errors = data.take_errors();
  batch->position = data.positions.empty() ? 0 : data.positions.front();
  batch->rows = static_cast<std::uint32_t>(data.rows.size());
  batch->skipped = 0;
  batch->slab = std::move(data.slab);
  batch->objects = std::move(data.objects);
  batch->chunks = std::move(data.chunks);
  data.objects.clear();
  data.chunks.clear();
  if (errors.empty()) return;
  for (const BatchData::RowError& error : errors) {
    try {
      std::rethrow_exception(error.error);
    } catch (const Error& cause) {
      if (!options_.skip_corrupt || cause.code() != ErrorCode::kCorrupt) throw;
    }
  }
  if (errors.size() >= batch->rows) std::rethrow_exception(errors.front().error);
  leave_out(errors, batch);
}

/// Moves the good rows together, in order.
void Loader::leave_out(const std::vector<BatchData::RowError>& errors, Batch* batch) const {
  const BatchSpec& spec = *spec_;
  std::vector<std::uint32_t> kept;
  auto bad = errors.begin();
  for (std::uint32_t row = 0; row < batch->rows; ++row) {
    if (bad != errors.end() && bad->row == row) {
      ++bad;
    } else {
      kept.push_back(row);
    }
  }
  const auto compact = [&](std::size_t offset, std::size_t row_bytes) {
    std::uint8_t* column = batch->slab.memory.data() + offset;
    for (std::size_t to = 0; to < kept.size(); ++to) {
      if (to != kept[to]) {
        std::memmove(column + to * row_bytes, column + kept[to] * row_bytes, row_bytes);
      }
    }
  };
  if (spec.is_tokens()) {
    compact(0, spec.tokens.block_size * (spec.tokens.to_int64 ? 8 : spec.tokens.token_bytes));
  }
  for (const Column& column : spec.columns) compact(column.offset, column.row_bytes);
  for (auto& spans : batch->objects) {
    for (std::size_t to = 0; to < kept.size(); ++to) spans[to] = spans[kept[to]];
    spans.resize(kept.size());
  }
  batch->skipped = batch->rows - static_cast<std::uint32_t>(kept.size());
  batch->rows = static_cast<std::uint32_t>(kept.size());
}

LoaderStats Loader::stats() const {
  LoaderStats stats;
  for (const auto& counters : counters_) counters->add_to(stats);
  order_->chunks().counters().add_to(stats);
  return stats;
}

}  // namespace stoker
