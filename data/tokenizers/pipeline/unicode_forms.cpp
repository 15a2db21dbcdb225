// Unicode normalization forms of aligned text.
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/check.h"
#include "data/tokenizers/pipeline/normalizers.h"
#include "data/tokenizers/pipeline/unicode.h"

namespace nystrom {
namespace {

int combining_class(char32_t c) {
  if (c < 0x300) return 0;
  const int its_class = utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
  return its_class != 0 && is_mark(c) ? its_class : 0;
}

/// Sorts the marks of `changes` from `first` on by combining class. The sort is stable.
void sort_marks(std::vector<Change>& changes, std::size_t first) {
  if (changes.size() - first < 2) return;
  std::stable_sort(changes.begin() + static_cast<std::ptrdiff_t>(first), changes.end(),
                   [](const Change& a, const Change& b) {
                     return combining_class(a.character) < combining_class(b.character);
                   });
}

std::vector<Change> decompose(std::string_view text, bool compatible) {
  const auto options = static_cast<utf8proc_option_t>(
      compatible ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT : UTF8PROC_DECOMPOSE);
  std::vector<Change> changes;
  changes.reserve(text.size());
  std::size_t marks = 0;  // start of the marks after the last starter
  for_each_character(text, [&](char32_t c) {
    if (c < 0x80 || is_undecomposed(c)) {
      sort_marks(changes, marks);
      changes.push_back({c, 0});
      marks = changes.size();
      return;
    }
    /// The longest decomposition has 18 characters (U+FDFA).
    std::array<utf8proc_int32_t, 32> parts;
    int last_class = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(),
                                               parts.size(), options, &last_class);
    require(count >= 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()),
            "utf8proc cannot decompose U+{:04X}", static_cast<std::uint32_t>(c));
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      const auto part = static_cast<char32_t>(parts[static_cast<std::size_t>(i)]);
      if (combining_class(part) == 0) {
        sort_marks(changes, marks);
        marks = changes.size() + 1;
      }
      changes.push_back({part, i > 0 ? 1 : 0});
    }
  });
  sort_marks(changes, marks);
  return changes;
}

/// The composition of two characters, if they have one.
std::optional<char32_t> composed(char32_t first, char32_t second) {
  if (second < 0x80) return std::nullopt;
  std::array<utf8proc_int32_t, 3> pair{static_cast<utf8proc_int32_t>(first),
                                       static_cast<utf8proc_int32_t>(second), 0};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  if (utf8proc_normalize_utf32(pair.data(), 2, options) != 1) return std::nullopt;
  const auto made = static_cast<char32_t>(pair[0]);
  return is_undecomposed(made) ? std::nullopt : std::optional(made);
}

/// Unicode's composition (UAX 15) of decomposed text. A composed character has the origins of both
/// parts.
std::vector<Change> compose(const std::vector<Change>& changes) {
  std::vector<Change> result;
  result.reserve(changes.size());
  std::optional<std::size_t> starter;  // index in `result`
  int last_class = 0;                  // class of the last character after the starter; 0: none
  for (const Change& each : changes) {
    const int its_class = combining_class(each.character);
    const bool adjacent = starter && result.size() == *starter + 1;
    if (starter && (adjacent || last_class < its_class)) {
      if (const auto made = composed(result[*starter].character, each.character)) {
        Change& target = result[*starter];
        target = {*made, target.change + each.change - 1};
        continue;
      }
    }
    if (its_class == 0) starter = result.size();
    last_class = its_class;
    result.push_back(each);
  }
  return result;
}

}  // namespace

void normalize_unicode(AlignedText& text, bool compatible, bool compose_again) {
  if (text.is_ascii()) return;
  std::vector<Change> changes = decompose(text.text(), compatible);
  text.transform(compose_again ? compose(changes) : changes);
}

}  // namespace nystrom
