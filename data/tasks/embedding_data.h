// The texts of a task of kind embeddings in memory.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "core/base/checksum.h"
#include "data/tasks/examples.h"
#include "data/tasks/task_config.h"
#include "data/tokenizers/tokenizer.h"

namespace nystrom {

/// The form of a sample. The columns of its file decide it.
enum class TextRoles {
  pairs,   ///< a text, a text like it, and texts unlike it
  scores,  ///< two texts and how similar they are
  labels,  ///< a text with a label; texts with one label are alike
  texts,   ///< a text alone
};

/// "pairs of texts", "scored pairs", "labelled texts", "texts".
const char* describe(TextRoles roles);

/// One sample. Texts are numbers from 0, equal for equal texts.
struct EmbeddingSample {
  std::vector<std::int64_t> texts;
  double score = std::numeric_limits<double>::quiet_NaN();  ///< for scores: 1 is the highest
  std::int64_t label = -1;                                  ///< for labels, from 0
};

/// The samples of all files, without their texts.
struct EmbeddingSamples {
  TextRoles roles = TextRoles::texts;
  std::vector<EmbeddingSample> samples;
  /// The samples of each label.
  std::vector<std::vector<std::int64_t>> of_label;
  /// For each text the numbers of its pairs, or its labels, ascending.
  std::vector<std::vector<std::int64_t>> groups;
  std::vector<Digest> digests;  ///< of each sample's first two texts
  SkippedRows skipped;
  std::string checksum;  ///< of all texts and samples

  /// The number of rows that a sample becomes: its texts; 2 where it has one.
  std::int64_t columns() const;
  /// Whether two texts are equal, a pair of the data, or of one label. None is the other's
  /// negative.
  bool alike(std::int64_t a, std::int64_t b) const;
};

/// Samples and their texts.
struct EmbeddingTexts {
  EmbeddingSamples samples;
  std::vector<std::string> texts;  ///< by number
};

/// Reads the examples of a source, all of one form. `task` is resolved. Throws an InputError
/// "file:line: …" for the first fault: no text, a blank text in a table, a score that is not
/// between −max_score and max_score, or labels that only one text has.
EmbeddingTexts read_embedding_texts(const TaskConfig& task, const ExampleSource& source);

/// What becomes a text's tokens.
struct EmbeddingTextOptions {
  std::int64_t sequence_length = 512;  ///< with the special tokens; more are cut off
  /// Before texts of the first column, and of the others.
  std::string query_prompt, document_prompt;
  TaskViews views = TaskViews::dropout;  ///< for crops, texts alone are kept whole
};

/// The samples of all files as tokens, to train on.
class EmbeddingDataset {
 public:
  /// Throws an InputError where special tokens leave no room for text.
  EmbeddingDataset(EmbeddingTexts texts, const Tokenizer& tokenizer,
                   const EmbeddingTextOptions& options);

  const EmbeddingSamples& content() const { return content_; }
  TextRoles roles() const { return content_.roles; }
  std::int64_t columns() const { return content_.columns(); }
  const std::vector<EmbeddingSample>& samples() const { return content_.samples; }
  /// The tokens of text `text` in column `column`, with the column's prompt and without special
  /// tokens.
  const std::vector<std::int32_t>& tokens(std::int64_t text, std::int64_t column) const;
  /// The number of tokens that the prompt of column `column` has.
  std::int64_t prompt_tokens(std::int64_t column) const;
  TaskViews views() const { return views_; }
  /// The number of texts that lost tokens.
  std::int64_t truncated() const { return truncated_; }

 private:
  /// Texts after one prompt. A text that no sample has in such a column is empty.
  struct Prompted {
    std::int64_t prompt_tokens = 0;
    std::vector<std::vector<std::int32_t>> texts;
  };
  const Prompted& of_column(std::int64_t column) const;

  EmbeddingSamples content_;
  TaskViews views_;
  std::vector<Prompted> prompted_;  // one where both prompts are equal
  std::int64_t truncated_ = 0;
};

/// "96 pairs of texts, 120 different".
std::string describe(const EmbeddingSamples& samples);

}  // namespace nystrom
