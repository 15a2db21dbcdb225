#include "data/tokenizers/pipeline/pre_tokenizers.h"

#include "core/base/json_part.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/normalizers.h"
#include "data/tokenizers/pipeline/pattern.h"
#include "data/tokenizers/pipeline/unicode.h"
#include "data/tokenizers/pipeline/word_scanners.h"

namespace nystrom {
namespace {

/// The treatment of matches when a pattern splits words.
enum class Delimiter { removed, isolated, merged_with_previous, merged_with_next, contiguous };

Delimiter read_delimiter(const JsonPart& part) {
  const std::string name = part.text();
  if (name == "Removed") return Delimiter::removed;
  if (name == "Isolated") return Delimiter::isolated;
  if (name == "MergedWithPrevious") return Delimiter::merged_with_previous;
  if (name == "MergedWithNext") return Delimiter::merged_with_next;
  if (name == "Contiguous") return Delimiter::contiguous;
  part.fail(fmt::format(
      "got '{}', expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous",
      printable(name)));
}

/// Splits each word by find(text of the word, matches). `find` appends the matches in order; the
/// text between them forms parts too. Joins the parts of a word as `delimiter` says.
template <class Find>
void split(Words& words, Delimiter delimiter, bool invert, const Find& find) {
  std::vector<ByteRange> made, matches;
  made.reserve(words.ranges.size());
  for (std::size_t i = 0; i < words.ranges.size(); ++i) {
    const std::string_view word = words[i];
    const std::uint32_t offset = words.ranges[i].begin;
    bool first = true, last_matched = false;
    const auto put = [&](std::uint32_t begin, std::uint32_t end, bool is_match) {
      if (delimiter == Delimiter::removed && is_match) return;
      const bool follows =
          !first && ((delimiter == Delimiter::contiguous && is_match == last_matched) ||
                     (delimiter == Delimiter::merged_with_previous && is_match && !last_matched) ||
                     (delimiter == Delimiter::merged_with_next && !is_match && last_matched));
      if (follows)
        made.back().end = offset + end;
      else
        made.push_back({offset + begin, offset + end});
      first = false;
      last_matched = is_match;
    };
    matches.clear();
    find(word, matches);
    std::uint32_t done = 0;
    for (const ByteRange& match : matches) {
      if (match.begin > done) put(done, match.begin, invert);
      put(match.begin, match.end, !invert);
      done = match.end;
    }
    if (done < word.size()) put(done, static_cast<std::uint32_t>(word.size()), invert);
  }
  std::erase_if(made, [](const ByteRange& range) { return range.size() == 0; });
  words.ranges = std::move(made);
}

/// Splits at each character for which is(character) is true.
template <class Is>
void split_at(Words& words, Delimiter delimiter, const Is& is) {
  split(words, delimiter, false, [&](std::string_view word, std::vector<ByteRange>& matches) {
    for (std::size_t position = 0; position < word.size();) {
      const std::size_t begin = position;
      if (is(next_code_point(word, position))) matches.push_back(byte_range(begin, position));
    }
  });
}

/// Splits into the words that `scanner` finds.
void scan(Words& words, Delimiter delimiter, bool invert, WordScanner scanner) {
  split(words, delimiter, invert, [&](std::string_view word, std::vector<ByteRange>& matches) {
    for (std::size_t begin = 0; begin < word.size();) {
      const std::size_t end = scanner(word, begin);
      matches.push_back(byte_range(begin, end));
      begin = end;
    }
  });
}

/// Rebuilds the text word by word: append(text, i) appends the new form of word i.
template <class Append>
void rebuild(Words& words, const Append& append) {
  Words made;
  made.text.reserve(words.text.size() + words.text.size() / 2);
  made.ranges.reserve(words.ranges.size());
  for (std::size_t i = 0; i < words.ranges.size(); ++i) {
    const std::uint32_t begin = made.text.size();
    append(made.text, i);
    made.ranges.push_back({begin, made.text.size()});
  }
  words.text.take(std::move(made.text));
  words.ranges = std::move(made.ranges);
}

PreTokenizer read_pre_tokenizer_sequence(const JsonPart& part) {
  std::vector<PreTokenizer> steps;
  PreTokenizer all;
  for (const JsonPart& each : part["pretokenizers"].elements()) {
    steps.push_back(read_pre_tokenizer(each));
    all.byte_level |= steps.back().byte_level;
    if (!steps.back().space_mark.empty()) all.space_mark = steps.back().space_mark;
  }
  all.apply = [steps = std::move(steps)](Words& words) {
    for (const PreTokenizer& each : steps) each.apply(words);
  };
  return all;
}

/// Puts a space in front of each word that begins with none.
void add_spaces(Words& words) {
  rebuild(words, [&](AlignedText& text, std::size_t i) {
    if (words[i].front() != ' ') text.append(" ", words.text.origin(words.ranges[i].begin));
    text.append(words.text, words.ranges[i]);
  });
}

void write_byte_level(Words& words) {
  rebuild(words, [&](AlignedText& text, std::size_t i) {
    const std::string& bytes = words.text.text();
    for (std::uint32_t at = words.ranges[i].begin; at < words.ranges[i].end;) {
      const std::uint32_t begin = at;  // start of bytes that are their own characters
      while (at < words.ranges[i].end && bytes[at] >= '!' && bytes[at] <= '~') ++at;
      if (at > begin) text.append(words.text, {begin, at});
      if (at == words.ranges[i].end) break;
      text.append(byte_level_character(static_cast<unsigned char>(bytes[at])),
                  words.text.origin(at));
      ++at;
    }
  });
}

/// GPT-2's pre-tokenizer: words with the space before them, in byte-level characters.
PreTokenizer read_byte_level(const JsonPart& part) {
  const bool adds_space = part.boolean_or("add_prefix_space", true),
             cuts = part.boolean_or("use_regex", true);
  return {.apply =
              [=](Words& words) {
                if (adds_space) add_spaces(words);
                if (cuts)
                  scan(words, Delimiter::isolated, false, find_word_scanner(gpt2_expression));
                write_byte_level(words);
              },
          .byte_level = true};
}

enum class Prepend { always, first, never };

/// Writes `mark` for each space, and in front of words as `scheme` says.
void write_marks(Words& words, std::string_view mark, Prepend scheme) {
  rebuild(words, [&](AlignedText& text, std::size_t i) {
    const std::string_view word = words[i];
    const std::uint32_t begin = words.ranges[i].begin;
    const bool prepend = scheme == Prepend::always ||
                         (scheme == Prepend::first && words.text.origin(begin).begin == 0);
    if (prepend && word.front() != ' ' && !word.starts_with(mark))
      text.append(mark, words.text.origin(begin));
    std::uint32_t done = begin;
    for (std::uint32_t at = begin; at < words.ranges[i].end; ++at) {
      if (words.text.text()[at] != ' ') continue;
      text.append(words.text, {done, at});
      text.append(mark, words.text.origin(at));
      done = at + 1;
    }
    text.append(words.text, {done, words.ranges[i].end});
  });
}

PreTokenizer read_metaspace(const JsonPart& part) {
  const std::string mark = part["replacement"].text();
  if (mark.empty() || utf8_length(mark[0]) != mark.size())
    part["replacement"].fail("expected one character");
  const bool splits = part.boolean_or("split", true);
  const std::string name = read_prepend_scheme(part);
  const Prepend scheme = name == "never"   ? Prepend::never
                         : name == "first" ? Prepend::first
                                           : Prepend::always;
  return {.apply =
              [=](Words& words) {
                write_marks(words, mark, scheme);
                if (!splits) return;
                split(words, Delimiter::merged_with_next, false,
                      [&](std::string_view word, std::vector<ByteRange>& matches) {
                        matches = places_of(word, mark);
                      });
              },
          .space_mark = mark};
}

PreTokenizer read_split(const JsonPart& part) {
  const JsonPart pattern = part["pattern"];
  const Delimiter delimiter = read_delimiter(part["behavior"]);
  const bool invert = part.boolean_or("invert", false);
  if (!pattern.find("String"))
    if (const WordScanner scanner = find_word_scanner(pattern["Regex"].text()))
      return {[=](Words& words) { scan(words, delimiter, invert, scanner); }};
  return {[find = read_matcher(pattern), delimiter, invert](Words& words) {
    split(words, delimiter, invert,
          [&](std::string_view word, std::vector<ByteRange>& matches) { matches = find(word); });
  }};
}

/// Splits into runs of \w, and runs of other characters that are not white space.
void split_words_from_signs(Words& words) {
  enum class Kind { word, space, sign };
  const auto kind_of = [](char32_t c) {
    return is_word_character(c) ? Kind::word : is_white_space(c) ? Kind::space : Kind::sign;
  };
  split(words, Delimiter::removed, true,
        [&](std::string_view word, std::vector<ByteRange>& matches) {
          Kind last = Kind::space;
          for (std::size_t position = 0; position < word.size();) {
            const auto begin = static_cast<std::uint32_t>(position);
            const Kind kind = kind_of(next_code_point(word, position));
            if (kind != Kind::space && kind == last)
              matches.back().end = static_cast<std::uint32_t>(position);
            else if (kind != Kind::space)
              matches.push_back({begin, static_cast<std::uint32_t>(position)});
            last = kind;
          }
        });
}

/// BERT's pre-tokenizer: splits at white space and makes each punctuation mark a word.
void split_as_bert(Words& words) {
  split_at(words, Delimiter::removed, is_white_space);
  split_at(words, Delimiter::isolated, is_punctuation);
}

}  // namespace

std::string read_prepend_scheme(const JsonPart& metaspace) {
  const bool prepends = metaspace.boolean_or("add_prefix_space", true);
  const std::string name = metaspace.text_or("prepend_scheme", prepends ? "always" : "never");
  if (name != "always" && name != "first" && name != "never")
    metaspace["prepend_scheme"].fail(
        fmt::format("got '{}', expected always, first or never", printable(name)));
  if (!prepends && name != "never")
    metaspace["prepend_scheme"].fail(
        fmt::format("got '{}' beside add_prefix_space: false; expected never", name));
  return name;
}

PreTokenizer read_pre_tokenizer(const JsonPart& part) {
  const std::string type = part["type"].text();
  if (type == "Sequence") return read_pre_tokenizer_sequence(part);
  if (type == "BertPreTokenizer") return {split_as_bert};
  if (type == "Whitespace") return {split_words_from_signs};
  if (type == "WhitespaceSplit")
    return {[](Words& words) { split_at(words, Delimiter::removed, is_white_space); }};
  if (type == "ByteLevel") return read_byte_level(part);
  if (type == "Metaspace") return read_metaspace(part);
  if (type == "Split") return read_split(part);
  if (type == "Punctuation") {
    const auto behavior = part.find("behavior");
    const Delimiter delimiter = behavior ? read_delimiter(*behavior) : Delimiter::isolated;
    return {[delimiter](Words& words) { split_at(words, delimiter, is_punctuation); }};
  }
  if (type == "Digits") {
    const Delimiter delimiter =
        part.boolean_or("individual_digits", false) ? Delimiter::isolated : Delimiter::contiguous;
    return {[delimiter](Words& words) { split_at(words, delimiter, is_number); }};
  }
  if (type == "CharDelimiterSplit") {
    const std::string delimiter = part["delimiter"].text();
    if (delimiter.empty() || utf8_length(delimiter[0]) != delimiter.size())
      part["delimiter"].fail("expected one character");
    std::size_t start = 0;
    return {[wanted = next_code_point(delimiter, start)](Words& words) {
      split_at(words, Delimiter::removed, [wanted](char32_t c) { return c == wanted; });
    }};
  }
  part.fail(
      fmt::format("pre-tokenizers of type '{}' are not supported; known are BertPreTokenizer, "
                  "ByteLevel, CharDelimiterSplit, Digits, "
                  "Metaspace, Punctuation, Sequence, Split, Whitespace and WhitespaceSplit",
                  printable(type)));
}

}  // namespace nystrom
