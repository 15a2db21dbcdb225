// The rules of configurations that ranges of options do not express.
#pragma once

#include "core/base/problem.h"
#include "core/device.h"
#include "train/config/config.h"

namespace nystrom {

/// The rules between options that `config` breaks; the ranges of single options were checked when
/// the file was read. Each message is one line and begins with the path of an option:
/// "schedule.warmup_steps 10000 exceeds training.steps 500; …".
Problems validate(const RunConfig& config);
/// Throws an InputError, which names training.dtype, if `device` cannot compute in that dtype.
void require_computable(const RunConfig& config, Device device);
/// Adds a problem for each of the options, or of the options in the sections ("masking."), that is
/// set and that nothing reads: "OPTION is for PURPOSE; leave it out".
void refuse_set(const RunConfig& config, const std::vector<std::string>& options,
                const std::string& purpose, Problems& found);
/// Adds a problem for each of optimizer.groups that does not fit the model.
void check_groups(const RunConfig& config, Problems& found);
/// Adds a problem if the warm-up leaves the decay too few steps. No rule of validate(), which reads
/// the settings of finished runs too.
void check_decay(const RunConfig& config, Problems& found);
/// The problems of validate(), and those of pretraining: it needs text to train on and text to
/// evaluate on. With `of_files` its texts are those of data.train and data.validation, else the
/// examples of a task.
Problems validate_pretraining(const RunConfig& config, bool of_files = true);
/// The problems of a task whose inputs a run is to pretrain on.
Problems validate_inputs(const RunConfig& config);
/// The problems of pretraining on features: options that it does not read.
Problems validate_masked_features(const RunConfig& config);
/// The problems of validate(), and those of fine-tuning: it needs a task with files to train and
/// evaluate on, and a model or tokenizer to start from if the task reads text.
Problems validate_finetuning(const RunConfig& config);
/// Throws an InputError with the messages of all problems, one per line, if there are any.
void require_none(const Problems& problems);

}  // namespace nystrom
