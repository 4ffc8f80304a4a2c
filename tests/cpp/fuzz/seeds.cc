// SPDX-License-Identifier: Apache-2.0
#include "fuzz/seeds.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "temp_dir.h"

namespace stoker::fuzz {
namespace {

void write_seeds(const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  std::size_t number = 0;
  for (const Seed& seed : make_seeds()) {
    test::write_text(directory / ("seed-" + std::to_string(number++)),
                     {reinterpret_cast<const char*>(seed.data()), seed.size()});
  }
}

}  // namespace

void require(bool promise) {
  if (!promise) std::abort();
}

}  // namespace stoker::fuzz

int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kOption = "--seeds=";  // libFuzzer leaves "--" to the target
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (!argument.starts_with(kOption)) continue;
    stoker::fuzz::write_seeds(argument.substr(kOption.size()));
    std::exit(0);
  }
  return 0;
}
