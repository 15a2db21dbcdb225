// A trained model in use: how it was trained, its task, its tokenizer and its labels, from its
// folder.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint/model_folder.h"
#include "train/finetune/task_data.h"

namespace nystrom {

/// Overrides of the model, and those of everything else.
struct SplitOverrides {
  std::vector<std::string> model, run;
  /// InputError for an option whose section is neither `model` nor among `sections`.
  SplitOverrides(const std::vector<std::string>& overrides,
                 const std::vector<std::string>& sections);
};

/// How the model of a folder was trained: from the run's file `given`, else from the config.yaml of
/// the folder, else the defaults, with the sequences that the model was trained with and the task
/// that its head is for. `overrides` come last. model is the folder's.
RunConfig settings_of(const ModelFolder& folder, const std::optional<std::string>& given,
                      const std::vector<std::string>& overrides);

/// settings_of for a masked language model. InputError when the model cannot take sequences of that
/// length.
RunConfig masked_lm_settings(const ModelFolder& folder, const std::vector<std::string>& overrides);

/// The kind of task that a head is for; nothing for masked language models and bare encoders.
std::optional<TaskKind> task_of(const ModelConfig& config);

/// A model that does a task, ready to be asked.
struct TaskModel {
  RunConfig settings;  ///< the task resolved
  std::unique_ptr<Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< null for features
  std::unique_ptr<TaskReader> reader;
};

/// InputError when model and task do not fit: another head, or another number of labels.
TaskModel open_task_model(const ModelFolder& folder, RunConfig settings, DType dtype,
                          Device device);

}  // namespace nystrom
