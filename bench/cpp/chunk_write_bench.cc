// SPDX-License-Identifier: Apache-2.0
// Question: what share of memcpy + write of the same bytes does writing a chunk reach, for samples
// of 100 kB in chunks of 64 MB?
//
// The limit copies every sample once into a warm buffer and writes that to a new file. Ours is what
// a writer does: ChunkBuilder, header, XXH3-64 of the whole file, File::append, publish. `ratio` is
// the limit's CPU time (system time included) divided by ours, taken in turn on one thread: 0.9
// means 90 % of the limit's speed. The checksum alone costs about 1 s per 20 GB. Files go to the
// temporary directory and are removed; the disk does not matter as long as the page cache holds
// them. Quick check: --benchmark_min_time=0.01
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "base/host_buffer.h"
#include "codec/checksum.h"
#include "format/chunk_builder.h"
#include "format/item_layout.h"
#include "io/file.h"
#include "paired.h"

namespace stoker::bench {
namespace {

constexpr std::size_t kSampleBytes = 100'000;
constexpr std::size_t kChunkBytes = 64'000'000;

class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "stoker-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed: " + name);
    path_ = name;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  [[nodiscard]] std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

std::vector<std::vector<std::uint8_t>> make_samples() {
  std::mt19937_64 random(1);
  std::vector<std::vector<std::uint8_t>> samples(kChunkBytes / kSampleBytes);
  for (std::vector<std::uint8_t>& sample : samples) {
    sample.resize(kSampleBytes);
    for (std::size_t i = 0; i + 8 <= kSampleBytes; i += 8) {
      const std::uint64_t word = random();
      std::memcpy(sample.data() + i, &word, sizeof word);
    }
  }
  return samples;
}

void copy_and_write(const std::vector<std::vector<std::uint8_t>>& samples, HostBuffer* buffer,
                    const std::string& path) {
  std::size_t used = 0;
  for (const std::vector<std::uint8_t>& sample : samples) {
    std::memcpy(buffer->data() + used, sample.data(), sample.size());
    used += sample.size();
  }
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) throw std::runtime_error("cannot create " + path);
  for (std::size_t done = 0; done < used;) {
    const ssize_t count = ::write(fd, buffer->data() + done, used - done);
    if (count <= 0) throw std::runtime_error("cannot write " + path);
    done += static_cast<std::size_t>(count);
  }
  ::close(fd);
}

void build_and_publish(const std::vector<std::vector<std::uint8_t>>& samples, ChunkBuilder* builder,
                       const std::string& tmp, const std::string& path) {
  builder->reset();
  for (const std::vector<std::uint8_t>& sample : samples) {
    const ByteSpan leaf(sample);
    std::array<std::uint8_t, 4> sizes{};
    write_leaf_sizes({&leaf, 1}, sizes.data());
    builder->append(std::array{ByteSpan(sizes), leaf}, 1);
  }
  const std::vector<std::uint8_t> header = builder->header();
  benchmark::DoNotOptimize(xxh3_64(header, builder->body()));
  {
    File file = File::create(tmp);
    file.append({header, builder->body()});
  }
  publish(tmp, path, Overwrite::kReplace);
}

void chunk_write(benchmark::State& state) {
  const std::vector<std::vector<std::uint8_t>> samples = make_samples();
  const ScratchDirectory directory;
  const std::string bare = directory.file("bare.bin");
  const std::string tmp = directory.file("chunk.bin.tmp");
  const std::string chunk = directory.file("chunk.bin");
  HostBuffer buffer(kChunkBytes);
  ChunkBuilder builder({.max_bytes = std::nullopt, .max_weight = samples.size()});
  // Each arm removes the other's file, so both write new pages and neither pays for its own
  // removal.
  run_paired(
      state,
      [&] {
        remove_file(chunk);
        copy_and_write(samples, &buffer, bare);
      },
      [&] {
        remove_file(bare);
        build_and_publish(samples, &builder, tmp, chunk);
      });
  state.counters["chunk_MB"] = static_cast<double>(kChunkBytes) / 1e6;
}
BENCHMARK(chunk_write)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stoker::bench

BENCHMARK_MAIN();
