// SPDX-License-Identifier: Apache-2.0
#include "io/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "base/error.h"
#include "io/file.h"

namespace stoker {
namespace {

class Mapping {
 public:
  Mapping(const File& file, std::size_t size)
      : address_(::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd(), 0)), size_(size) {
    if (address_ == MAP_FAILED) throw_errno(errno, "mmap", file.path());
  }
  ~Mapping() { ::munmap(address_, size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  [[nodiscard]] ByteSpan span() const noexcept {
    return {static_cast<const std::uint8_t*>(address_), size_};
  }

 private:
  void* address_;
  std::size_t size_;
};

int advice_of(AccessHint hint) noexcept {
  switch (hint) {
    case AccessHint::kRandom:
      return MADV_RANDOM;
    case AccessHint::kSequential:
      return MADV_SEQUENTIAL;
    case AccessHint::kNormal:
      break;
  }
  return MADV_NORMAL;
}

// The whole pages that hold `bytes`: madvise wants a page-aligned start.
struct Pages {
  void* start;
  std::size_t length;
};

Pages pages_of(ByteSpan bytes) noexcept {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t before = reinterpret_cast<std::uintptr_t>(bytes.data()) % page;
  return {const_cast<std::uint8_t*>(bytes.data() - before), bytes.size() + before};
}

}  // namespace

Bytes map_file(const std::string& path, AccessHint hint) {
  const File file = File::open(path);
  const auto size = static_cast<std::size_t>(file.size());
  if (size == 0) return {};
  auto owner = std::make_shared<const Mapping>(file, size);
  const ByteSpan view = owner->span();
  if (hint != AccessHint::kNormal) advise(view, hint);
  return {view, std::move(owner)};
}

void advise(ByteSpan bytes, AccessHint hint) noexcept {
  if (bytes.empty()) return;
  const Pages pages = pages_of(bytes);
  ::madvise(pages.start, pages.length, advice_of(hint));
}

void populate(ByteSpan bytes, const std::string& path) {
  if (bytes.empty()) return;
  const Pages pages = pages_of(bytes);
#ifdef MADV_POPULATE_READ
  if (::madvise(pages.start, pages.length, MADV_POPULATE_READ) == 0) return;
  if (errno == EFAULT || errno == EIO || errno == EHWPOISON) {
    throw Error(ErrorCode::kIo,
                "reading the mapped file failed: it was truncated after it was opened, or its disk "
                "or server cannot deliver it",
                {path, {}});
  }
#else
  static_cast<void>(path);
#endif
  ::madvise(pages.start, pages.length, MADV_WILLNEED);
}

}  // namespace stoker
