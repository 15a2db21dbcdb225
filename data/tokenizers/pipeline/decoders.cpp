#include "data/tokenizers/pipeline/decoders.h"

#include <optional>

#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/json_part.h"
#include "data/tokenizers/pipeline/normalizers.h"
#include "data/tokenizers/pipeline/pattern.h"

namespace nystrom {
namespace {

using Parts = std::vector<std::string>;

/// The limit stops a hostile tokenizer.json from producing texts of any size.
constexpr std::size_t longest_part = std::size_t{1} << 24;

void replace_all(std::string& text, std::string_view searched, std::string_view content) {
  if (searched.empty() || text.find(searched) == text.npos) return;
  std::string made;
  std::size_t done = 0;
  for (std::size_t at = text.find(searched); at != text.npos; at = text.find(searched, done)) {
    made.append(text, done, at - done).append(content);
    require_input(made.size() <= longest_part,
                  "the tokenizer's decoder makes a text of more than {} bytes", longest_part);
    done = at + searched.size();
  }
  text = made.append(text, done);
}

/// Replaces invalid UTF-8: each longest prefix of a character becomes one U+FFFD.
std::string to_utf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t good = valid_utf8_prefix(bytes);
    text += bytes.substr(0, good);
    bytes.remove_prefix(good);
    if (bytes.empty()) break;
    text += "\xEF\xBF\xBD";
    const auto lead = static_cast<unsigned char>(bytes[0]);
    std::size_t bad = 1;
    if (lead >= 0xC2 && lead <= 0xF4) {
      // Extend the prefix while some character continues like this.
      const std::size_t length = utf8_length(bytes[0]);
      std::string trial(1, bytes[0]);
      while (bad < length && bad < bytes.size()) {
        trial += bytes[bad];
        std::string full = trial;
        bool possible = false;
        for (const char filler : {'\x80', '\x90', '\xA0', '\xBF'}) {
          full = trial;
          full.resize(length, filler);
          possible |= valid_utf8_character(full) == length;
        }
        if (!possible) break;
        ++bad;
      }
    }
    bytes.remove_prefix(bad);
  }
  return text;
}

template <class Apply>
class Step final : public Decoder {
 public:
  explicit Step(Apply function) : apply_(std::move(function)) {}
  void apply(Parts& parts) const override { apply_(parts); }

 private:
  Apply apply_;
};

template <class Apply>
std::unique_ptr<Decoder> step(Apply apply) {
  return std::make_unique<Step<Apply>>(std::move(apply));
}

std::optional<unsigned char> byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
  unsigned value = 0;
  for (const char c : piece.substr(3, 2)) {
    const char lower = static_cast<char>(c | 0x20);
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (lower < 'a' || lower > 'f')) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(digit ? c - '0' : lower - 'a' + 10);
  }
  return static_cast<unsigned char>(value);
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
      bytes += static_cast<char>(*byte);
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

std::unique_ptr<Decoder> read_metaspace(const JsonPart& part) {
  const std::string mark = part["replacement"].text();
  if (mark.empty()) part["replacement"].fail("expected one character");
  const bool prepends = part.boolean_or("add_prefix_space", true) &&
                        part.text_or("prepend_scheme", "always") != "never";
  return step([mark, prepends](Parts& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i)
      replace_all(parts[i], mark, i == 0 && prepends ? "" : " ");
  });
}

std::unique_ptr<Decoder> read_replace(const JsonPart& part) {
  const JsonPart pattern = part["pattern"];
  const std::string content = part["content"].text();
  if (const auto text = pattern.find("String")) {
    return step([searched = text->text(), content](Parts& parts) {
      for (std::string& each : parts) replace_all(each, searched, content);
    });
  }
  const JsonPart expression = pattern["Regex"];
  auto compiled = std::make_shared<Pattern>(expression.text(), expression.where());
  return step([compiled, content](Parts& parts) {
    for (std::string& each : parts) {
      std::string made;
      std::size_t done = 0;
      for (const ByteRange& match : compiled->find_all(each)) {
        made.append(each, done, match.begin - done).append(content);
        require_input(made.size() <= longest_part,
                      "the tokenizer's decoder makes a text of more than {} bytes", longest_part);
        done = match.end;
      }
      each = made.append(each, done);
    }
  });
}

/// Removes up to `start` characters `content` from the beginning of each part and up to `stop` from
/// its end.
std::unique_ptr<Decoder> read_strip(const JsonPart& part) {
  constexpr std::int64_t most = 1'000'000;
  const std::string content = part["content"].text();
  if (content.empty() || utf8_length(content[0]) != content.size())
    part["content"].fail("expected one character");
  const std::int64_t start = part["start"].integer(0, most), stop = part["stop"].integer(0, most);
  return step([content, start, stop](Parts& parts) {
    for (std::string& each : parts) {
      std::string_view rest = each;
      for (std::int64_t i = 0; i < start && rest.starts_with(content); ++i)
        rest.remove_prefix(content.size());
      for (std::int64_t i = 0; i < stop && rest.ends_with(content); ++i)
        rest.remove_suffix(content.size());
      each = std::string(rest);
    }
  });
}

std::unique_ptr<Decoder> read_sequence(const JsonPart& part) {
  auto steps = std::make_shared<std::vector<std::unique_ptr<Decoder>>>();
  for (const JsonPart& each : part["decoders"].elements()) steps->push_back(read_decoder(each));
  return step([steps](Parts& parts) {
    for (const auto& each : *steps) each->apply(parts);
  });
}

}  // namespace

std::string clean_up_spaces(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> rules[] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [searched, content] : rules) replace_all(text, searched, content);
  return text;
}

std::unique_ptr<Decoder> wordpiece_decoder(const std::string& prefix, bool cleanup) {
  return step([prefix, cleanup](Parts& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::string& part = parts[i];
      if (i > 0) part.starts_with(prefix) ? part.erase(0, prefix.size()) : part.insert(0, " ");
      if (cleanup) {
        part = clean_up_spaces(std::move(part));
        replace_all(part, " do not", " don't");
      }
    }
  });
}

std::unique_ptr<Decoder> byte_level_decoder() {
  return step([](Parts& parts) {
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
  });
}

std::unique_ptr<Decoder> read_decoder(const JsonPart& part) {
  const std::string type = part["type"].text();
  if (type == "Sequence") return read_sequence(part);
  if (type == "ByteLevel") return byte_level_decoder();
  if (type == "WordPiece")
    return wordpiece_decoder(part.text_or("prefix", "##"), part.boolean_or("cleanup", true));
  if (type == "Metaspace") return read_metaspace(part);
  if (type == "Replace") return read_replace(part);
  if (type == "ByteFallback") return step(join_bytes);
  if (type == "Fuse") return step(fuse);
  if (type == "Strip") return read_strip(part);
  if (type == "BPEDecoder") {
    return step([suffix = part.text_or("suffix", "</w>")](Parts& parts) {
      for (std::size_t i = 0; i < parts.size(); ++i)
        replace_all(parts[i], suffix, i + 1 == parts.size() ? "" : " ");
    });
  }
  part.fail(
      fmt::format("decoders of type '{}' are not supported; known are BPEDecoder, ByteFallback, "
                  "ByteLevel, Fuse, Metaspace, Replace, "
                  "Sequence, Strip and WordPiece",
                  printable(type)));
}

}  // namespace nystrom
