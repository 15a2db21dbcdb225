#include "core/base/suggest.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "core/base/ascii.h"

namespace nystrom {
namespace {

constexpr std::size_t longest_word = 256;

}  // namespace

std::optional<int> edit_distance(std::string_view a, std::string_view b, int limit) {
  const int rows = static_cast<int>(a.size());
  const int columns = static_cast<int>(b.size());
  if (std::abs(rows - columns) > limit) return std::nullopt;
  // Row i holds the distances of a's first i letters to every prefix of b. A swap needs the row
  // before the last.
  std::vector<int> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (int j = 0; j <= columns; ++j) row[j] = j;
  for (int i = 1; i <= rows; ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (int j = 1; j <= columns; ++j) {
      const char x = ascii_lower(a[i - 1]);
      const char y = ascii_lower(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (x == y ? 0 : 1)});
      const bool swapped =
          i > 1 && j > 1 && x == ascii_lower(b[j - 2]) && ascii_lower(a[i - 2]) == y;
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    const int best = std::min(*std::min_element(row.begin(), row.end()),
                              *std::min_element(above.begin(), above.end()));
    if (best > limit) return std::nullopt;
  }
  return row[columns] <= limit ? std::optional(row[columns]) : std::nullopt;
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known) {
  std::optional<std::string> best;
  int best_distance = 0;
  if (word.size() > longest_word) return best;
  for (const std::string& candidate : known) {
    if (candidate.size() > longest_word) continue;
    const int longer = static_cast<int>(std::max(word.size(), candidate.size()));
    const int near = std::min(std::max(1, longer / 4), std::max(0, longer - 1));
    const auto distance =
        edit_distance(word, candidate, best ? std::min(near, best_distance - 1) : near);
    if (!distance) continue;
    best = candidate;
    best_distance = *distance;
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  const auto word_meant = nearest(word, known);
  return word_meant ? "; did you mean '" + *word_meant + "'?" : "";
}

}  // namespace nystrom
