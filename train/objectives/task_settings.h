// Opens a trained model for use, with the settings, the task, the tokenizer and the labels of its
// folder.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "train/objectives/task_data.h"
#include "train/state/model_folder.h"

namespace nystrom {

/// Overrides, split into those of the section `model` and all others.
struct SplitOverrides {
  std::vector<std::string> model, run;
  /// Throws an InputError for an option whose section is neither `model` nor among `sections`, and
  /// for one that is for runs alone, such as data.train.
  SplitOverrides(const std::vector<std::string>& overrides,
                 const std::vector<std::string>& sections);
  /// Throws an InputError if there are options of `run` and no files of --text that they are for.
  void require_text(const std::vector<std::string>& text) const;
};

/// The settings with which the model of a folder was trained. They come from config.yaml in the
/// folder; without it they are the defaults, with the trained sequence length, the task of the
/// model's head, and what config.json keeps of it. What the file `given` says is read over them,
/// and `overrides` last; data.text_column names the column of a task's texts too. `model` in the
/// result is that of the folder. Throws an InputError.
RunConfig settings_of(const ModelFolder& folder, const std::optional<std::string>& given,
                      const std::vector<std::string>& overrides);

/// The key of config.json under which exports keep the options of their task.
inline constexpr const char* task_key = "nystrom_task";

/// Throws an InputError for a model that says masked features: no command asks it for them.
void require_task_or_text(const ModelFolder& folder);

/// The options of a folder's task that decide its predictions, for the config.json of what is made
/// of it: whether texts have pairs and features are bags, the threshold of labels, how long texts
/// are read, answers limited and of whole words, and words cut. Empty without a task.
nlohmann::ordered_json kept_task(const ModelFolder& folder);

/// Whether a file describes the task of a folder's model: `given`, config.yaml in the folder, or
/// config.json of an export. Otherwise the head decides its kind, and whether texts have pairs
/// is unknown.
bool is_task_described(const ModelFolder& folder, const std::optional<std::string>& given);

/// settings_of for a masked language model. Throws an InputError if data.sequence_length does not
/// fit the model.
RunConfig masked_lm_settings(const ModelFolder& folder, const std::vector<std::string>& overrides);

/// The kind of task of the model's head; nothing for masked language models and bare encoders.
std::optional<TaskKind> task_of(const ModelConfig& config);

/// A loaded model for a task.
struct TaskModel {
  RunConfig settings;  ///< settings.task is resolved
  std::unique_ptr<Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< null for features
  std::unique_ptr<TaskReader> reader;
};

/// A TaskModel without its model. Throws an InputError if the tokenizer is missing, or the model's
/// head or labels do not fit the task.
TaskModel open_task(const ModelFolder& folder, RunConfig settings);

/// Loads the model and the tokenizer of a folder, for the task of `settings`. Throws the
/// InputErrors of open_task and load_model.
TaskModel open_task_model(const ModelFolder& folder, RunConfig settings, DType dtype,
                          Device device);

}  // namespace nystrom
