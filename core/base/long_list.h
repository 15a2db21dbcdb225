// Lists in messages that may have very many words.
#pragma once

#include <string>
#include <vector>

#include <fmt/ranges.h>

namespace nystrom {

/// The first words with commas between them, and behind `most` of them how many more there are:
/// "a, b and 3 more".
inline std::string long_list(std::vector<std::string> words, std::size_t most = 8) {
  if (words.size() <= most) return fmt::format("{}", fmt::join(words, ", "));
  const std::size_t more = words.size() - most;
  words.resize(most);
  return fmt::format("{} and {} more", fmt::join(words, ", "), more);
}

}  // namespace nystrom
