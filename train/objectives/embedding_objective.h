// The training objective of a task of kind embeddings.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/tasks/embedding_data.h"
#include "train/config/config.h"
#include "train/distributed/communicator.h"
#include "train/loop/objective.h"
#include "train/objectives/retrieval.h"

namespace nystrom {

/// Held-out texts by which vectors are measured.
struct EmbeddingValidation {
  std::string kind;      ///< what it holds, as a noun: "scored pairs"
  std::string summary;   ///< a line for the log: how much it holds
  std::string checksum;  ///< of all that decides the metrics
  /// The metrics that can be measured. The first decides where task.metric is null.
  std::vector<TaskMetric> metrics{};
  std::vector<Digest> digests{};     ///< of its pairs; none for a folder
  std::vector<std::string> notes{};  ///< what a reader of the metrics must know, one line each

  /// The values of `metrics` in their order, without dropout. The processes share the work and get
  /// the same values. Progress is called with the texts done and their number.
  std::function<std::vector<double>(const Model&, Communicator&,
                                    const Objective::EvaluationProgress&)>
      evaluate{};
};

/// Whether task.validation is one folder, which has BEIR's form, instead of files.
bool validates_by_retrieval(const TaskConfig& task);

/// Reads the queries and judgements of that folder: those of qrels/dev.tsv where it exists, else as
/// read_retrieval does. Throws an InputError.
RetrievalSet read_validation_folder(const TaskConfig& task);

/// Reads the examples of `source`, or the folder that task.validation of `config` names. The
/// configuration is resolved. Scored pairs are measured by Spearman's and Pearson's correlation of
/// the scores with the vectors' similarities. Pairs are measured by mrr and accuracy: each text
/// looks for its own positive among the different second texts, of which its other positives are
/// left out. Folders are measured by ndcg_at_10 and the other scores of evaluate_retrieval. Long
/// texts are read in windows. Texts are computed in batches of training.micro_batch_size. Throws an
/// InputError for the first fault in the files, and for texts that say nothing about similarity.
EmbeddingValidation read_embedding_validation(const RunConfig& config, const ExampleSource& source,
                                              std::shared_ptr<const Tokenizer> tokenizer);

/// The data of a task of kind embeddings.
struct EmbeddingData {
  std::shared_ptr<const EmbeddingDataset> train;
  EmbeddingValidation validation;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::int64_t overlap = 0;  ///< validation pairs that are training pairs too
};

/// Reads the files of the task in `config`, which is resolved. Sets task.metric if it is null.
/// Throws an InputError for the first fault in the files, for a prompt with the name of a special
/// token, and where texts, loss, views and metric do not fit each other.
EmbeddingData read_embedding_data(RunConfig& config, std::shared_ptr<const Tokenizer> tokenizer);

/// The identity of a run's data, which a resumed run compares.
RunData run_data(const EmbeddingData& data);

/// A description of the data, one line each.
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
