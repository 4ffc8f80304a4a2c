// SPDX-License-Identifier: Apache-2.0
#include "reader/chunk_opener.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "error_of.h"
#include "in_child.h"
#include "reader/dataset_samples.h"
#include "smaps.h"

namespace stoker {
namespace {

using test::Buffer;
using test::chunk_of;
using test::error_of;
using test::in_child;
using test::items_of_chunk;
using test::mapping_at;
using test::SampleDataset;
using test::to_buffer;

constexpr Purpose kLone = Purpose::kLoneItem;
constexpr Purpose kWhole = Purpose::kWholeChunk;
constexpr std::array kPurposes{kLone, kWhole};
constexpr std::array kPolicies{Verify::kNever, Verify::kFirst, Verify::kAlways};

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

ChunkOpener opener_of(const SampleDataset& data, Verify verify = Verify::kFirst) {
  return {data.table(), verify};
}

// The refusal to open a chunk: it names the file and what to do.
Error refusal(const ChunkOpener& opener, std::size_t chunk, Purpose purpose) {
  const Error error = error_of([&] { return opener.open(chunk, purpose); });
  EXPECT_EQ(error.context().path, opener.table().path(chunk));
  EXPECT_TRUE(contains(error.message(), "write the dataset again")) << error.what();
  return error;
}

bool opens(const ChunkOpener& opener, std::size_t chunk, Purpose purpose) {
  try {
    return opener.open(chunk, purpose).size() == opener.table().items[chunk];
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
    return false;
  }
}

TEST(ChunkOpenerTest, OpensWhatTheIndexLists) {
  for (const bool compressed : {false, true}) {
    SampleDataset data(compressed);
    data.add(items_of_chunk(0, 5));
    data.add({});
    data.add(items_of_chunk(2, 1, 5000));
    for (const Verify verify : kPolicies) {
      const ChunkOpener opener = opener_of(data, verify);
      for (const Purpose purpose : kPurposes) {
        EXPECT_EQ(opener.open(1, purpose).size(), 0U);
        EXPECT_EQ(to_buffer(opener.open(2, purpose).item_span(0)), items_of_chunk(2, 1, 5000)[0]);
        const ChunkView view = opener.open(0, purpose);
        ASSERT_EQ(view.size(), 5U);
        EXPECT_EQ(to_buffer(view.item_span(4)), items_of_chunk(0, 5)[4]);
        EXPECT_EQ(to_buffer(opener.read_file(0, purpose).span()), chunk_of(items_of_chunk(0, 5)));
      }
    }
  }
}

TEST(ChunkOpenerTest, AnUnevenTableIsRefused) {
  SampleDataset data;
  data.add({{1}});
  data.rows.items.clear();
  EXPECT_EQ(error_of([&] { return opener_of(data); }).code(), ErrorCode::kInvalidArgument);
}

TEST(ChunkOpenerTest, MissingFile) {
  for (const bool compressed : {false, true}) {
    SampleDataset data(compressed);
    data.add({{1}});
    std::filesystem::remove(data.rows.path(0));
    for (const Purpose purpose : kPurposes) {
      const Error error = refusal(opener_of(data), 0, purpose);
      EXPECT_EQ(error.code(), ErrorCode::kNotFound);
      EXPECT_TRUE(contains(error.message(), "the index lists this chunk")) << error.what();
      EXPECT_TRUE(contains(error.message(), data.rows.directory)) << error.what();
    }
  }
}

// The size is checked whatever the policy, cheaply.
TEST(ChunkOpenerTest, CutAndLongerFiles) {
  for (const bool compressed : {false, true}) {
    SampleDataset data(compressed);
    data.add(items_of_chunk(0, 3));
    const Buffer good = data.get(0);
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{3}, good.size() - 1, good.size() + 1, good.size() + 5000}) {
      Buffer file = good;
      file.resize(size);
      data.put(0, file);
      for (const Verify verify : kPolicies) {
        for (const Purpose purpose : kPurposes) {
          const Error error = refusal(opener_of(data, verify), 0, purpose);
          EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
          EXPECT_TRUE(
              contains(error.message(), "expected a file of " + std::to_string(good.size()) +
                                            " bytes (index.json), found " + std::to_string(size)))
              << error.what();
        }
      }
    }
  }
}

TEST(ChunkOpenerTest, WithoutFileBytesTheRawSizeCounts) {
  SampleDataset data;
  data.add(items_of_chunk(0, 3));
  data.rows.file_bytes[0] = 0;
  EXPECT_TRUE(opens(opener_of(data), 0, kWhole));
  Buffer file = data.get(0);
  file.push_back(1);
  data.put(0, file);
  EXPECT_EQ(refusal(opener_of(data), 0, kLone).code(), ErrorCode::kCorrupt);
}

