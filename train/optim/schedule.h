// The learning rate of each step: a pure function, so that a resumed run needs no state for it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/base/fields.h"

namespace nystrom {

enum class Decay { linear, cosine, constant };
std::span<const EnumName<Decay>> enum_names(Decay);

struct ScheduleOptions {
  std::optional<std::int64_t> warmup_steps;
  Decay decay = Decay::linear;
  std::optional<double> warmup_share = std::nullopt;
};

template <class V>
void fields(V& v, ScheduleOptions& c) {
  v(c.warmup_steps, "warmup_steps",
    "steps in which the learning rate rises to its peak; null: warmup_share decides, and without "
    "that too a tenth of all steps, at most "
    "10000",
    not_negative);
  v(c.warmup_share, "warmup_share", "the same as a share of all steps, instead of warmup_steps",
    probability);
  v(c.decay, "decay",
    "of the learning rate after the warm-up. linear, cosine: towards zero; constant: none");
}

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
