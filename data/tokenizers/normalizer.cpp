#include "data/tokenizers/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "core/base/utf8.h"
#include "core/check.h"

namespace nystrom {
namespace {

// Python's str.isspace and SentencePiece's space.
constexpr std::pair<char32_t, char32_t> spaces[] = {
    {0x09, 0x0D},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
    {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
    {0x205F, 0x205F}, {0x2581, 0x2581}, {0x3000, 0x3000}};

bool is_space(char32_t code_point) {
  return std::any_of(std::begin(spaces), std::end(spaces), [&](const auto& range) {
    return code_point >= range.first && code_point <= range.second;
  });
}

bool is_accent(char32_t code_point) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point))->combining_class != 0;
}

class Normalizer {
 public:
  Normalizer(std::string_view source, const NormalizerOptions& options, bool with_origin)
      : source_(source), options_(options), with_origin_(with_origin) {
    result_.text.reserve(source.size());
    if (with_origin) result_.origin.reserve(source.size());
  }

  NormalText run() {
    std::size_t position = 0;
    while (position < source_.size()) {
      begin_ = position;
      const char32_t code_point = next_code_point(source_, position);
      if (code_point < 0x80 ? is_ascii_space(code_point) : is_space(code_point)) {
        space_pending_ = true;
        continue;
      }
      if (space_pending_ && !result_.text.empty()) put(' ');
      space_pending_ = false;
      const bool quotes = (code_point == '`' || code_point == '\'') && position < source_.size() &&
                          source_[position] == source_[begin_];
      if (quotes) {
        put('"');
        ++position;
      } else if (code_point < 0x80) {
        put(options_.lower_case && code_point >= 'A' && code_point <= 'Z' ? code_point + ('a' - 'A')
                                                                          : code_point);
      } else {
        decompose(code_point);
      }
    }
    return std::move(result_);
  }

 private:
  static bool is_ascii_space(char32_t code_point) {
    return code_point == ' ' || (code_point >= 0x09 && code_point <= 0x0D) ||
           (code_point >= 0x1C && code_point <= 0x1F);
  }

  void decompose(char32_t code_point) {
    if (options_.keep_accents) return lower(code_point);
    // The longest decomposition has 18 characters (U+FDFA).
    std::array<utf8proc_int32_t, 32> parts;
    int last_class = 0;
    const auto count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(code_point), parts.data(), parts.size(),
        static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT), &last_class);
    require(count >= 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()),
            "utf8proc cannot decompose U+{:04X}", static_cast<std::uint32_t>(code_point));
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      const auto part = static_cast<char32_t>(parts[static_cast<std::size_t>(i)]);
      if (!is_accent(part)) lower(part);
    }
  }

  void lower(char32_t code_point) {
    constexpr char32_t capital_i_with_dot = 0x130;  // the only lower case of two characters
    if (!options_.lower_case) return put(code_point);
    if (code_point == capital_i_with_dot) {
      put('i');
      return put(0x307);
    }
    put(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point))));
  }

  void put(char32_t code_point) {
    if (code_point < 0x80)
      result_.text += static_cast<char>(code_point);
    else
      append_utf8(result_.text, code_point);
    if (with_origin_)
      result_.origin.resize(result_.text.size(), static_cast<std::uint32_t>(begin_));
  }

  std::string_view source_;
  NormalizerOptions options_;
  bool with_origin_;
  std::size_t begin_ = 0;  // offset of the current character in source_
  bool space_pending_ = false;
  NormalText result_;
};

}  // namespace

NormalText normalize(std::string_view text, const NormalizerOptions& options, bool with_origin) {
  require(text.size() < (std::uint64_t{1} << 32),
          "normalize: got a text of {} bytes, expected less than 4 GiB", text.size());
  return Normalizer(text, options, with_origin).run();
}

std::vector<std::pair<char32_t, char32_t>> accent_ranges() {
  std::vector<std::pair<char32_t, char32_t>> ranges;
  for (char32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    if (!is_accent(code_point)) continue;
    if (!ranges.empty() && ranges.back().second + 1 == code_point)
      ranges.back().second = code_point;
    else
      ranges.emplace_back(code_point, code_point);
  }
  return ranges;
}

std::vector<std::pair<char32_t, char32_t>> white_space_ranges() {
  return {std::begin(spaces), std::end(spaces)};
}

}  // namespace nystrom
