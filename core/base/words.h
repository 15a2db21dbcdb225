// Words and numbers in texts.
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nystrom {

/// The parts of `text` between runs of these characters.
inline std::vector<std::string_view> words_between(std::string_view text, std::string_view blanks) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; (begin = text.find_first_not_of(blanks, begin)) != text.npos;) {
    const std::size_t end = std::min(text.find_first_of(blanks, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

/// The number that the whole of `text` is; nothing if it is none of this type.
template <class T>
std::optional<T> number_of(std::string_view text) {
  T value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

/// The same of a number that may have a plus sign, as those that people write.
template <class T = double>
std::optional<T> signed_number_of(std::string_view text) {
  const bool plus = text.starts_with('+') && !text.starts_with("+-");
  return number_of<T>(text.substr(plus ? 1 : 0));
}

/// The end of a message about a text that is no number: what to do about its comma.
inline const char* comma_hint(std::string text) {
  const std::size_t comma = text.find(',');
  if (comma == text.npos) return "";
  text[comma] = '.';
  return signed_number_of(text) ? "; write it without commas, with a decimal point" : "";
}

}  // namespace nystrom
