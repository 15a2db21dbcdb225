// A fine-tuning run on a downstream task.
#pragma once

#include "data/tasks/task_report.h"
#include "train/finetune/task_data.h"
#include "train/loop/trainer.h"

namespace nystrom {

/// A run whose data files were read.
struct PreparedTask {
  RunConfig config;  ///< complete with the task's labels and metric, and the model's labels
  std::unique_ptr<TaskReader> reader;
  std::shared_ptr<const TaskDataset> train, validation;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< null for features
};

/// Resolves the task in `config` and adapts the model's options to its tokenizer. Returns the
/// tokenizer; null for features. Requires a configuration without problems in validate_finetuning.
/// Throws an InputError if the tokenizer does not exist, or does not fit the model, the task or
/// data.sequence_length.
std::shared_ptr<const Tokenizer> fit_model_to_task(RunConfig& config, Log& log);

/// Reads the training and validation files of a run. Requires a configuration without problems in
/// validate_finetuning. Throws an InputError for the first error in the files.
PreparedTask prepare_task(RunConfig config, Log& log);

/// A description of a task's data, as lines of text: the number of examples, their lengths, the
/// truncation, and the frequency of each label.
std::vector<std::string> describe(const TaskReport& report, const RunConfig& config);

/// Warnings about a tokenizer that does not suit the task, one line each; none for features.
std::vector<std::string> tokenizer_warnings(const RunConfig& config, const Tokenizer* tokenizer);

/// Fine-tunes on the task of `config` in its run directory, with train_run. The labels in the
/// training files become part of the configuration and of the model. Throws an InputError for an
/// invalid configuration or an error in the task's files. `describe_data`: log what the data is
/// like, with its warnings.
RunResult finetune(const RunConfig& config, Log& log, Device device, Communicator& communicator,
                   bool describe_data = true, const OnStep& on_step = {});

}  // namespace nystrom
