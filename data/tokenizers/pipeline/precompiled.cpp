// The Precompiled normalizer of a tokenizer.json.
#include <utf8proc.h>

#include <array>
#include <optional>

#include "core/check.h"
#include "data/tokenizers/pipeline/normalizers.h"
#include "data/tokenizers/sentencepiece_scan.h"

namespace nystrom {
namespace {

constexpr std::size_t longest_grapheme = 5;

int digit_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

std::string from_base64(std::string_view text, const std::string& where) {
  require_input(text.size() % 4 == 0, "{}: base64 of {} characters; expected a multiple of 4",
                where, text.size());
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  text.remove_suffix(padding);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t group = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int digit = digit_of(text[i]);
    require_input(digit >= 0, "{}: character {} is not of base64", where, i);
    group = group << 6 | static_cast<std::uint32_t>(digit);
    if (i % 4 > 0) bytes += static_cast<char>(group >> (6 - 2 * (i % 4)) & 0xFF);
  }
  return bytes;
}

/// Returns the end of the grapheme cluster that starts at `begin`.
std::size_t grapheme_end(std::string_view text, std::size_t begin) {
  std::size_t end = begin;
  auto last = static_cast<utf8proc_int32_t>(next_code_point(text, end));
  utf8proc_int32_t state = 0;
  while (end < text.size()) {
    std::size_t behind = end;
    const auto next = static_cast<utf8proc_int32_t>(next_code_point(text, behind));
    if (utf8proc_grapheme_break_stateful(last, next, &state)) break;
    last = next;
    end = behind;
  }
  return end;
}

/// Appends changes that replace `count` characters by `made`. Extra characters are inserted;
/// missing ones are removed after the last.
void put(std::vector<Change>& changes, std::string_view made, std::size_t count) {
  std::size_t put = 0;
  for_each_character(made, [&](char32_t c) { changes.push_back({c, put++ < count ? 0 : 1}); });
  if (put < count && !changes.empty()) changes.back().change -= static_cast<int>(count - put);
}

class Precompiled {
 public:
  Precompiled(std::string_view base64, const std::string& where)
      : charsmap_(std::make_shared<const std::string>(from_base64(base64, where))) {
    check_charsmap(*charsmap_, where);
    for (std::size_t c = 1; c < changes_ascii_.size(); ++c) {
      const char character = static_cast<char>(c);
      changes_ascii_[c] = replacement({&character, 1}).has_value();
    }
  }

  void operator()(AlignedText& aligned) const {
    const std::string_view text = aligned.text();
    const auto is_plain = [&](std::size_t i) { return static_cast<unsigned char>(text[i]) < 0x80; };
    std::vector<Change> changes;
    changes.reserve(text.size());
    bool changed = false;
    for (std::size_t begin = 0; begin < text.size();) {
      const bool alone = is_plain(begin) && text[begin] != '\r' &&
                         (begin + 1 == text.size() || is_plain(begin + 1));
      if (alone && !changes_ascii_[static_cast<unsigned char>(text[begin])]) {
        changes.push_back({static_cast<char32_t>(text[begin++]), 0});
        continue;
      }
      const std::size_t end = grapheme_end(text, begin);
      const std::string_view grapheme = text.substr(begin, end - begin);
      const auto whole = grapheme.size() <= longest_grapheme ? replacement(grapheme) : std::nullopt;
      if (whole) {
        put(changes, *whole, count_characters(grapheme));
        changed = true;
      }
      for (std::size_t at = begin; !whole && at < end;) {
        const std::string_view character = text.substr(at, utf8_length(text[at]));
        const auto found = replacement(character);
        changed |= found.has_value();
        put(changes, found.value_or(character), 1);
        at += character.size();
      }
      begin = end;
    }
    if (changed) aligned.transform(changes);
  }

 private:
  std::optional<std::string_view> replacement(std::string_view text) const {
    return find_replacement(*charsmap_, text, CharsmapKey::shortest);
  }

  std::shared_ptr<const std::string> charsmap_;
  std::array<bool, 128> changes_ascii_{};
};

}  // namespace

TextNormalizer precompiled_normalizer(std::string_view base64, const std::string& where) {
  return Precompiled(base64, where);
}

}  // namespace nystrom
