// The learning rate of each step. It is a pure function, so a resumed run needs no state for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/optim/options.h"

namespace nystrom {

/// The number of warm-up steps of a run of `steps` steps: schedule.warmup_steps, else warmup_share
/// of all steps (rounded). Without either it is a tenth of all steps, at most 10000.
std::int64_t warmup_of(const ScheduleOptions& schedule, std::int64_t steps);

/// Why the decay of wsd has not the share of the steps that it is to have: the warm-up takes too
/// many. Empty if it has, and where only the number of steps, which is not known yet, could tell.
std::string decay_problem(const ScheduleOptions& schedule, std::optional<std::int64_t> steps);

/// The learning rate of step t, from 1, in a run of `steps` steps with warm-up w =
/// warmup_of(schedule, steps):
/// - t ≤ w: peak · t / w
/// - t > w: depends on r = (steps − t + 1) / (steps − w + 1), the remaining share
/// - linear: peak · r
/// - cosine: peak · (1 + cos(π (1 − r))) / 2
/// - constant: peak
/// - wsd (warm-up, stable, decay): peak, and in the last d = decay_share · steps steps (rounded,
///   at least one)   peak · (1 − √((t − (steps − d)) / (d + 1))), as Hägele et al., "Scaling Laws
///   and Compute-Optimal Training Beyond Fixed Training Durations", NeurIPS 2024, recommend. Where
///   the decay follows the warm-up at once, it has the steps that are left.
///
/// The rate would reach zero at step `steps` + 1, so the last step still learns. Throws an Error
/// unless 1 ≤ step ≤ steps and 0 ≤ w ≤ steps.
double learning_rate(double peak, const ScheduleOptions& schedule, std::int64_t steps,
                     std::int64_t step);

}  // namespace nystrom
