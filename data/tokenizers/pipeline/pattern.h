// The regular expressions of a tokenizer.json. Hugging Face's tokenizers use Oniguruma too.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/pipeline/aligned_text.h"

struct re_pattern_buffer;  // compiled expression of Oniguruma

namespace nystrom {

class JsonPart;

/// A regular expression in Oniguruma's own syntax over UTF-8. Character classes follow the Unicode
/// version of the Oniguruma library. Const members may be called from several threads.
class Pattern {
 public:
  // Limits of an expression.
  static constexpr std::size_t max_bytes = 1'000'000;
  static constexpr int max_captures = 1000;
  static constexpr unsigned max_depth = 250;  ///< of Oniguruma's parser, about two per group
  static constexpr int max_nested_looks = 3;  ///< nesting depth of look-arounds
  static constexpr int max_classes = 10'000;  ///< character classes: \w, \p{L}, […]
  static constexpr int max_calls = 20;        ///< calls of groups, \g<name>

  /// Compiles an expression. Every error message starts with `where`. Throws an InputError with
  /// Oniguruma's reason for an invalid expression, and for one beyond a limit above.
  Pattern(std::string_view expression, const std::string& where);

  /// Returns the matches in `text`, which must be valid UTF-8, from left to right. Matches do not
  /// overlap. A match may be empty, but not at the end of the match before it; an empty text has no
  /// matches.
  ///
  /// Throws an InputError in four cases:
  /// - The searches, with repeated ones, backtrack more than 10 million times plus 1000 times for
  ///   each byte.
  /// - One search needs more than 4 million backtracking positions.
  /// - The expression itself requests an error.
  /// - A match begins inside the match before it (\K in a look-behind).
  std::vector<ByteRange> find_all(std::string_view text) const;

 private:
  struct Free {
    void operator()(re_pattern_buffer* regex) const;
  };

  std::unique_ptr<re_pattern_buffer, Free> regex_;
  std::string expression_, where_;
};

/// Returns the places of a text that match, from left to right; they do not overlap. Throws as
/// Pattern::find_all.
using Matcher = std::function<std::vector<ByteRange>(std::string_view text)>;
/// Reads {"String": text} or {"Regex": expression}. The empty text is an expression too: it matches
/// before every character. Throws an InputError for anything else, and as Pattern's constructor.
Matcher read_matcher(const JsonPart& part);

}  // namespace nystrom
