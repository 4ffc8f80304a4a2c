// SPDX-License-Identifier: Apache-2.0
#include "codec/zstd.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "base/coding.h"
#include "base/error.h"
#include "base/host_buffer.h"

namespace stoker {
namespace {

// Contexts are kept per thread because setting one up costs more than compressing a small item. The
// highest levels need hundreds of megabytes: such a context is not kept.
constexpr std::size_t kMaxKeptContextBytes = std::size_t{64} << 20;

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const noexcept { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const noexcept { ZSTD_freeDCtx(context); }
};
using CompressContext = std::unique_ptr<ZSTD_CCtx, FreeContext>;
using DecompressContext = std::unique_ptr<ZSTD_DCtx, FreeContext>;

[[noreturn]] void fail(ErrorCode code, std::string what, std::size_t result) {
  if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation) throw std::bad_alloc();
  throw Error(code, std::move(what) + ": " + ZSTD_getErrorName(result));
}

// "12 zstd bytes, expected to hold 40 bytes".
std::string describe(ByteSpan frame, MutableByteSpan out) {
  return std::to_string(frame.size()) + " zstd bytes, expected to hold " +
         std::to_string(out.size()) + " bytes";
}

}  // namespace

Bytes zstd_compress(ByteSpan data, int level) {
  if (level < kZstdMinLevel || level > kZstdMaxLevel) {
    throw Error(ErrorCode::kInvalidArgument, "zstd level must be " + std::to_string(kZstdMinLevel) +
                                                 " to " + std::to_string(kZstdMaxLevel) + ", not " +
                                                 std::to_string(level));
  }
  thread_local CompressContext context;
  if (!context) context.reset(ZSTD_createCCtx());
  if (!context) throw std::bad_alloc();

  const std::size_t bound = ZSTD_compressBound(data.size());
  if (ZSTD_isError(bound) != 0) {
    fail(ErrorCode::kInvalidArgument, "cannot compress " + std::to_string(data.size()) + " bytes",
         bound);
  }
  HostBuffer out(bound);
  const std::size_t size =
      ZSTD_compressCCtx(context.get(), out.data(), out.size(), data.data(), data.size(), level);
  if (ZSTD_isError(size) != 0) fail(ErrorCode::kInternal, "zstd compression failed", size);
  if (ZSTD_sizeof_CCtx(context.get()) > kMaxKeptContextBytes) context.reset();
  return std::move(out).share(size);
}

std::optional<std::uint64_t> zstd_content_size(ByteSpan frame) noexcept {
  // Skippable frames have a size field too, but it does not count content.
  if (frame.size() < sizeof(std::uint32_t) || load_u32(frame.data()) != ZSTD_MAGICNUMBER) {
    return std::nullopt;
  }
  const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR) return std::nullopt;
  return size;
}

void zstd_decompress_into(ByteSpan frame, MutableByteSpan out) {
  // zstd itself takes nothing for "no frames, no content".
  if (frame.empty()) throw Error(ErrorCode::kCorrupt, describe(frame, out) + ": no frame");
  thread_local DecompressContext context;
  if (!context) context.reset(ZSTD_createDCtx());
  if (!context) throw std::bad_alloc();

  const std::size_t size =
      ZSTD_decompressDCtx(context.get(), out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(size) != 0) fail(ErrorCode::kCorrupt, describe(frame, out), size);
  if (size != out.size()) {
    throw Error(ErrorCode::kCorrupt, describe(frame, out) + ": found " + std::to_string(size));
  }
}

Bytes zstd_decompress(ByteSpan frame, std::uint64_t expected_size) {
  HostBuffer out(expected_size);
  zstd_decompress_into(frame, out.span());
  return std::move(out).share(expected_size);
}

}  // namespace stoker
