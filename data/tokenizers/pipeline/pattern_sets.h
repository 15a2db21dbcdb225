// The part of a regular expression's parser that reads characters and sets of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "data/tokenizers/pipeline/character_set.h"

namespace nystrom {

/// A place in a regular expression that is being read.
class PatternSetReader {
 protected:
  static constexpr int max_nesting = 50;  // of groups and brackets

  PatternSetReader(std::string_view expression, const std::string& where)
      : text_(expression), where_(where) {}

  /// InputError that says what stands before the place.
  [[noreturn]] void fail(const std::string& what) const;
  bool at_end() const { return position_ >= text_.size(); }
  /// Moves behind `expected` if it stands here.
  bool accept(std::string_view expected);
  /// The next character; moves behind it.
  char32_t next();

  /// What a backslash, just passed, begins.
  CharacterSet escaped_set();
  /// What an opening bracket, just passed, begins.
  CharacterSet bracket();

  std::string_view text_;
  std::size_t position_ = 0;
  int nesting_ = 0;
  bool ignores_case_ = false;

 private:
  char32_t hexadecimal(std::size_t digits);
  std::optional<char32_t> escaped_character(char32_t c);
  CharacterSet property();
  std::optional<char32_t> member(CharacterSet& set);

  const std::string& where_;
};

}  // namespace nystrom
