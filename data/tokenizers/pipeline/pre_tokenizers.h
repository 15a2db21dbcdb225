// The pre-tokenizers of a tokenizer.json: how text is cut into words.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/pipeline/aligned_text.h"

namespace nystrom {

class JsonPart;

/// Text and the words in it: none empty, in order, apart; between them may lie what was removed.
struct Words {
  AlignedText text;
  std::vector<ByteRange> ranges;

  std::string_view operator[](std::size_t i) const {
    return std::string_view(text.text()).substr(ranges[i].begin, ranges[i].size());
  }
};

/// How pieces write words, which tells those that a word begins with.
struct WordMarks {
  std::string space;  ///< stands for the space before a word ("▁"), empty when there is none
  bool byte_level = false;  ///< pieces are bytes by their characters, spaces among them
};

/// Const members are safe to use from several threads.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Cuts each word further.
  virtual void apply(Words& words) const = 0;
  /// What it does to pieces.
  virtual void describe(WordMarks&) const {}
};

/// The pre-tokenizer that a part of a tokenizer.json describes. InputError that names a type which
/// is not known.
std::unique_ptr<PreTokenizer> read_pre_tokenizer(const JsonPart& part);

/// BERT's: words between white space, each punctuation mark by itself.
std::unique_ptr<PreTokenizer> bert_pre_tokenizer();
/// GPT-2's: words with the space before them, in bytes.
std::unique_ptr<PreTokenizer> byte_level_pre_tokenizer(bool add_prefix_space,
                                                       bool use_regex = true);

}  // namespace nystrom
