// The training objective of a task of kind embeddings.
#pragma once

#include "data/tasks/embedding_loader.h"
#include "train/config/config.h"
#include "train/distributed/communicator.h"
#include "train/loop/objective.h"
#include "train/objectives/embedding_validation.h"

namespace nystrom {

/// The data of a task of kind embeddings.
struct EmbeddingData {
  std::shared_ptr<const EmbeddingDataset> train;
  std::shared_ptr<const EmbeddingValidation> validation;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::int64_t overlap = 0;  ///< validation pairs that are training pairs too
};

/// Reads the files of the task in `config`, which is resolved. Sets task.metric if it is null.
/// Throws an InputError for the first fault in the files, and where texts, loss, views and metric
/// do not fit each other.
EmbeddingData read_embedding_data(RunConfig& config, std::shared_ptr<const Tokenizer> tokenizer);

/// What the data is like, one line each.
std::vector<std::string> describe(const EmbeddingData& data);

/// Warnings about the data, one line each.
std::vector<std::string> embedding_warnings(const EmbeddingData& data);

/// Trains with embedding_loss over the samples of a whole step, those of all micro-batches and all
/// processes: each text of a batch is a negative of all others. A step of several micro-batches
/// computes them twice, as in "Scaling Deep Contrastive Learning Batch Size under Memory Limited
/// Setup" (Gao et al., RepL4NLP 2021). First it computes all vectors without a tape. Then it gives
/// each micro-batch the loss's gradient with respect to its vectors. The result is that of one
/// large batch, in the memory of one micro-batch.
std::unique_ptr<Objective> make_embedding_objective(const RunConfig& config, EmbeddingData data,
                                                    Communicator& communicator);

}  // namespace nystrom
