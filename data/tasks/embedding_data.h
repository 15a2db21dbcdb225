// The texts of a task of kind embeddings in memory, and their batches for the losses of
// nn/embedding_loss.h. As in data/tasks/task_loader.h, a step depends on seed, epoch and sample.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/base/checksum.h"
#include "data/tasks/encoder.h"
#include "data/tasks/examples.h"
#include "data/tasks/task_config.h"
#include "data/tasks/task_loader.h"
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

/// One sample. Texts are numbers from 0, equal for texts that have the same tokens.
struct EmbeddingSample {
  std::vector<std::int64_t> texts;
  double score = std::numeric_limits<double>::quiet_NaN();  ///< for scores: 1 is the highest
  std::int64_t label = -1;                                  ///< for labels, from 0
};

/// The samples of all files, and their texts.
struct EmbeddingTexts {
  TextRoles roles = TextRoles::texts;
  std::vector<EmbeddingSample> samples;
  std::vector<std::string> texts;                 ///< by number; empty in an EmbeddingDataset
  std::vector<std::vector<std::int32_t>> tokens;  ///< of each text, without a prompt; likewise
  /// The samples of each label.
  std::vector<std::vector<std::int64_t>> of_label;
  /// For each text the numbers of its pairs, or its labels, ascending; of equal ones (`same`) the
  /// first has those of all.
  std::vector<std::vector<std::int64_t>> groups;
  /// For each text the first one that is cut to the same tokens; empty before an EmbeddingDataset
  /// cuts them.
  std::vector<std::int64_t> same;
  std::vector<Digest> digests;  ///< of each sample's first two texts
  SkippedRows skipped;
  EncodingCounts counts;            ///< tokens and unknown, of different texts
  std::int64_t contradictions = 0;  ///< samples whose negative another one gives as alike
  std::string checksum;             ///< of all texts and samples

  /// Whether a sample is one text.
  bool is_alone() const { return roles == TextRoles::texts || roles == TextRoles::labels; }
  /// The number of rows that a sample becomes: its texts; 2 where it has one.
  std::int64_t columns() const { return is_alone() ? 2 : std::ssize(samples[0].texts); }
  /// Whether two texts are equal, a pair of the data, or of one label. None is the other's
  /// negative.
  bool alike(std::int64_t a, std::int64_t b) const;
};

/// Reads the examples of a source, all of one form. `task` is resolved. Throws an InputError
/// "file:line: …" for the first fault: no text, a blank text in a table, a negative that is the
/// text or its pair, a score that is not between −max_score and max_score, or labels that only one
/// text has.
EmbeddingTexts read_embedding_texts(const TaskConfig& task, const ExampleSource& source,
                                    const Tokenizer& tokenizer);

/// The samples of all files as tokens, to train on.
class EmbeddingDataset {
 public:
  /// A text has at most `sequence_length` tokens with the special ones; more are cut off, unless
  /// texts alone become crops. The prompts stand before texts of the first column, and of the
  /// others. Throws an InputError where special tokens leave no room for text.
  EmbeddingDataset(EmbeddingTexts texts, const Tokenizer& tokenizer, std::int64_t sequence_length,
                   const std::string& query_prompt, const std::string& document_prompt,
                   TaskViews views);

  const EmbeddingTexts& content() const { return content_; }
  /// The tokens of text `text` in column `column`, with the column's prompt and without special
  /// tokens.
  const std::vector<std::int32_t>& tokens(std::int64_t text, std::int64_t column) const {
    return tokens_[prompt_of(column)][static_cast<std::size_t>(text)];
  }
  /// The number of tokens that the prompt of column `column` has.
  std::int64_t prompt_tokens(std::int64_t column) const {
    return prompt_tokens_[prompt_of(column)];
  }
  /// Whether texts alone become two random parts of them.
  bool crops() const { return crops_; }
  /// The number of texts that lost tokens.
  std::int64_t truncated() const { return truncated_; }

 private:
  std::size_t prompt_of(std::int64_t column) const {
    return std::min(static_cast<std::size_t>(column), tokens_.size() - 1);
  }

  /// Makes texts alike that are cut to the same tokens, `room` of them, and what one of them is
  /// alike.
  void join_equal(std::int64_t room);

  EmbeddingTexts content_;
  bool crops_;
  // Of each prompt, which is one where both are equal. A text that no sample has in such a column
  // is empty.
  std::vector<std::int64_t> prompt_tokens_;
  std::vector<std::vector<std::vector<std::int32_t>>> tokens_;
  std::int64_t truncated_ = 0;
};

/// "96 pairs of texts, 120 different".
std::string describe(const EmbeddingTexts& texts);

/// The samples of one step. "Number" counts them in the step's order, which all ranks share.
struct EmbeddingStep {
  /// This rank's micro-batches. Batch::choices is the number of columns.
  std::vector<Batch> batches;
  /// The number of each micro-batch's first sample.
  std::vector<std::int64_t> first;
  std::int64_t samples = 0;                      ///< of all ranks
  std::vector<std::vector<std::int64_t>> texts;  ///< [column][number]: as in EmbeddingSample
  std::vector<double> scores;                    ///< [number]; empty without scores
};

/// The training data, step after step without end, in the order of TaskLoader. A text alone becomes
/// two views, the first with the query's prompt and the second with the document's. A labelled text
/// gets a random other one with its label as its document.
class EmbeddingLoader {
 public:
  /// Views of a text have at most `sequence_length` tokens. Throws an InputError when the options
  /// do not fit together.
  EmbeddingLoader(std::shared_ptr<const EmbeddingDataset> dataset, const Tokenizer& tokenizer,
                  TaskLoaderOptions options, std::int64_t sequence_length,
                  std::int64_t first_step = 0);

  /// The next step.
  EmbeddingStep next();

 private:
  struct Use;
  std::vector<Use> uses_of_step() const;
  std::vector<WrappedIds> rows_of(const Use& use) const;
  Batch batch_of(std::span<const Use> uses) const;

  std::shared_ptr<const EmbeddingDataset> dataset_;
  const Tokenizer& tokenizer_;
  TaskLoaderOptions options_;
  std::int64_t sequence_length_;
  SampleOrder order_;
  std::int64_t step_;
};

}  // namespace nystrom
