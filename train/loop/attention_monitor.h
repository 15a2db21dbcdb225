// What a run tells of its approximation while it trains: figures of every layer, and a warning that
// names the layer and what helps.
#pragma once

#include <memory>

#include "nn/attention_watch.h"
#include "train/config/config.h"
#include "train/logging/log.h"
#include "train/logging/metrics.h"
#include "train/loop/train_step.h"

namespace nystrom {

/// Looks at every logging.attention_every-th step of a model whose attention.kind is nystrom;
/// otherwise does nothing.
class AttentionMonitor {
 public:
  AttentionMonitor(const RunConfig& config, Log& log);

  /// Before step number `step`, from 1: has it watched when it is due.
  void begin(std::int64_t step, StepOptions& options);
  /// After it: "layer_0_attention_error", …; nothing when it was not watched. Warns when a layer's
  /// error was above logging.attention_error_limit three times in a row, once until it falls below.
  Metrics end();

 private:
  void judge(std::int64_t layer, const AttentionFigures& figures);

  RunConfig config_;
  Log& log_;
  std::unique_ptr<AttentionWatch> watch_;
  double loss_scale_ = 1;                       // of the step that is watched
  std::map<std::int64_t, std::int64_t> above_;  // how often in a row, by layer
};

}  // namespace nystrom
