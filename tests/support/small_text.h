// A text for pretraining: 300 lines of twelve random words.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>

namespace nystrom::testing {

inline void write_small_text(const std::filesystem::path& path) {
  std::ofstream text(path);
  const char* words[] = {"the",  "sea",   "was",  "calm",  "and",   "old", "ships", "sailed",
                         "home", "under", "pale", "stars", "while", "men", "sang"};
  std::uint32_t state = 1;
  for (int line = 0; line < 300; ++line) {
    for (int word = 0; word < 12; ++word)
      text << words[((state = state * 1664525u + 1013904223u) >> 16) % 15] << ' ';
    text << '\n';
  }
}

}  // namespace nystrom::testing
