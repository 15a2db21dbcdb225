// Sets of characters in regular expressions.
#pragma once

#include <bitset>
#include <cstdint>
#include <utility>
#include <vector>

namespace nystrom {

class CharacterSet {
 public:
  static CharacterSet of(char32_t c) { return CharacterSet().add(c, c); }
  static CharacterSet white_space();
  static CharacterSet word();
  static CharacterSet categories(std::uint32_t bits);

  CharacterSet& add(char32_t first, char32_t last);
  CharacterSet& add(CharacterSet set);
  CharacterSet& negate();
  CharacterSet& ignore_case();

  /// To be called when all is added.
  void finish();
  bool contains(char32_t c) const { return c < 0x80 ? ascii_[c] : finds(c); }

 private:
  bool finds(char32_t c) const;
  bool finds_as_written(char32_t c) const;

  std::vector<std::pair<char32_t, char32_t>> ranges_;
  std::vector<CharacterSet> sets_;
  std::uint32_t categories_ = 0;
  bool white_space_ = false, word_ = false, negated_ = false, ignores_case_ = false;
  std::bitset<128> ascii_;
};

}  // namespace nystrom
