// SPDX-License-Identifier: Apache-2.0
#include "engine/slab.h"

#include <new>
#include <string>
#include <utility>

#include "base/error.h"

namespace stoker {
namespace {

HostBuffer fresh_memory(std::size_t bytes) {
  try {
    return HostBuffer(bytes);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kOutOfMemory, "no memory for a batch of " + std::to_string(bytes) +
                                             " bytes; several are in work at once. Use a smaller "
                                             "batch_size");
  }
}

}  // namespace

SlabPool::SlabPool(std::size_t bytes, std::size_t spare) : shared_(std::make_shared<Shared>()) {
  shared_->bytes = bytes;
  shared_->spare = spare;
  MutexLock lock(shared_->mutex);
  shared_->unused.reserve(spare);  // giving back must not allocate
}

SlabPool& SlabPool::in_this_process() {
  if (shared_->fork_guard.forked()) *this = SlabPool(shared_->bytes, shared_->spare);
  return *this;
}

Slab SlabPool::take() {
  HostBuffer buffer;
  {
    MutexLock lock(shared_->mutex);
    if (shared_->unused.empty()) {
      ++shared_->allocated;
    } else {
      buffer = std::move(shared_->unused.back());
      shared_->unused.pop_back();
    }
  }
  if (buffer.size() == 0) buffer = fresh_memory(shared_->bytes);
  auto* held = new HostBuffer(std::move(buffer));
  const MutableByteSpan memory = held->span();
  const auto give_back = [shared = shared_](HostBuffer* done) noexcept {
    if (!shared->fork_guard.forked()) {
      MutexLock lock(shared->mutex);
      if (shared->unused.size() < shared->spare) shared->unused.push_back(std::move(*done));
    }
    delete done;
  };
  return {memory, std::shared_ptr<HostBuffer>(held, give_back)};
}

std::size_t SlabPool::allocated() const {
  MutexLock lock(shared_->mutex);
  return shared_->allocated;
}

}  // namespace stoker