TEST(ChunkOpenerTest, BothSizesOfTheIndexMustAgree) {
  SampleDataset data;
  data.add(items_of_chunk(0, 3));
  ++data.rows.file_bytes[0];
  EXPECT_EQ(refusal(opener_of(data), 0, kLone).code(), ErrorCode::kCorrupt);
}

struct Noticed {
  Verify verify;
  bool lone;
  bool whole;
};
constexpr std::array<Noticed, 3> kNoticed{
    {{Verify::kNever, false, false}, {Verify::kFirst, false, true}, {Verify::kAlways, true, true}}};

TEST(ChunkOpenerTest, AnAlteredItemIsNoticedAsThePolicySays) {
  SampleDataset data;
  data.add(items_of_chunk(0, 3));
  data.damage(0, data.get(0).size() - 1);
  for (const Noticed& noticed : kNoticed) {
    const ChunkOpener opener = opener_of(data, noticed.verify);
    for (int again = 0; again < 2; ++again) {  // a failure is no verification
      EXPECT_EQ(!opens(opener, 0, kLone), noticed.lone);
      EXPECT_EQ(!opens(opener, 0, kWhole), noticed.whole);
    }
  }
}

// A compressed chunk is always read as a whole.
TEST(ChunkOpenerTest, AnAlteredCompressedFileIsNoticedBeforeDecompression) {
  SampleDataset data(true);
  data.add(items_of_chunk(0, 3));
  data.damage(0, data.get(0).size() - 1);
  for (const Verify verify : {Verify::kFirst, Verify::kAlways}) {
    for (const Purpose purpose : kPurposes) {
      const Error error = refusal(opener_of(data, verify), 0, purpose);
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      EXPECT_TRUE(contains(error.message(), "the checksum differs")) << error.what();
    }
  }
}

TEST(ChunkOpenerTest, AChecksumErrorShowsBothSums) {
  SampleDataset data;
  data.add(items_of_chunk(0, 3));
  data.rows.checksums[0] = 0xABC;
  const Error error = refusal(opener_of(data), 0, kWhole);
  char found[17];
  std::snprintf(found, sizeof found, "%016llx",
                static_cast<unsigned long long>(xxh3_64(data.get(0))));
  EXPECT_TRUE(contains(error.message(), "expected xxh3_64 0000000000000abc (index.json), found " +
                                            std::string(found)))
      << error.what();
}

TEST(ChunkOpenerTest, WithoutAChecksumNothingIsCompared) {
  SampleDataset data;
  data.add(items_of_chunk(0, 3));
  data.rows.checksums[0] = 1;
  data.rows.has_checksum[0] = 0;
  for (const Verify verify : kPolicies) EXPECT_TRUE(opens(opener_of(data, verify), 0, kWhole));
}

TEST(ChunkOpenerTest, FirstMeansOnceAndAlwaysEachTime) {
  SampleDataset data;
  data.add(items_of_chunk(0, 3));
  data.add(items_of_chunk(1, 3));
  const ChunkOpener first = opener_of(data, Verify::kFirst);
  const ChunkOpener always = opener_of(data, Verify::kAlways);
  EXPECT_TRUE(opens(first, 0, kWhole));
  EXPECT_TRUE(opens(always, 0, kWhole));
  EXPECT_TRUE(opens(first, 1, kLone));  // does not count as verified
  for (const std::size_t chunk : {0U, 1U}) data.damage(chunk, data.get(chunk).size() - 1);
  EXPECT_TRUE(opens(first, 0, kWhole));
  EXPECT_FALSE(opens(first, 1, kWhole));
  EXPECT_FALSE(opens(always, 0, kWhole));
  EXPECT_FALSE(opens(always, 0, kLone));
}

TEST(ChunkOpenerTest, ARestoredFileIsGoodAgain) {
  SampleDataset data;
  data.add(items_of_chunk(0, 3));
  const Buffer good = data.get(0);
  const ChunkOpener opener = opener_of(data);
  data.damage(0, good.size() - 1);
  EXPECT_FALSE(opens(opener, 0, kWhole));
  data.put(0, good);
  EXPECT_TRUE(opens(opener, 0, kWhole));
}

