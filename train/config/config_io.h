// Reading and writing configurations: visitors over the field lists of train/config/config.h.
//
// Errors come all at once, in one InputError of a line each, in the order of the file and then of
// the overrides:
//   base.yaml:3:3: unknown key 'model.num_landmark'; did you mean 'num_landmarks'? (in
//   'model.attention')
//   --set optimizer.lerning_rate=3e-4: unknown key 'optimizer.lerning_rate'; did you mean
//   'learning_rate'?
//
// Values. Whole numbers: digits, or any number without a fraction (1e3). Numbers: decimal and
// finite. Booleans: true, false. Words and texts may stand in quotes, numbers and booleans may not.
// null only where an option is optional; an empty value is null. An override is
// `key.of.option=value`, the value in YAML (3e-4, [0.9, 0.95], {num_landmarks: 32}); a mapping
// changes the options it names and leaves the others; the last one wins.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/model_config.h"
#include "train/config/config.h"
#include "train/config/start_defaults.h"

namespace nystrom {

using Overrides = std::span<const std::string>;

/// The run that the file at `path` describes, with `overrides` applied; what neither gives keeps
/// its default, of fine-tuning where there is a task. What follows from the rest: the head is the
/// task's, a model with embed_dim and no task gets none, a vocab_size left out is that of the
/// tokenizer to train, and segment_means_seq_len is data.sequence_length. With model.from the
/// options of the model, and data.sequence_length, default to that folder's, which `read_start`
/// tells. Throws InputError, also for a file that cannot be read.
RunConfig read_config(const std::string& path, const ReadStart& read_start,
                      Overrides overrides = {});

/// A file that to_yaml wrote, as runs and checkpoints hold it: all options stand in it, so the
/// folder of model.from is not looked at.
RunConfig read_resolved_config(const std::string& path, Overrides overrides = {});

/// As read_config, from the text of a file called `name`.
RunConfig parse_config(std::string_view text, const std::string& name, const ReadStart& read_start,
                       Overrides overrides = {});

/// As read_resolved_config, from the text of a file called `name`.
RunConfig parse_resolved_config(std::string_view text, const std::string& name,
                                Overrides overrides = {});

/// `config` with overrides applied and checked; `name` says in errors where it comes from. Throws
/// InputError.
RunConfig override_config(RunConfig config, const std::string& name, Overrides overrides);

/// Applies overrides of `model.…` to a model that came from the file called `name`, and checks the
/// result. Throws InputError.
void override_model(ModelConfig& model, const std::string& name, Overrides overrides);

/// All options of `config` as a file that read_config reads back to the same.
std::string to_yaml(const RunConfig& config);

/// The same as paths and values in YAML, in order: {"model.attention.num_landmarks", "64"}.
std::vector<std::pair<std::string, std::string>> option_values(const RunConfig& config);

}  // namespace nystrom
