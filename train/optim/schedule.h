// The learning rate of each step. It is a pure function, so a resumed run needs no state for it.
#pragma once

#include <cstdint>

#include "train/optim/options.h"

namespace nystrom {

/// The number of warm-up steps of a run of `steps` steps: schedule.warmup_steps, else warmup_share
/// of all steps (rounded). Without either it is a tenth of all steps, at most 10000.
std::int64_t warmup_of(const ScheduleOptions& schedule, std::int64_t steps);

/// The learning rate of step t, from 1, in a run of `steps` steps with warm-up w =
/// warmup_of(schedule, steps):
/// - t ≤ w: peak · t / w
/// - t > w: depends on r = (steps − t + 1) / (steps − w + 1), the remaining share
/// - linear: peak · r
/// - cosine: peak · (1 + cos(π (1 − r))) / 2
/// - constant: peak
///
/// The rate would reach zero at step `steps` + 1, so the last step still learns. Throws an Error
/// unless 1 ≤ step ≤ steps and 0 ≤ w ≤ steps.
double learning_rate(double peak, const ScheduleOptions& schedule, std::int64_t steps,
                     std::int64_t step);

}  // namespace nystrom
