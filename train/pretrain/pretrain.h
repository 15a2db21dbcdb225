// A masked-LM pretraining run. It starts with the first step or continues from its newest
// checkpoint.
#pragma once

#include "train/loop/trainer.h"
#include "train/pretrain/evaluation.h"

namespace nystrom {

/// The result of a pretraining run.
struct PretrainResult {
  RunResult run;
  Evaluation evaluation;  ///< the last evaluation; its `tokens` are 0 if there was none
};

/// Prepares the text of `given` (prepare_corpus) and pretrains in its run directory with train_run.
/// With model.from the run starts from the weights and the tokenizer of that folder; tokenizer.path
/// replaces the tokenizer. Throws an InputError for an invalid configuration or unusable text.
PretrainResult pretrain(const RunConfig& given, Log& log, Device device, Communicator& communicator,
                        const OnStep& on_step = {});

}  // namespace nystrom
