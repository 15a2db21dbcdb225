// Batches of texts for the losses of nn/embedding_loss.h. As in data/tasks/task_loader.h, a step
// depends on seed, epoch and sample only.
#pragma once

#include <memory>
#include <vector>

#include "data/tasks/embedding_data.h"
#include "data/tasks/task_loader.h"

namespace nystrom {

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