TEST(ChunkOpenerTest, WhatAChildVerifiedIsVerified) {
  SampleDataset data;
  data.add(items_of_chunk(0, 3));
  data.add(items_of_chunk(1, 3));
  const ChunkOpener opener = opener_of(data);
  EXPECT_EQ(in_child([&] { return opens(opener, 0, kWhole) ? 0 : 1; }), 0);
  for (const std::size_t chunk : {0U, 1U}) data.damage(chunk, data.get(chunk).size() - 1);
  EXPECT_TRUE(opens(opener, 0, kWhole));
  EXPECT_FALSE(opens(opener, 1, kWhole));
}

TEST(ChunkOpenerTest, AnotherItemCountThanTheIndexHas) {
  for (const bool compressed : {false, true}) {
    SampleDataset data(compressed);
    data.add(items_of_chunk(0, 3));
    data.rows.items[0] = 4;
    for (const Purpose purpose : kPurposes) {
      const Error error = refusal(opener_of(data), 0, purpose);
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      EXPECT_TRUE(contains(error.message(), "expected 4 items (index.json), found 3"));
    }
  }
}

TEST(ChunkOpenerTest, AnEmptyFileIsNoChunk) {
  SampleDataset data;
  data.add_file({}, 0, 0);
  for (const Purpose purpose : kPurposes) {
    EXPECT_EQ(refusal(opener_of(data), 0, purpose).code(), ErrorCode::kCorrupt);
    EXPECT_TRUE(opener_of(data).read_file(0, purpose).empty());
  }
}

// Damage inside the offsets that no checksum covers.
Buffer with_bad_offset() {
  Buffer file = chunk_of(items_of_chunk(0, 3));
  store_u32(file.data() + 8, 1'000'000);
  return file;
}

TEST(ChunkOpenerTest, BadOffsetsAreFoundByWhoeverReadsThem) {
  SampleDataset data;
  const Buffer file = with_bad_offset();
  data.add_file(file, 3, file.size());
  const ChunkOpener opener = opener_of(data);
  EXPECT_EQ(refusal(opener, 0, kWhole).code(), ErrorCode::kCorrupt);
  const ChunkView view = opener.open(0, kLone);
  EXPECT_EQ(to_buffer(view.item_span(2)), items_of_chunk(0, 3)[2]);
  EXPECT_EQ(error_of([&] { return view.item(0); }).code(), ErrorCode::kCorrupt);
  const Error error = error_of([&] {
    opener.verify_whole(0, view);
    return 0;
  });
  EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
  EXPECT_EQ(error.context().path, data.rows.path(0));
}

TEST(ChunkOpenerTest, VerifyWholeMakesUpForTheChecksum) {
  SampleDataset data;
  data.add(items_of_chunk(0, 3));
  data.damage(0, data.get(0).size() - 1);
  for (const Verify verify : {Verify::kNever, Verify::kFirst}) {
    const ChunkOpener opener = opener_of(data, verify);
    const ChunkView view = opener.open(0, kLone);
    const auto verify_now = [&] {
      opener.verify_whole(0, view);
      return 0;
    };
    if (verify == Verify::kNever) {
      EXPECT_EQ(verify_now(), 0);
    } else {
      EXPECT_TRUE(contains(error_of(verify_now).message(), "the checksum differs"));
    }
  }
}

TEST(ChunkOpenerTest, VerifyWholeOfAGoodChunkVerifiesIt) {
  for (const bool compressed : {false, true}) {
    SampleDataset data(compressed);
    data.add(items_of_chunk(0, 3));
    for (const Verify verify : kPolicies) {
      const ChunkOpener opener = opener_of(data, verify);
      opener.verify_whole(0, opener.open(0, kLone));
      EXPECT_TRUE(opens(opener, 0, kWhole));
    }
  }
}

TEST(ChunkOpenerTest, ALoneItemBringsNoPageIn) {
  SampleDataset data;
  data.add(items_of_chunk(0, 300, 4096));
  const Bytes lone = opener_of(data).read_file(0, kLone);
  EXPECT_EQ(mapping_at(lone.data()).value().resident_kib, 0U);
  const Bytes whole = opener_of(data).read_file(0, kWhole);
  EXPECT_GE(mapping_at(whole.data()).value().resident_kib, 1200U);
}

TEST(ChunkOpenerTest, OnlyALoneItemIsMappedForRandomAccess) {
  SampleDataset data;
  data.add(items_of_chunk(0, 3));
  const ChunkOpener opener = opener_of(data);
  const ChunkView whole = opener.open(0, kWhole);
  const ChunkView lone = opener.open(0, kLone);
  const auto random = [](const ChunkView& view) {
    return mapping_at(view.file().data()).value().has("rr");
  };
  EXPECT_FALSE(random(whole));
  EXPECT_TRUE(random(lone));
  opener.verify_whole(0, lone);
  EXPECT_FALSE(random(lone));
}

