// SPDX-License-Identifier: Apache-2.0
#include "base/host_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace stoker {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::uint8_t* allocate(std::size_t size) {
  if (size == 0) return nullptr;
  const std::size_t alignment = size >= kHugePage ? kHugePage : HostBuffer::kAlignment;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* memory = rounded < size ? nullptr : std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  if (alignment == kHugePage) ::madvise(memory, rounded, MADV_HUGEPAGE);  // advice: may be refused
  return static_cast<std::uint8_t*>(memory);
}

}  // namespace

HostBuffer::HostBuffer(std::size_t size) : data_(allocate(size)), size_(size) {}

HostBuffer::~HostBuffer() { std::free(data_); }

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  if (this != &other) {
    std::free(data_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void HostBuffer::grow(std::size_t size, std::size_t used) {
  if (size <= size_) return;
  HostBuffer larger(std::max(size, 2 * size_));
  if (used > 0) std::memcpy(larger.data_, data_, used);
  *this = std::move(larger);
}

Bytes HostBuffer::share(std::size_t size) && {
  auto owner = std::make_shared<const HostBuffer>(std::move(*this));
  const ByteSpan view = owner->span();
  return Bytes(view, std::move(owner)).slice(0, size);
}

}  // namespace stoker
