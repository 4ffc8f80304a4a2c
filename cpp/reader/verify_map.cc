// SPDX-License-Identifier: Apache-2.0
#include "reader/verify_map.h"

#include <sys/mman.h>

#include <new>

namespace stoker {

static_assert(sizeof(std::atomic<std::uint8_t>) == 1);
static_assert(std::atomic<std::uint8_t>::is_always_lock_free);

VerifyMap::VerifyMap(std::size_t chunks) : size_(chunks) {
  if (chunks == 0) return;
  void* memory = ::mmap(nullptr, chunks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  flags_ = static_cast<std::atomic<std::uint8_t>*>(memory);  // zeroed by the kernel
}

VerifyMap::~VerifyMap() {
  if (flags_ != nullptr) ::munmap(flags_, size_);
}

bool VerifyMap::verified(std::size_t chunk) const noexcept {
  return flags_[chunk].load(std::memory_order_acquire) != 0;
}

void VerifyMap::mark(std::size_t chunk) noexcept {
  flags_[chunk].store(1, std::memory_order_release);
}

}  // namespace stoker