TEST(ChunkOpenerTest, NoDescriptorStaysOpen) {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  SampleDataset data;
  data.add(items_of_chunk(0, 3));
  const ChunkOpener opener = opener_of(data);
  const auto before = descriptors();
  std::vector<ChunkView> views;
  for (int i = 0; i < 20; ++i) views.push_back(opener.open(0, kWhole));
  EXPECT_EQ(descriptors(), before);
}

TEST(ChunkOpenerTest, AnOpenChunkSurvivesItsName) {
  SampleDataset data;
  data.add(items_of_chunk(0, 3));
  const ChunkView view = opener_of(data).open(0, kLone);
  std::filesystem::remove(data.rows.path(0));
  EXPECT_EQ(to_buffer(view.item_span(1)), items_of_chunk(0, 3)[1]);
}

const Buffer kFramedMark{'L', 'D', 'F', 'Z', '0', '1', 0, 0};
const Buffer kArrowMark{'L', 'D', 'A', 'R', 'W', '0', '1', 0};

void expect_foreign(const Buffer& file, const std::string& layout) {
  for (const bool compressed : {false, true}) {
    SampleDataset data(compressed);
    data.add_file(file, 2, file.size());
    for (const Purpose purpose : kPurposes) {
      const Error error = refusal(opener_of(data), 0, purpose);
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_TRUE(contains(error.message(), "the chunk has the " + layout + " layout"))
          << error.what();
    }
  }
}

TEST(ChunkOpenerTest, OtherLayoutsAreNamed) {
  Buffer framed(100, 7);
  std::ranges::copy(kFramedMark, framed.begin());
  expect_foreign(framed, "framed zstd");
  Buffer arrow(100, 7);
  std::ranges::copy(kArrowMark, arrow.end() - 8);
  expect_foreign(arrow, "Arrow-footer");
}

TEST(ChunkOpenerTest, AGoodChunkMayEndAsItLikes) {
  SampleDataset data;
  data.add({{1}, kArrowMark});
  for (const Purpose purpose : kPurposes) {
    EXPECT_EQ(to_buffer(opener_of(data).open(0, purpose).item_span(1)), kArrowMark);
  }
}

// Datasets of older writers: compressed, neither size nor checksum of the file in the index.
class OldCompressedTest : public ::testing::Test {
 protected:
  OldCompressedTest() {
    data_.add(items_of_chunk(0, 200, 50));
    data_.rows.file_bytes[0] = 0;
    data_.rows.has_checksum[0] = 0;
    good_ = data_.get(0);
  }
  Error refusal_of(const Buffer& file) {
    data_.put(0, file);
    Error error = refusal(opener_of(data_), 0, kWhole);
    EXPECT_TRUE(contains(error.message(), "zstd bytes, expected to hold")) << error.what();
    return error;
  }
  SampleDataset data_{true};
  Buffer good_;
};

TEST_F(OldCompressedTest, GoodFilesOpen) {
  for (const Purpose purpose : kPurposes) EXPECT_TRUE(opens(opener_of(data_), 0, purpose));
}

TEST_F(OldCompressedTest, EveryCutIsNoticed) {
  for (std::size_t size = 0; size < good_.size(); size += 1 + size / 10) {
    const auto end = good_.begin() + static_cast<std::ptrdiff_t>(size);
    EXPECT_EQ(refusal_of(Buffer(good_.begin(), end)).code(), ErrorCode::kCorrupt);
  }
}

TEST_F(OldCompressedTest, LongerFilesAreNoticed) {
  Buffer file = good_;
  file.push_back(0);
  EXPECT_EQ(refusal_of(file).code(), ErrorCode::kCorrupt);
  Buffer twice = good_;
  twice.insert(twice.end(), good_.begin(), good_.end());
  EXPECT_EQ(refusal_of(twice).code(), ErrorCode::kCorrupt);
}

TEST_F(OldCompressedTest, AnUncompressedFileIsNoticed) {
  EXPECT_EQ(refusal_of(chunk_of(items_of_chunk(0, 200, 50))).code(), ErrorCode::kCorrupt);
}

TEST_F(OldCompressedTest, AnotherSizeThanTheIndexSays) {
  const std::uint64_t raw = data_.rows.raw_bytes[0];
  for (const std::uint64_t wrong : {std::uint64_t{0}, raw - 1, raw + 1}) {
    data_.rows.raw_bytes[0] = wrong;
    EXPECT_EQ(refusal_of(good_).code(), ErrorCode::kCorrupt);
  }
}

}  // namespace
}  // namespace stoker
