// SPDX-License-Identifier: Apache-2.0
#include "codec/checksum.h"

#include <xxhash.h>

#include <memory>
#include <new>

namespace stoker {
namespace {

struct FreeState {
  void operator()(XXH3_state_t* state) const noexcept { XXH3_freeState(state); }
};

}  // namespace

std::uint64_t xxh3_64(ByteSpan data) noexcept { return XXH3_64bits(data.data(), data.size()); }

std::uint64_t xxh3_64(ByteSpan head, ByteSpan body) {
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  if (!state) throw std::bad_alloc();
  XXH3_64bits_reset(state.get());
  // Updates fail only for a null pointer with a size, which a span never is.
  XXH3_64bits_update(state.get(), head.data(), head.size());
  XXH3_64bits_update(state.get(), body.data(), body.size());
  return XXH3_64bits_digest(state.get());
}

}  // namespace stoker
