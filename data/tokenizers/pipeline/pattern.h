// Regular expressions of a tokenizer.json: Oniguruma's, as in Hugging Face's tokenizers.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/pipeline/aligned_text.h"

struct re_pattern_buffer;  // Oniguruma's compiled expression

namespace nystrom {

/// A regular expression in Oniguruma's own syntax over UTF-8. Character classes follow the Unicode
/// version of the Oniguruma library. Const members are safe to use from several threads.
class Pattern {
 public:
  // Limits of an expression.
  static constexpr std::size_t max_bytes = 1'000'000;
  static constexpr int max_captures = 1000;
  static constexpr unsigned max_depth = 250;  ///< of Oniguruma's parser, some two a group
  static constexpr int max_nested_looks = 3;  ///< look-arounds one inside another
  static constexpr int max_classes = 10'000;  ///< of characters: \w, \p{L}, […]
  static constexpr int max_calls = 20;        ///< of groups, \g<name>

  /// `where` begins the message of every error. Throws InputError for an invalid expression, with
  /// Oniguruma's reason, and for one beyond a limit above.
  Pattern(std::string_view expression, const std::string& where);

  /// The matches in `text`, valid UTF-8, from left to right; they do not overlap. A match may be
  /// empty, but not where the match before it ends; an empty text has none. Throws InputError when
  /// the searches, repeated ones included, backtrack more than 10 million times plus 1000 times a
  /// byte, when one needs more than 4 million places to go back to, when the expression asks for an
  /// error, and when a match begins inside the one before (\K in a look-behind).
  std::vector<ByteRange> find_all(std::string_view text) const;

 private:
  struct Free {
    void operator()(re_pattern_buffer* regex) const;
  };

  /// Throws InputError for Oniguruma's error of a search.
  [[noreturn]] void fail(int code, std::size_t text_bytes) const;

  std::unique_ptr<re_pattern_buffer, Free> regex_;
  std::string expression_, where_;
};

}  // namespace nystrom
