// Masked-LM pretraining of one run, from the first step or from its newest checkpoint.
#pragma once

#include "train/loop/trainer.h"
#include "train/pretrain/evaluation.h"

namespace nystrom {

/// How a run ended.
struct PretrainResult {
  RunResult run;
  Evaluation evaluation;  ///< the last one; of no tokens when there was none
};

/// Runs the configuration in its run directory, as train_run does. A run with model.from starts
/// from that model's weights, with its tokenizer unless tokenizer.path names another. The first
/// process prepares the text, the others take it from the cache.
PretrainResult pretrain(const RunConfig& given, Log& log, Device device,
                        Communicator& communicator);

}  // namespace nystrom
