#include "data/tokenizers/pipeline/decoders.h"

#include <algorithm>
#include <charconv>

#include "core/base/json_part.h"
#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/normalizers.h"
#include "data/tokenizers/pipeline/pattern.h"
#include "data/tokenizers/pipeline/pre_tokenizers.h"

namespace nystrom {
namespace {

using Parts = std::vector<std::string>;

/// The limit stops a hostile tokenizer.json from producing texts of any size.
constexpr std::size_t longest_text = std::size_t{1} << 24;

void check_size(std::size_t bytes) {
  require_input(bytes <= longest_text, "the tokenizer's decoder makes a text of more than {} bytes",
                longest_text);
}

/// Replaces parts of a text, which are in order.
void replace(std::string& text, const std::vector<ByteRange>& parts, std::string_view content) {
  if (parts.empty()) return;
  std::string made;
  std::size_t done = 0;
  for (const ByteRange& part : parts) {
    check_size(made.append(text, done, part.begin - done).append(content).size());
    done = part.end;
  }
  text = made.append(text, done);
}

void replace_all(std::string& text, std::string_view searched, std::string_view content) {
  if (!searched.empty()) replace(text, places_of(text, searched), content);
}

/// The number of bytes at the start of `bytes`, which begin no whole character, that a character
/// may begin with; at least 1.
std::size_t length_of_prefix(std::string_view bytes) {
  std::size_t length = std::min<std::size_t>(bytes.size(), 3);
  const auto begins_one = [&] {
    return valid_utf8_character(std::string(bytes.substr(0, length)) + "\x80\x80") > length;
  };
  while (length > 1 && !begins_one()) --length;
  return length;
}

/// Replaces invalid UTF-8: each longest prefix of a character becomes one U+FFFD.
std::string to_utf8(std::string_view bytes) {
  std::string text;
  while (true) {
    const std::size_t good = valid_utf8_prefix(bytes);
    text += bytes.substr(0, good);
    bytes.remove_prefix(good);
    if (bytes.empty()) return text;
    text += "\xEF\xBF\xBD";
    bytes.remove_prefix(length_of_prefix(bytes));
  }
}

/// Converts runs of pieces <0x…> to the text of their bytes. Invalid UTF-8 becomes one U+FFFD for
/// each byte.
void join_bytes(Parts& parts) {
  Parts made;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (is_valid_utf8(bytes))
      made.push_back(bytes);
    else
      made.insert(made.end(), bytes.size(), "\xEF\xBF\xBD");
    bytes.clear();
  };
  for (const std::string& part : parts) {
    if (const auto byte = byte_of_piece(part)) {
      bytes += *byte;
      continue;
    }
    flush();
    made.push_back(part);
  }
  flush();
  parts = std::move(made);
}

void fuse(Parts& parts) {
  std::string all;
  for (const std::string& part : parts) all += part;
  parts = {all};
}

Decoder read_metaspace_decoder(const JsonPart& part) {
  const std::string mark = part["replacement"].text();
  if (mark.empty()) part["replacement"].fail("expected one character");
  const bool prepends = read_prepend_scheme(part) != "never";
  return [mark, prepends](Parts& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i)
      replace_all(parts[i], mark, i == 0 && prepends ? "" : " ");
  };
}

Decoder read_replacing_decoder(const JsonPart& part) {
  const JsonPart pattern = part["pattern"];
  const std::string content = part["content"].text();
  return [find = read_matcher(pattern), content](Parts& parts) {
    std::size_t bytes = 0;
    for (std::string& each : parts) {
      replace(each, find(each), content);
      check_size(bytes += each.size());
    }
  };
}

/// Removes up to `start` characters `content` from the beginning of each part and up to `stop` from
/// its end.
Decoder read_strip(const JsonPart& part) {
  constexpr std::int64_t most = 1'000'000;
  const std::string content = part["content"].text();
  if (content.empty() || utf8_length(content[0]) != content.size())
    part["content"].fail("expected one character");
  const std::int64_t start = part["start"].integer(0, most), stop = part["stop"].integer(0, most);
  return [content, start, stop](Parts& parts) {
    for (std::string& each : parts) {
      std::string_view rest = each;
      for (std::int64_t i = 0; i < start && rest.starts_with(content); ++i)
        rest.remove_prefix(content.size());
      for (std::int64_t i = 0; i < stop && rest.ends_with(content); ++i)
        rest.remove_suffix(content.size());
      each = std::string(rest);
    }
  };
}

Decoder read_decoder_sequence(const JsonPart& part) {
  std::vector<Decoder> steps;
  for (const JsonPart& each : part["decoders"].elements()) steps.push_back(read_decoder(each));
  return [steps = std::move(steps)](Parts& parts) {
    for (const Decoder& each : steps) each(parts);
  };
}

/// BERT's decoder: a space before each piece without the prefix.
Decoder read_wordpiece_decoder(const JsonPart& part) {
  const std::string prefix = part.text_or("prefix", "##");
  const bool cleanup = part.boolean_or("cleanup", true);
  return [prefix, cleanup](Parts& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::string& each = parts[i];
      if (i > 0) each.starts_with(prefix) ? each.erase(0, prefix.size()) : each.insert(0, " ");
      if (cleanup) {
        each = clean_up_spaces(std::move(each));
        replace_all(each, " do not", " don't");
      }
    }
  };
}

/// Converts byte-level characters to bytes. Invalid UTF-8 becomes U+FFFD.
void decode_byte_level(Parts& parts) {
  std::string bytes;
  for (const std::string& part : parts) {
    std::string made;
    bool known = true;
    for_each_character(part, [&](char32_t c) {
      const int byte = byte_of_character(c);
      known &= byte >= 0;
      made += static_cast<char>(byte);
    });
    bytes += known ? made : part;
  }
  parts = {to_utf8(bytes)};
}

}  // namespace

std::optional<char> byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
  unsigned value = 0;
  const char* const end = piece.data() + 5;
  if (std::from_chars(piece.data() + 3, end, value, 16).ptr != end) return std::nullopt;
  return static_cast<char>(value);
}

std::string clean_up_spaces(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> rules[] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [searched, content] : rules) replace_all(text, searched, content);
  return text;
}

Decoder read_decoder(const JsonPart& part) {
  const std::string type = part["type"].text();
  if (type == "Sequence") return read_decoder_sequence(part);
  if (type == "ByteLevel") return decode_byte_level;
  if (type == "WordPiece") return read_wordpiece_decoder(part);
  if (type == "Metaspace") return read_metaspace_decoder(part);
  if (type == "Replace") return read_replacing_decoder(part);
  if (type == "ByteFallback") return join_bytes;
  if (type == "Fuse") return fuse;
  if (type == "Strip") return read_strip(part);
  if (type == "BPEDecoder") {
    const std::string suffix = part.text_or("suffix", "</w>");
    if (suffix.empty()) part["suffix"].fail("is empty; expected a suffix, as </w>");
    return [suffix](Parts& parts) {
      for (std::size_t i = 0; i < parts.size(); ++i)
        replace_all(parts[i], suffix, i + 1 == parts.size() ? "" : " ");
    };
  }
  part.fail(
      fmt::format("decoders of type '{}' are not supported; known are BPEDecoder, ByteFallback, "
                  "ByteLevel, Fuse, Metaspace, Replace, "
                  "Sequence, Strip and WordPiece",
                  printable(type)));
}

}  // namespace nystrom
