// Parts of texts: ranges of bytes, and the words that a model labels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tasks/task_config.h"

namespace nystrom {

/// A range of bytes in a text.
struct TextRange {
  std::int64_t begin = 0, end = 0;
  friend bool operator==(const TextRange&, const TextRange&) = default;
};

/// The part of `text` in the range.
inline std::string_view text_at(std::string_view text, TextRange range) {
  return text.substr(static_cast<std::size_t>(range.begin),
                     static_cast<std::size_t>(range.end - range.begin));
}

/// `text` without the Unicode white space at its ends. Bytes that are not UTF-8 are no white space.
std::string_view trimmed(std::string_view text);

/// Whether `text` is empty or only white space.
inline bool is_blank(std::string_view text) { return trimmed(text).empty(); }

/// The words of UTF-8 text. With WordCut::words they are similar to those of CoNLL files: separated
/// by white space, and each punctuation mark is a word. Exceptions are - ' . , between letters or
/// digits: techno-based, don't, 1,000. A combining mark belongs to the character before it, and so
/// do the parts of an emoji to its first sign.
std::vector<TextRange> split_words(std::string_view text, WordCut cut);

/// The words as texts, for an example of kind tokens. Throws an InputError that begins with `place`
/// for a long text without spaces, if the words of the training files are separated by spaces where
/// the script has none (WordCut::words).
std::vector<std::string> words_of(std::string_view text, WordCut cut, const std::string& place);

/// Whether two words stand beside each other without a space, as those of Chinese or Thai text.
bool touch(std::string_view word, std::string_view next);

/// task.word_cut, or the usual one.
WordCut word_cut_of(const TaskConfig& task);

/// Finds how training files are cut into words.
class WordCutFinder {
 public:
  /// Counts a word.
  void add(std::string_view word);
  /// The cut that makes such words of raw text.
  WordCut cut() const;

 private:
  std::int64_t ideographs_ = 0, ideograph_words_ = 0;  // words of one character, and of several
  std::int64_t letters_ = 0, letter_words_ = 0;        // the same for scripts with spaces
  std::int64_t marks_alone_ = 0, marks_attached_ = 0;  // punctuation
};

}  // namespace nystrom
