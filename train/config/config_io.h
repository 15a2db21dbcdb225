// Reads and writes configurations with visitors over the field lists of train/config/config.h.
//
// One InputError reports all errors together, one per line: first those of the file in its order,
// then those of the overrides.
//   base.yaml:3:3: unknown key 'model.num_landmark'; did you mean 'num_landmarks'? (in
//   'model.attention')
//   --set optimizer.lerning_rate=3e-4: unknown key 'optimizer.lerning_rate'; did you mean
//   'learning_rate'?
//
// Values. A whole number consists of digits, or is any number without a fraction (1e3). Numbers are
// decimal and finite. Booleans are true and false. Words and texts may be quoted; numbers and
// booleans may not. Only optional options may be null. An empty value of a file is null.
//
// Overrides. An override is `key.of.option=value` with a value in YAML: 3e-4, [0.9, 0.95] or
// {num_landmarks: 32}. A mapping changes only the options that it names. If several overrides set
// the same option, the last one applies.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/model_config.h"
#include "train/config/config.h"

namespace nystrom {

using Overrides = std::span<const std::string>;

/// The defaults of a run that starts from a folder: the folder's model, and the maximum number of
/// tokens in a sequence of its training.
struct StartDefaults {
  ModelConfig model;
  std::int64_t sequence_length = 0;
};

/// Reads the defaults from the folder `from`, the value of model.from. Throws an InputError if that
/// fails.
using ReadStart = std::function<StartDefaults(const std::string& from)>;

/// The text of a configuration, and its name in errors.
struct ConfigText {
  std::string name, text;
};

/// The text of the file at `path`. Throws an InputError if it cannot be read.
ConfigText config_file(const std::string& path);

/// Reads the configuration of a run, applies `overrides` and checks the result; `name` is the
/// text's name in errors. Options that neither gives keep their defaults; a run with a task has the
/// defaults of fine-tuning. If model.from is set, `read_start` gives the defaults of the model's
/// options and of data.sequence_length.
///
/// Some values follow from others. The task decides the head; a model with embed_dim and without a
/// task has no head. A missing vocab_size becomes tokenizer.train.vocab_size.
/// segment_means_seq_len becomes data.sequence_length, except in a model from a folder with
/// attention.semantics transformers.
///
/// Throws an InputError if the text has errors.
RunConfig parse_config(std::string_view text, const std::string& name, const ReadStart& read_start,
                       Overrides overrides = {});

/// The options of a pretraining run that reads the inputs of config.task: there is no task.
RunConfig pretraining_on_inputs(RunConfig config);

/// Reads a file that to_yaml wrote, for example config.yaml in a run or checkpoint. It contains all
/// options, so the folder of model.from is not opened. Throws an InputError if the file cannot be
/// read or has errors.
RunConfig read_resolved_config(const std::string& path, Overrides overrides = {});

/// Does the same as read_resolved_config with the text of a file; `name` is its name in errors.
RunConfig parse_resolved_config(std::string_view text, const std::string& name,
                                Overrides overrides = {});

/// Reads a file and overrides over `config`, which keeps what neither says, and checks the result.
/// Throws an InputError.
RunConfig read_config_over(RunConfig config, const std::string& path, Overrides overrides);

/// Applies overrides to `config` and checks the result. `name` is the source of `config` in errors.
/// Throws an InputError.
RunConfig override_config(RunConfig config, const std::string& name, Overrides overrides);

/// The paths of the options that overrides and a text name, by themselves or in a mapping, and of
/// the sections that these are in. What is wrong in them is passed over.
std::set<std::string> options_in(Overrides overrides, const ConfigText& text = {});

/// The options that a text and overrides give, over the plain defaults. What is wrong in them is
/// passed over. Throws an InputError if the text is no YAML.
RunConfig understood_options(const ConfigText& text, Overrides overrides);

/// Applies overrides of `model.…` options to `model` and checks the result. `name` is the source of
/// `model` in errors. Throws an InputError and leaves `model` unchanged if there is an error.
void override_model(ModelConfig& model, const std::string& name, Overrides overrides);

/// All options of `config` as YAML. read_resolved_config reads it back without loss.
std::string to_yaml(const RunConfig& config);

/// All options of `config` in order, as pairs of path and value in YAML:
/// {"model.attention.num_landmarks", "64"}.
std::vector<std::pair<std::string, std::string>> option_values(const RunConfig& config);

/// The paths of the options with other values than their defaults, in order; an empty list is none.
std::vector<std::string> set_options(const RunConfig& config);

}  // namespace nystrom
