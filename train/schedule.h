// The learning rate of each step: a pure function, so that a resumed run needs no state for it.
#pragma once

#include <cstdint>

#include "train/config.h"

namespace nystrom {

/// The learning rate of step t (the first is 1) of `steps` with warm-up w = schedule.warmup_steps, or warmup_share of them (rounded):
///   t ≤ w: peak · t / w;   t > w, with r = (steps − t + 1) / (steps − w + 1), the share of the way still to go:
///   linear: peak · r;  cosine: peak · (1 + cos(π (1 − r))) / 2;  constant: peak.
/// Zero would be reached at step `steps` + 1: every step learns something, the last one included.
/// Throws Error unless 1 ≤ step ≤ steps and 0 ≤ w ≤ steps.
double learning_rate(double peak, const ScheduleConfig& schedule, std::int64_t steps, std::int64_t step);

}  // namespace nystrom
