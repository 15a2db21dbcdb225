#include "train/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/check.h"

namespace nystrom {

std::int64_t warmup_of(const ScheduleOptions& schedule, std::int64_t steps) {
  constexpr std::int64_t longest_by_default = 10000;
  if (schedule.warmup_share)
    return std::llround(*schedule.warmup_share * static_cast<double>(steps));
  return schedule.warmup_steps.value_or(std::min(longest_by_default, steps / 10));
}

double learning_rate(double peak, const ScheduleOptions& schedule, std::int64_t steps,
                     std::int64_t step) {
  const std::int64_t warmup = warmup_of(schedule, steps);
  require(step >= 1 && step <= steps, "learning_rate: step {} is outside 1 to {}", step, steps);
  require(warmup >= 0 && warmup <= steps, "learning_rate: warmup_steps {} is outside 0 to {}",
          warmup, steps);
  if (step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  const double left =
      static_cast<double>(steps - step + 1) / static_cast<double>(steps - warmup + 1);
  switch (schedule.decay) {
    case Decay::linear: return peak * left;
    case Decay::cosine: return peak * (1 + std::cos(std::numbers::pi * (1 - left))) / 2;
    case Decay::constant: return peak;
    case Decay::wsd: {
      constexpr double usual_share = 0.1;
      const double share = schedule.decay_share.value_or(usual_share);
      const auto decaying =
          std::min<std::int64_t>(steps - warmup, std::llround(share * static_cast<double>(steps)));
      const std::int64_t past = step - (steps - decaying);
      if (past <= 0) return peak;
      return peak * (1 - std::sqrt(static_cast<double>(past) / static_cast<double>(decaying + 1)));
    }
  }
  return peak;
}

}  // namespace nystrom
