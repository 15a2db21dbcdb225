// The pre-tokenizers of a tokenizer.json: the split of text into words.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/pipeline/aligned_text.h"

namespace nystrom {

class JsonPart;

/// A text and its words. Words are not empty, in order, and do not overlap. Removed text may lie
/// between them.
struct Words {
  AlignedText text;
  std::vector<ByteRange> ranges;

  std::string_view operator[](std::size_t i) const {
    return std::string_view(text.text()).substr(ranges[i].begin, ranges[i].size());
  }
};

/// Marks in pieces that tell which pieces begin a word.
struct WordMarks {
  std::string space;        ///< mark for the space before a word ("▁"), or empty
  bool byte_level = false;  ///< pieces consist of byte-level characters, with spaces
};

/// Interface of the pre-tokenizers. Const members may be called from several threads.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Splits each word further. Throws an InputError when the text grows beyond AlignedText's limit,
  /// or a regular expression exceeds its limits.
  virtual void apply(Words& words) const = 0;
  /// Sets the marks that this pre-tokenizer puts into pieces.
  virtual void describe(WordMarks&) const {}
};

/// Creates the pre-tokenizer that a part of a tokenizer.json describes. Throws an InputError for an
/// unknown type or a wrong value.
std::unique_ptr<PreTokenizer> read_pre_tokenizer(const JsonPart& part);

/// BERT's pre-tokenizer: splits at white space and makes each punctuation mark a word.
std::unique_ptr<PreTokenizer> bert_pre_tokenizer();
/// GPT-2's pre-tokenizer: words with the space before them, in byte-level characters.
std::unique_ptr<PreTokenizer> byte_level_pre_tokenizer(bool add_prefix_space,
                                                       bool use_regex = true);

}  // namespace nystrom
