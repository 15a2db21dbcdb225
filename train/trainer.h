// Masked-LM pretraining of one run, from the first step or from its newest checkpoint.
#pragma once

#include "train/config.h"
#include "train/evaluation.h"
#include "train/log.h"

namespace nystrom {

/// How a run ended.
struct PretrainResult {
  std::int64_t steps = 0;            ///< done in all
  Evaluation evaluation;             ///< the last one; of no tokens when there was none
  std::optional<std::int64_t> best;  ///< the step of the best evaluation
  bool interrupted = false;          ///< by SIGINT or SIGTERM: a checkpoint of the last step was saved
};

/// Runs `config` in its run directory to training.steps. A run that was stopped goes on from its newest whole checkpoint, to the same bits
/// as if it had not been. InputError when the run directory holds a run of other settings (all changed keys are named; steps, logging,
/// evaluation and checkpoint may change); InputError after three steps in a row whose gradient was not finite.
PretrainResult pretrain(const RunConfig& config, Log& log);

}  // namespace nystrom
