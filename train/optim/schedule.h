// The learning rate of each step: a pure function, so that a resumed run needs no state for it.
#pragma once

#include <cstdint>

#include "train/optim/options.h"

namespace nystrom {

/// Steps of the warm-up of a run of `steps`: schedule.warmup_steps, or warmup_share of them
/// (rounded), or a tenth of them, at most 10000.
std::int64_t warmup_of(const ScheduleOptions& schedule, std::int64_t steps);

/// The learning rate of step t (the first is 1) of `steps` with warm-up w = warmup_of(schedule,
/// steps):
///   t ≤ w: peak · t / w;   t > w, with r = (steps − t + 1) / (steps − w + 1), the share of the way
///   still to go: linear: peak · r;  cosine: peak · (1 + cos(π (1 − r))) / 2;  constant: peak.
/// Zero would be reached at step `steps` + 1: every step learns something, the last one included.
/// Throws Error unless 1 ≤ step ≤ steps and 0 ≤ w ≤ steps.
double learning_rate(double peak, const ScheduleOptions& schedule, std::int64_t steps,
                     std::int64_t step);

}  // namespace nystrom
