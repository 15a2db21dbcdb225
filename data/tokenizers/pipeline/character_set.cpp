#include "data/tokenizers/pipeline/character_set.h"

#include <algorithm>

#include "data/tokenizers/pipeline/unicode.h"

namespace nystrom {

CharacterSet CharacterSet::white_space() {
  CharacterSet set;
  set.white_space_ = true;
  return set;
}

CharacterSet CharacterSet::word() {
  CharacterSet set;
  set.word_ = true;
  return set;
}

CharacterSet CharacterSet::categories(std::uint32_t bits) {
  CharacterSet set;
  set.categories_ = bits;
  return set;
}

CharacterSet& CharacterSet::add(char32_t first, char32_t last) {
  ranges_.emplace_back(first, last);
  return *this;
}

CharacterSet& CharacterSet::add(CharacterSet set) {
  sets_.push_back(std::move(set));
  return *this;
}

CharacterSet& CharacterSet::negate() {
  negated_ = !negated_;
  return *this;
}

CharacterSet& CharacterSet::ignore_case() {
  ignores_case_ = true;
  return *this;
}

void CharacterSet::finish() {
  for (CharacterSet& set : sets_) set.finish();
  for (char32_t c = 0; c < 0x80; ++c) ascii_[c] = finds(c);
}

bool CharacterSet::finds_as_written(char32_t c) const {
  if (categories_ != 0 && (category_bit_of(c) & categories_) != 0) return true;
  if (white_space_ && is_white_space(c)) return true;
  if (word_ && is_word_character(c)) return true;
  if (std::any_of(ranges_.begin(), ranges_.end(),
                  [&](const auto& range) { return c >= range.first && c <= range.second; }))
    return true;
  return std::any_of(sets_.begin(), sets_.end(),
                     [&](const CharacterSet& set) { return set.finds(c); });
}

bool CharacterSet::finds(char32_t c) const {
  bool found = finds_as_written(c);
  if (!found && ignores_case_) {
    const auto upper = static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
    found = finds_as_written(upper) || finds_as_written(lower_case(upper)) ||
            finds_as_written(lower_case(c));
  }
  return found != negated_;
}

}  // namespace nystrom
