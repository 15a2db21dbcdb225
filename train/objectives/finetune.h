// A fine-tuning run on a downstream task.
#pragma once

#include "data/tasks/task_statistics.h"
#include "train/loop/trainer.h"
#include "train/objectives/task_data.h"
#include "train/objectives/task_evaluation.h"

namespace nystrom {

/// A run whose data files were read.
struct PreparedTask {
  RunSpec spec;  ///< complete with the task's labels and metric, and the model's labels
  std::unique_ptr<TaskReader> reader;
  std::shared_ptr<const TaskDataset> train, validation;
  std::shared_ptr<const TaskDataset> test;  ///< null without task.folds or a column test of splits
};

/// A finished run, with the scores of its best checkpoint on the test part, if there is one.
struct FinetuneResult : RunResult {
  std::optional<TaskEvaluation> test;
};

/// Reads the training and validation files of a run that is resolved for fine-tuning. Throws an
/// InputError for the first error in the files.
PreparedTask prepare_task(const RunSpec& spec);

/// The identity of a run's data, which a resumed run compares.
RunData run_data(const PreparedTask& run);

/// A description of a task's data, as lines of text: the number of examples, their lengths, the
/// truncation, and the frequency of each label.
std::vector<std::string> describe(const TaskStatistics& report, const RunConfig& config);

/// The warnings before a run with these data, one line each: those of task_warnings, of a tokenizer
/// that does not suit the task, and of training_warnings.
std::vector<std::string> run_warnings(const PreparedTask& run, const TaskStatistics& report);

/// Throws an InputError when two of these parts of a task have a bag with the same features. A null
/// pointer is no part.
void require_apart(std::initializer_list<const TaskDataset*> parts);

/// Warnings about training data that do not suit the options, one line each: a step reads all of
/// them, or the features are coarse in training.dtype.
std::vector<std::string> training_warnings(const TrainingConfig& training, const TaskDataset& data);

/// Fine-tunes on the task of a run that is resolved for fine-tuning, with train_run. The labels in
/// the training files become part of the configuration and of the model. Throws an InputError for
/// an error in the task's files. `describe_data`: log what the data is like, with its warnings. A
/// test part is evaluated once the run is done, and RUN_DIR/test.json has its scores.
FinetuneResult finetune(const RunSpec& spec, Log& log, Device device, Communicator& communicator,
                        bool describe_data = true, const RunObserver& observer = {});

}  // namespace nystrom
