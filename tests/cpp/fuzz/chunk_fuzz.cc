// SPDX-License-Identifier: Apache-2.0
// Any bytes as a chunk, an item or a zstd frame: an Error, or parts that lie inside and add up.
#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "base/error.h"
#include "codec/zstd.h"
#include "format/chunk_samples.h"
#include "format/chunk_view.h"
#include "format/item_layout.h"
#include "format/token_block.h"
#include "fuzz/seeds.h"

namespace stoker::fuzz {
namespace {

const std::string kPath = "chunk";

// The first byte says what the rest is, the second is an argument.
enum Kind : std::uint8_t { kChunk, kItem, kFrame, kKinds };

// Nothing when `call` refuses the bytes. Nothing but the bytes may be at fault.
template <typename F>
auto unless_corrupt(F&& call) -> std::optional<std::invoke_result_t<F>> {
  try {
    return call();
  } catch (const Error& error) {
    require(error.code() == ErrorCode::kCorrupt);
    return std::nullopt;
  }
}

bool is_part(ByteSpan part, ByteSpan whole) {
  return part.empty() ||
         (std::greater_equal<>()(part.data(), whole.data()) &&
          std::less_equal<>()(part.data() + part.size(), whole.data() + whole.size()));
}

void check_item(ByteSpan item, std::size_t leaf_count) {
  std::vector<ByteSpan> leaves(leaf_count);
  const auto split = unless_corrupt([&] {
    split_item(item, leaves);
    return true;
  });
  if (!split) return;
  std::size_t bytes = 4 * leaf_count;
  for (const ByteSpan& leaf : leaves) {
    require(leaf.data() == item.data() + bytes || leaf.empty());
    bytes += leaf.size();
  }
  require(bytes == item.size());
  std::vector<std::uint8_t> sizes(4 * leaf_count);
  write_leaf_sizes(leaves, sizes.data());
  require(std::ranges::equal(sizes, item.first(sizes.size())));
}

void check_chunk(const Bytes& file, std::uint64_t items, std::size_t leaves) {
  static_cast<void>(foreign_layout(file.span()));
  const auto lazy = unless_corrupt([&] { return ChunkView::open_lazy(file, items, kPath); });
  const auto view = unless_corrupt([&] { return ChunkView::open(file, items, kPath); });
  require(lazy.has_value() || !view.has_value());
  if (!lazy) return;
  require(lazy->size() == items);
  std::size_t bytes = 0;
  for (std::uint32_t i = 0; i < lazy->size(); ++i) {
    const auto item = unless_corrupt([&] { return lazy->item(i); });
    require(item.has_value() || !view.has_value());
    if (!item) continue;
    require(is_part(item->span(), lazy->payload()));
    check_item(item->span(), leaves);
    bytes += item->size();
  }
  if (!view) return;
  require(bytes == view->payload().size());
  const TokenBlocks blocks(leaves + 1, 2);
  for (std::uint64_t b = 0; b < view->payload().size() / blocks.block_bytes(); ++b) {
    require(is_part(blocks.block(*view, b), view->payload()));
  }
}

void check_frame(ByteSpan frame, std::size_t argument) {
  constexpr std::uint64_t kMaxContent = std::uint64_t{1} << 20;
  const std::uint64_t stated = zstd_content_size(frame).value_or(argument);
  for (const std::uint64_t size : {stated, std::uint64_t{argument}}) {
    if (size > kMaxContent) continue;
    const auto content = unless_corrupt([&] { return zstd_decompress(frame, size); });
    if (!content) continue;
    require(content->size() == size);
    if (size >= 4) check_chunk(*content, load_u32(content->data()), argument % 8);
  }
}

Seed tagged(Kind kind, std::uint8_t argument, ByteSpan rest) {
  Seed seed{kind, argument};
  seed.insert(seed.end(), rest.begin(), rest.end());
  return seed;
}

}  // namespace

std::vector<Seed> make_seeds() {
  const Seed item{2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 'a', 'b', 'c'};  // three leaves
  const Seed chunk = test::chunk_of({item, item, {}, item});
  const Seed large = test::chunk_of(test::random_items(40, 30, 1));
  std::vector<Seed> seeds;
  seeds.push_back(tagged(kChunk, 3, chunk));
  seeds.push_back(tagged(kChunk, 0, test::chunk_of({})));
  seeds.push_back(tagged(kChunk, 1, large));
  seeds.push_back(tagged(kItem, 3, item));
  seeds.push_back(tagged(kItem, 0, {}));
  seeds.push_back(tagged(kFrame, 3, zstd_compress(chunk).span()));
  seeds.push_back(tagged(kFrame, 0, zstd_compress({}).span()));
  seeds.push_back(tagged(kFrame, 1, zstd_compress(large, 19).span()));
  return seeds;
}

}  // namespace stoker::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fuzz = stoker::fuzz;
  if (size < 2) return 0;
  const std::size_t argument = data[1];
  const stoker::ByteSpan rest(data + 2, size - 2);
  switch (data[0] % fuzz::kKinds) {
    case fuzz::kChunk: {
      const stoker::Bytes file(rest, nullptr);  // libFuzzer's own copy is of exactly this size
      const std::uint64_t stated = rest.size() >= 4 ? stoker::load_u32(rest.data()) : 0;
      fuzz::check_chunk(file, argument == 0xFF ? argument : stated, argument % 8);
      break;
    }
    case fuzz::kItem:
      fuzz::check_item(rest, argument);
      break;
    default:
      fuzz::check_frame(rest, argument);
  }
  return 0;
}
