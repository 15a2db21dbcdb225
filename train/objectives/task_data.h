// Reads the data of a downstream task for a model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tasks/task_loader.h"
#include "train/config/config.h"
#include "train/distributed/communicator.h"

namespace nystrom {

/// Reads the files of one task for one model.
class TaskReader {
 public:
  /// `task` must be resolved (resolve_task). `labels` are its labels; for features they are the
  /// names of the classes, or empty. `tokenizer` is null for features.
  TaskReader(TaskConfig task, LabelSet labels, std::shared_ptr<const Tokenizer> tokenizer,
             const ModelConfig& model, std::int64_t sequence_length);

  /// Reads the examples of a source. Throws an InputError for the first error in the files.
  /// The width of features and the token types must fit the model. Texts are kept with
  /// `keep_examples`, and for questions.
  std::shared_ptr<const TaskDataset> read(const ExampleSource& source, Labelled labelled,
                                          bool keep_examples = false) const;
  /// Opens the files of bags.
  std::shared_ptr<const TaskDataset> open(const std::vector<Bag>& bags, Labelled labelled,
                                          const std::vector<std::string>& notes = {}) const;
  /// Reads the examples that validate: those of task_sources, or the part that task.folds or
  /// task.splits name.
  std::shared_ptr<const TaskDataset> read_validation(std::int64_t seed, bool keep_examples) const;
  /// Makes a data set from examples in memory. Not for features.
  std::shared_ptr<const TaskDataset> from(const std::vector<Example>& examples) const;

  const TaskConfig& task() const { return task_; }
  const LabelSet& labels() const { return labels_; }

 private:
  TaskEncoder encoder() const {
    return {task_, labels_, *tokenizer_, sequence_length_, model_.has_towers()};
  }
  std::shared_ptr<const TaskDataset> checked(TaskDataset dataset) const;

  TaskConfig task_;
  LabelSet labels_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  ModelConfig model_;
  std::int64_t sequence_length_;
};

/// The options of the loaders of a run.
TaskLoaderOptions loader_options(const RunConfig& config, const Communicator& communicator);

/// The names of a model's outputs, for ModelConfig::labels: the labels of the data set, or LABEL_0
/// for values. A data set without labels gives the default of Hugging Face.
std::vector<std::string> output_names(const TaskDataset& dataset);

/// A hash of the content of all samples.
std::string content_checksum(const TaskDataset& dataset);

/// The files of bags that are large (BagFile::is_large).
std::vector<std::filesystem::path> large_files(
    const std::vector<std::shared_ptr<const TaskDataset>>& datasets);

}  // namespace nystrom
