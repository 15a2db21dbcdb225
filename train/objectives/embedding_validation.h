// The held-out data of a task of kind embeddings, and its metrics.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/tasks/embedding_data.h"
#include "data/tokenizers/tokenizer.h"
#include "nn/model.h"
#include "train/config/config.h"
#include "train/distributed/communicator.h"
#include "train/objectives/retrieval.h"

namespace nystrom {

/// Held-out texts by which vectors are measured.
class EmbeddingValidation {
 public:
  virtual ~EmbeddingValidation() = default;

  /// What it holds, as a noun: "scored pairs".
  virtual std::string kind() const = 0;
  /// A line for the log: how much it holds.
  virtual std::string summary() const = 0;
  /// Hash of all that decides the metrics.
  virtual std::string checksum() const = 0;
  /// What can be measured. The first decides where task.metric is null.
  virtual std::vector<TaskMetric> metrics() const = 0;

  /// The number of its pairs that `train` has too; 0 for a folder.
  virtual std::int64_t overlap(const EmbeddingSamples&) const { return 0; }

  /// What a reader of the metrics must know, one line each.
  virtual std::vector<std::string> notes() const { return {}; }

  /// Called with the texts done and their number.
  using Progress = std::function<void(std::int64_t done, std::int64_t total)>;
  /// The values of metrics() in their order, without dropout. The processes share the work and get
  /// the same values.
  virtual std::vector<double> evaluate(const Model& model, Communicator& communicator,
                                       const Progress& progress) const = 0;
};

/// What becomes the tokens of the texts of a run.
EmbeddingTextOptions embedding_text_options(const RunConfig& config);

/// Whether task.validation is one folder, which has BEIR's form, instead of files.
bool validates_by_retrieval(const TaskConfig& task);

/// Reads the queries and judgements of that folder: those of qrels/dev.tsv where it exists, else as
/// read_retrieval does. Throws an InputError.
RetrievalSet read_validation_folder(const TaskConfig& task);

/// Reads the examples of `source`, or the folder that task.validation of `config` names. The
/// configuration is resolved. Scored pairs are measured by Spearman's
/// and Pearson's correlation of the scores with the vectors' cosines. Pairs are measured by mrr and
/// accuracy: each text looks for its own positive among the different second texts, of which its
/// other positives are left out. Folders are measured by ndcg_at_10 and the other scores of
/// evaluate_retrieval. Long texts are read in windows. Texts are computed in batches of
/// training.micro_batch_size. Throws an InputError for the first fault in the files, and for texts
/// that say nothing about similarity.
std::shared_ptr<const EmbeddingValidation> read_embedding_validation(
    const RunConfig& config, const ExampleSource& source,
    std::shared_ptr<const Tokenizer> tokenizer);

}  // namespace nystrom
