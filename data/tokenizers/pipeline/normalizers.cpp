#include "data/tokenizers/pipeline/normalizers.h"

#include <array>

#include "core/base/json_part.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/pattern.h"
#include "data/tokenizers/pipeline/unicode.h"

namespace nystrom {
namespace {

void lower(AlignedText& text) {
  constexpr char32_t capital_i_with_dot = 0x130;  // the only lower case of two characters
  if (text.text().find("\xC4\xB0") == std::string::npos) return text.map(lower_case);
  std::vector<Change> changes;
  for_each_character(text.text(), [&](char32_t c) {
    changes.push_back({c == capital_i_with_dot ? U'i' : lower_case(c), 0});
    if (c == capital_i_with_dot) changes.push_back({0x307, 1});
  });
  text.transform(changes);
}

bool is_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
         (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

void clean(AlignedText& text) {
  text.filter([](char32_t c) {
    if (c < 0x80) return (c >= 0x20 && c != 0x7F) || c == '\t' || c == '\n' || c == '\r';
    return c != 0xFFFD && !is_control_beyond_ascii(c);
  });
  text.map([](char32_t c) { return is_white_space(c) ? U' ' : c; });
}

void separate_ideographs(AlignedText& text) {
  if (text.is_ascii()) return;
  std::vector<Change> changes;
  changes.reserve(text.size());
  bool any = false;
  for_each_character(text.text(), [&](char32_t c) {
    if (!is_ideograph(c)) return changes.push_back({c, 0});
    any = true;
    changes.insert(changes.end(), {{' ', 0}, {c, 1}, {' ', 1}});
  });
  if (any) text.transform(changes);
}

void strip_marks(AlignedText& text, bool (*is_one)(char32_t)) {
  constexpr char32_t first_mark = 0x300;
  if (text.is_ascii()) return;
  text.filter([is_one](char32_t c) { return c < first_mark || !is_one(c); });
}

void strip(AlignedText& text, bool left, bool right) {
  const std::size_t size = text.size(),
                    begin = left ? end_while(text.text(), 0, is_white_space) : 0,
                    end = right && begin < size ? spaces_begin(text.text(), size) : size;
  if (begin > 0 || end < size) text = text.slice(byte_range(begin, end));
}

/// The normalization of the WMT corpora's tokenizers.
void clean_as_nmt(AlignedText& text) {
  text.filter([](char32_t c) {
    return !((c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
             c == 0x8F || c == 0x9F);
  });
  text.map([](char32_t c) {
    const bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                       c == 0xFEFF || c == 0xFFFD;
    return space ? U' ' : c;
  });
}

// The characters for bytes in byte-level vocabularies. Bytes that are printable in Latin-1 stand
// for themselves; other bytes use the characters from U+0100 on.

bool prints(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct ByteTable {
  std::array<std::string, 256> characters;
  std::array<int, 0x144> bytes;

  ByteTable() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const char32_t character = prints(byte) ? static_cast<char32_t>(byte) : next++;
      append_utf8(characters[static_cast<std::size_t>(byte)], character);
      bytes[character] = byte;
    }
  }
};

const ByteTable& byte_table() {
  static const ByteTable made;
  return made;
}

/// Replaces every byte by its character.
void to_byte_level(AlignedText& text) {
  std::vector<Change> changes;
  changes.reserve(text.size());
  for (const char byte : text.text()) {
    std::size_t start = 0;
    const char32_t character =
        next_code_point(byte_level_character(static_cast<unsigned char>(byte)), start);
    changes.push_back({character, is_utf8_continuation(byte) ? 1 : 0});
  }
  text.transform(changes);
}

TextNormalizer read_replacing_normalizer(const JsonPart& part) {
  const JsonPart pattern = part["pattern"];
  const std::string content = part["content"].text();
  return [find = read_matcher(pattern), content](AlignedText& text) {
    text.replace(find(text.text()), content);
  };
}

TextNormalizer read_normalizer_sequence(const JsonPart& part) {
  std::vector<TextNormalizer> steps;
  for (const JsonPart& each : part["normalizers"].elements())
    steps.push_back(read_normalizer(each));
  return [steps = std::move(steps)](AlignedText& text) {
    for (const TextNormalizer& each : steps) each(text);
  };
}

TextNormalizer read_bert(const JsonPart& part) {
  const bool cleans = part.boolean_or("clean_text", true),
             separates = part.boolean_or("handle_chinese_chars", true),
             lowers = part.boolean_or("lowercase", true),
             strips = part.boolean_or("strip_accents", lowers);
  return [=](AlignedText& text) {
    if (cleans) clean(text);
    if (separates) separate_ideographs(text);
    if (strips) {
      normalize_unicode(text, false, false);
      strip_marks(text, is_nonspacing_mark);
    }
    if (lowers) lower(text);
  };
}

}  // namespace

const std::string& byte_level_character(unsigned char byte) {
  return byte_table().characters[byte];
}

int byte_of_character(char32_t character) {
  return character < byte_table().bytes.size() ? byte_table().bytes[character] : -1;
}

TextNormalizer read_normalizer(const JsonPart& part) {
  const std::string type = part["type"].text();
  if (type == "Sequence") return read_normalizer_sequence(part);
  if (type == "NFC") return [](AlignedText& text) { normalize_unicode(text, false, true); };
  if (type == "NFD") return [](AlignedText& text) { normalize_unicode(text, false, false); };
  if (type == "NFKC") return [](AlignedText& text) { normalize_unicode(text, true, true); };
  if (type == "NFKD") return [](AlignedText& text) { normalize_unicode(text, true, false); };
  if (type == "Lowercase") return lower;
  if (type == "StripAccents") return [](AlignedText& text) { strip_marks(text, is_mark); };
  if (type == "BertNormalizer") return read_bert(part);
  if (type == "Replace") return read_replacing_normalizer(part);
  if (type == "Prepend")
    return [prefix = part["prepend"].text()](AlignedText& text) { text.prepend(prefix); };
  if (type == "Nmt") return clean_as_nmt;
  if (type == "ByteLevel") return to_byte_level;
  if (type == "Precompiled") {
    const JsonPart charsmap = part["precompiled_charsmap"];
    return precompiled_normalizer(charsmap.text(), charsmap.where());
  }
  if (type == "Strip") {
    const bool left = part.boolean_or("strip_left", true),
               right = part.boolean_or("strip_right", true);
    return [left, right](AlignedText& text) { strip(text, left, right); };
  }
  part.fail(
      fmt::format("normalizers of type '{}' are not supported; known are BertNormalizer, "
                  "ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, "
                  "Nmt, Precompiled, Prepend, Replace, Sequence, Strip and StripAccents",
                  printable(type)));
}

}  // namespace nystrom
