// SPDX-License-Identifier: Apache-2.0
// What the kernel knows about the mapping that holds an address (/proc/self/smaps).
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace stoker::test {

struct MappingFacts {
  std::uint64_t resident_kib = 0;
  std::string flags;  // " rd mr rr ": two letters each, a blank on both sides

  [[nodiscard]] bool has(const std::string& flag) const {
    return flags.find(" " + flag + " ") != std::string::npos;
  }
};

[[nodiscard]] inline std::optional<MappingFacts> mapping_at(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream smaps("/proc/self/smaps");
  std::optional<MappingFacts> facts;
  for (std::string line; std::getline(smaps, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    const std::size_t dash = word.find('-');
    if (word.back() != ':' && dash != std::string::npos) {
      if (facts) return facts;  // the next mapping begins
      const std::uintptr_t begin = std::stoull(word.substr(0, dash), nullptr, 16);
      const std::uintptr_t end = std::stoull(word.substr(dash + 1), nullptr, 16);
      if (begin <= wanted && wanted < end) facts.emplace();
    } else if (facts && word == "Rss:") {
      words >> facts->resident_kib;
    } else if (facts && word == "VmFlags:") {
      facts->flags = line.substr(line.find(':') + 1) + " ";
    }
  }
  return facts;
}

}  // namespace stoker::test
