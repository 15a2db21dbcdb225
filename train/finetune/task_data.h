// The data of a downstream task as a model takes it: its tokenizer, its labels, and the reading of
// its files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tasks/task_loader.h"
#include "train/config/config.h"
#include "train/logging/log.h"

namespace nystrom {

/// Reads the files of one task for one model.
class TaskReader {
 public:
  /// `task` is resolved and `labels` are its labels (for features: names of the classes, or none);
  /// `tokenizer` is null for features.
  TaskReader(TaskConfig task, LabelSet labels, std::shared_ptr<const Tokenizer> tokenizer,
             const ModelConfig& model, std::int64_t sequence_length);

  /// InputError for the first thing wrong in the files, and for features of another width and token
  /// types that the model does not know.
  std::shared_ptr<const TaskDataset> read(const std::vector<std::string>& patterns,
                                          Labelled labelled) const;
  /// Examples in memory; not of features.
  std::shared_ptr<const TaskDataset> from(const std::vector<Example>& examples) const;

  const TaskConfig& task() const { return task_; }
  const LabelSet& labels() const { return labels_; }
  /// How batches for this model are padded.
  PaddingOptions padding() const { return padding_; }

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
  PaddingOptions padding_;
};

/// Names of a model's outputs: those of `labels`, or one for a value, or Hugging Face's default
/// where outputs are no labels.
std::vector<std::string> output_names(const TaskDataset& dataset);

}  // namespace nystrom
