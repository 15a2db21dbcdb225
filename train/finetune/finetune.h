// Fine-tuning on a downstream task: one run.
#pragma once

#include "data/tasks/task_report.h"
#include "train/finetune/task_data.h"
#include "train/loop/trainer.h"

namespace nystrom {

/// A run with its files read.
struct PreparedTask {
  RunConfig config;  ///< completed by what the files hold: labels, metric, the model's outputs
  std::unique_ptr<TaskReader> reader;
  std::shared_ptr<const TaskDataset> train, validation;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< null for features
};

/// Resolves the task and fits the model to the tokenizer, which it returns; null for features. For
/// a run that validate_finetuning finds nothing wrong with. InputError when there is no such
/// tokenizer, or it does not fit the model, the task or data.sequence_length.
std::shared_ptr<const Tokenizer> fit_model_to_task(RunConfig& config, Log& log);

/// Reads the files of a run that validate_finetuning finds nothing wrong with. InputError for the
/// first thing wrong in them.
PreparedTask prepare_task(RunConfig config, Log& log);

/// What its data is like, a line each: numbers of examples, lengths, what is cut, how often each
/// label occurs.
std::vector<std::string> describe(const TaskReport& report, const RunConfig& config);

/// Runs `config`, which has a task, in its run directory, as train_run does. The labels that the
/// training files hold become part of the configuration and of the model. InputError for everything
/// wrong with the task's files.
RunResult finetune(const RunConfig& config, Log& log, Device device, Communicator& communicator);

}  // namespace nystrom
