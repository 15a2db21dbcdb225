// A pretraining run. It starts with the first step or continues from its newest
// checkpoint.
#pragma once

#include "train/loop/trainer.h"
#include "train/objectives/evaluation.h"

namespace nystrom {

/// The result of a pretraining run.
struct PretrainResult {
  RunResult run;
  Evaluation
      evaluation;  ///< the last evaluation; its `tokens` are 0 if there was none, and of features
};

/// Prepares the text of a run (prepare_corpus) and pretrains with train_run; of features see
/// pretrain_features. `spec` is resolved for pretraining. Throws an InputError for unusable text.
PretrainResult pretrain(const RunSpec& spec, Log& log, Device device, Communicator& communicator,
                        const RunObserver& observer = {});

}  // namespace nystrom
