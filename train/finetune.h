// Fine-tuning on a downstream task: one run.
#pragma once

#include "train/trainer.h"

namespace nystrom {

/// Runs `config`, which has a task, in its run directory, as train_run does. The labels that the training files hold become part of the
/// configuration and of the model. InputError for everything wrong with the task's files.
RunResult finetune(const RunConfig& config, Log& log);

}  // namespace nystrom
