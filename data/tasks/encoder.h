// From examples to rows of tokens.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "data/pretraining/masking.h"
#include "data/tasks/examples.h"
#include "data/tasks/labels.h"
#include "data/tokenizers/tokenizer.h"

namespace nystrom {

/// A stretch of bytes of a text.
struct TextRange {
  std::int64_t begin = 0, end = 0;
};

/// What a model gets at once of an example: all of it, or for questions one window. Without
/// padding.
struct EncodedSample {
  std::int64_t example = 0;      ///< its number in the data set, from 0
  std::vector<WrappedIds> rows;  ///< one; choice: one a choice; towers: the two texts

  std::int64_t label = ignore_index;  ///< classification, choice, features with classes
  double value = std::numeric_limits<double>::quiet_NaN();  ///< regression, features with values
  std::vector<std::int64_t>
      word_labels;  ///< tokens: of every word of the example, cut off ones too
  std::vector<std::int64_t>
      word_starts;  ///< tokens: place of each word's first token in the row; −1: has none
  std::int64_t start = 0,
               end = 0;  ///< questions: first and last token of the answer; 0: cls, none in here
  std::int64_t context_begin = 0;  ///< questions: place of the context's first token in the row
  std::vector<TextRange>
      offsets;                   ///< questions: of each token of the context, in the whole context
  bool labelled = false;         ///< whether the example says what is right
  std::int64_t full_length = 0;  ///< length() as it would be if nothing had been cut

  /// Tokens of the longest row.
  std::int64_t length() const;
};

/// What encoding left out.
struct EncodingCounts {
  std::int64_t examples = 0;
  std::int64_t samples = 0;         ///< more than examples where contexts are longer than a window
  std::int64_t tokens = 0;          ///< of all rows
  std::int64_t longest = 0;         ///< the largest full_length (questions: of a window)
  Occurrences truncated;            ///< examples that lost tokens (questions: of the question)
  Occurrences blank;                ///< examples of which a text is empty or white space
  std::int64_t removed_tokens = 0;  ///< tokens they lost
  std::int64_t removed_words = 0;   ///< tokens: words without a token, which cannot be labelled
  std::int64_t unknown = 0;         ///< unknown tokens
  std::int64_t answers_cut =
      0;  ///< questions: answerable ones whose answer lies whole in no window
};

/// Encodes examples of one task. Safe to use from several threads.
class TaskEncoder {
 public:
  /// `task` resolved, not of features; rows have at most `sequence_length` tokens, special ones
  /// included. InputError when that leaves no room for text, or none beside task.stride, or when
  /// the tokenizer lacks pad or, for questions, cls. It must live as long. With `towers` the two
  /// texts of a pair are rows of their own, each of at most `sequence_length` tokens.
  TaskEncoder(const TaskConfig& task, LabelSet labels, const Tokenizer& tokenizer,
              std::int64_t sequence_length, bool towers = false);

  /// The samples of an example; one but for questions. Counts what it did in `counts`. BadRow
  /// "file:line: …" for a label that is not among the known. InputError for an image, whose tokens
  /// are its pixels, when the tokenizer is not that of bytes.
  ///
  /// Pairs that are too long lose tokens at their ends, of the longer text first, as Hugging Face's
  /// longest_first. Words are tokenized each with a space in front, and their first token stands
  /// for them. Windows: [cls question sep context part sep] with parts as long as fit, each
  /// beginning `stride` tokens before the end of the one before; a question that takes more than
  /// half of the row is cut to that.
  std::vector<EncodedSample> encode(const Example& example, EncodingCounts& counts) const;

  const TaskConfig& task() const { return task_; }
  const LabelSet& labels() const { return labels_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  std::int64_t sequence_length() const { return sequence_length_; }

 private:
  using Ids = std::vector<std::int32_t>;

  void encode_texts(const Example& example, EncodedSample& sample, EncodingCounts& counts) const;
  void encode_choices(const Example& example, EncodedSample& sample, EncodingCounts& counts) const;
  void encode_words(const Example& example, EncodedSample& sample, EncodingCounts& counts) const;
  std::vector<EncodedSample> encode_question(const Example& example, EncodingCounts& counts) const;
  void add_single(Ids ids, EncodedSample& sample, EncodingCounts& counts) const;
  void add_pair(Ids first, Ids second, EncodedSample& sample, EncodingCounts& counts) const;
  std::int64_t label_index(const std::string& label, const Example& example) const;

  TaskConfig task_;
  LabelSet labels_;
  const Tokenizer& tokenizer_;
  std::int64_t sequence_length_;
  bool towers_;
  std::int64_t single_specials_, pair_specials_;  // tokens that wrapping adds
  std::int64_t before_text_, before_second_;  // … of these in front of a text, and of a second one
};

}  // namespace nystrom
