// Regular expressions as they stand in a tokenizer.json (Oniguruma's syntax, the part of it that
// tokenizers use).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/pipeline/aligned_text.h"

namespace nystrom {

/// Knows: characters and \n \r \t \f \v \uHHHH \xHH \x{H…}; . \s \S \d \D \w \W \p{L} \P{L} \p{^L}
/// with Unicode's categories, Han and the like not; [a-z\s[^x]] without &&; (…) (?:…) (?i:…) (?i)
/// (?=…) (?!…) (?<=x) (?<!x) of one character, (?>…); | ; ? * + {n,m}, lazy with ?, possessive with
/// +; ^ $ \A \z \Z \b \B. Case is folded character by character.
class Pattern {
 public:
  /// InputError "where: …" for what is not known or wrong.
  Pattern(std::string_view expression, const std::string& where);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  /// The places in valid UTF-8 where it matches, from left to right, none inside another. A match
  /// may be empty. InputError when that takes more steps than any sensible expression needs.
  std::vector<ByteRange> find_all(std::string_view text) const;

 private:
  struct Program;
  std::unique_ptr<Program> program_;
  std::string where_;
};

}  // namespace nystrom
