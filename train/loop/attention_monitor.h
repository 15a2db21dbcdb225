// Monitoring of the attention approximation during training: figures of every layer, and a line in
// the log for a layer that is far from exact attention.
#pragma once

#include <memory>

#include "core/base/log.h"
#include "nn/attention_watch.h"
#include "train/config/config.h"
#include "train/loop/metrics.h"
#include "train/loop/train_step.h"

namespace nystrom {

/// Monitors the layers of attention.kind nystrom in every logging.attention_every-th step. Does
/// nothing for models without such layers.
class AttentionMonitor {
 public:
  /// `log` receives the lines and must outlive the monitor.
  AttentionMonitor(const RunConfig& config, Log& log);

  /// Called before step number `step`, from 1. Sets options.observe_attention if the step is due.
  void begin(std::int64_t step, StepOptions& options);
  /// Called after the step. Returns "layer_0_attention_error", …, or nothing if the step was not
  /// monitored. Logs a line when a layer's error exceeds logging.attention_error_limit three times
  /// in a row. The line comes once, until the error falls below the limit again.
  Metrics end();

 private:
  void judge(std::int64_t layer, const AttentionFigures& figures);

  RunConfig config_;
  Log& log_;
  std::unique_ptr<AttentionWatch> watch_;
  double loss_scale_ = 1;  // the loss scale of the monitored step
  std::map<std::int64_t, std::int64_t>
      above_;  // how often in a row the error was above the limit, by layer
};

}  // namespace nystrom
