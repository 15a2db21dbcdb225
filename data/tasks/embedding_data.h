// The texts of a task of kind embeddings in memory.
#pragma once

#include <limits>
#include <string>
#include <vector>

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

/// One sample. Texts are numbers of EmbeddingDataset::texts.
struct EmbeddingSample {
  std::vector<std::int64_t> texts;
  double score = std::numeric_limits<double>::quiet_NaN();  ///< for scores: 1 is the highest
  std::int64_t label = -1;                                  ///< for labels, from 0
};

/// What becomes a text's tokens.
struct EmbeddingTextOptions {
  std::int64_t sequence_length = 512;         ///< with the special tokens; more are cut off
  std::string query_prompt, document_prompt;  ///< before the first text, and before the others
};

/// The samples of all files. Equal texts are stored once.
class EmbeddingDataset {
 public:
  /// Reads the files that `patterns` match, all of one form. `task` is resolved. With views: crops
  /// texts alone are kept whole. Throws an InputError "file:line: …" for the first fault: no text,
  /// a blank text in a table, a score that is not between −max_score and max_score, or labels that
  /// only one text has.
  EmbeddingDataset(const TaskConfig& task, const std::vector<std::string>& patterns,
                   const Tokenizer& tokenizer, const EmbeddingTextOptions& options);

  TextRoles roles() const { return roles_; }
  /// The number of rows that a sample becomes: its texts; 2 where it has one.
  std::int64_t columns() const;
  const std::vector<EmbeddingSample>& samples() const { return samples_; }
  /// The tokens of each text, without special ones.
  const std::vector<std::vector<std::int32_t>>& texts() const { return texts_; }
  /// The samples of each label.
  const std::vector<std::vector<std::int64_t>>& of_label() const { return of_label_; }
  /// The number of texts that lost tokens.
  std::int64_t truncated() const { return truncated_; }
  const SkippedRows& skipped() const { return skipped_; }
  /// Hash of all texts and samples.
  std::string checksum() const;

 private:
  TextRoles roles_ = TextRoles::texts;
  std::vector<EmbeddingSample> samples_;
  std::vector<std::vector<std::int32_t>> texts_;
  std::vector<std::vector<std::int64_t>> of_label_;
  std::int64_t truncated_ = 0;
  SkippedRows skipped_;
};

/// "96 pairs of texts, 120 different; 3 were cut at the end".
std::string describe(const EmbeddingDataset& data);

}  // namespace nystrom
