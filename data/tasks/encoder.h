// Encoding of examples as rows of tokens, and one output from those for the windows of a text.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "data/pretraining/masking.h"
#include "data/tasks/examples.h"
#include "data/tasks/labels.h"
#include "data/tasks/word_cut.h"
#include "data/tokenizers/tokenizer.h"

namespace nystrom {

/// In the place of a word's first token: no token of the word fits, or it has none.
inline constexpr std::int64_t cut_off = -1, no_token = -2;

/// The model's input for one example, or for one window of it. Rows have no padding.
struct EncodedSample {
  std::int64_t example = 0;      ///< number of the example in the data set, from 0
  std::vector<WrappedIds> rows;  ///< one row; choice: one a choice; towers: one for each text

  std::int64_t label = ignore_index;  ///< for classification, choice, and features with classes
  double value =
      std::numeric_limits<double>::quiet_NaN();  ///< for regression, and features with values
  /// Tokens: the label of every word of the example, even of words that were cut off. With
  /// task.multi_label: the labels of the text, ascending.
  std::vector<std::int64_t> labels;
  /// Tokens: the position of each word's first token in the row; cut_off or no_token.
  std::vector<std::int64_t> word_starts;
  /// Questions: the first and the last token of the answer. 0, which is cls: this window has no
  /// answer.
  std::int64_t start = 0, end = 0;
  std::int64_t context_begin = 0;  ///< questions: position of the context's first token in the row
  /// Questions: for each context token, its position in the whole context; with task.whole_words
  /// that of its word, as far as the word lies in this window.
  std::vector<TextRange> places;
  bool labelled = false;         ///< whether the example has a label
  std::int64_t full_length = 0;  ///< length() before anything was cut

  /// The number of tokens of the longest row.
  std::int64_t length() const;
};

/// Counts of encoding, and of the losses by it.
struct EncodingCounts {
  std::int64_t examples = 0;
  std::int64_t samples = 0;  ///< more than examples if contexts are longer than a window
  std::int64_t tokens = 0;   ///< in all rows
  std::int64_t longest = 0;  ///< the largest full_length (questions: of a window)
  Occurrences truncated;     ///< examples that lost tokens (questions: tokens of the question)
  Occurrences blank;         ///< examples with an empty or blank text
  std::int64_t unknown = 0;  ///< unknown tokens
  /// Questions: answerable questions whose answer is not whole in any window.
  std::int64_t answers_cut = 0;

  /// Adds the examples of `more`, which of them are truncated or blank, and their tokens.
  void add(const EncodingCounts& more) {
    examples += more.examples;
    tokens += more.tokens;
    unknown += more.unknown;
    truncated.add(more.truncated);
    blank.add(more.blank);
  }
};

/// The tokens that neighbouring windows of `sequence_length` tokens share: task.stride, or its
/// default for that length.
std::int64_t stride_of(const TaskConfig& task, std::int64_t sequence_length);

/// Encodes the examples of one task. Thread-safe.
class TaskEncoder {
 public:
  /// `task` is resolved and not of kind features. Rows have at most `sequence_length` tokens, with
  /// the special ones. With `towers`, each text of a pair is a row of its own of that length.
  /// `tokenizer` must outlive the encoder. Throws an InputError when no room is left for text, or
  /// none beside task.stride. The tokenizer needs pad and, for questions, cls.
  TaskEncoder(const TaskConfig& task, LabelSet labels, const Tokenizer& tokenizer,
              std::int64_t sequence_length, bool towers = false);

  /// The samples of an example: one, or several for questions and with task.windows. Updates
  /// `counts`. Throws a BadRow "file:line: …" for an unknown label. Throws an InputError for an
  /// image, whose tokens are its pixels, unless the tokenizer is the byte tokenizer.
  ///
  /// Pairs that are too long lose tokens at their ends, from the longer text first, as with Hugging
  /// Face's longest_first. Words are tokenized one by one with a space in front; their first token
  /// represents them. Windows are [cls question sep context part sep] with the longest parts that
  /// fit. Each part begins stride_of() tokens before the end of the previous one. A question that
  /// takes more than half of the row is cut to that half. With task.windows, single texts become
  /// windows [cls part sep] in the same way; each has the label of the text.
  std::vector<EncodedSample> encode(const Example& example, EncodingCounts& counts) const;

  /// The resolved task.
  const TaskConfig& task() const { return task_; }
  /// The labels, in the order of the model's outputs.
  const LabelSet& labels() const { return labels_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  /// The largest number of tokens of a row.
  std::int64_t sequence_length() const { return sequence_length_; }

 private:
  using Ids = std::vector<std::int32_t>;

  std::vector<EncodedSample> encode_texts(const Example& example) const;
  std::vector<EncodedSample> cut_into_windows(const EncodedSample& whole, const Ids& ids) const;
  void encode_choices(const Example& example, EncodedSample& sample) const;
  void encode_words(const Example& example, EncodedSample& sample) const;
  std::vector<EncodedSample> encode_question(const Example& example, EncodingCounts& counts) const;
  void add_single(Ids ids, EncodedSample& sample) const;
  void add_pair(Ids first, Ids second, EncodedSample& sample) const;
  std::int64_t label_index(const std::string& label, const Example& example) const;

  TaskConfig task_;
  LabelSet labels_;
  const Tokenizer& tokenizer_;
  std::int64_t sequence_length_, stride_;
  bool towers_;
  std::int64_t single_specials_, pair_specials_;  // tokens that wrapping adds
  std::int64_t before_text_, before_second_;      // those before a text, and before a second text
};

/// The output of a text: per entry the mean or the largest over its windows, as `windows` says; for
/// `first` there is one window. `outputs` holds one row of equal length for each window, at least
/// one.
std::vector<double> merge_windows(TaskWindows windows,
                                  std::span<const std::vector<double>> outputs);

}  // namespace nystrom
