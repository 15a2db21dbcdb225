#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/check.h"

namespace nystrom {

std::int64_t warmup_of(const ScheduleConfig& schedule, std::int64_t steps) {
  constexpr std::int64_t longest_by_default = 10000;
  if (schedule.warmup_share) return std::llround(*schedule.warmup_share * static_cast<double>(steps));
  return schedule.warmup_steps.value_or(std::min(longest_by_default, steps / 10));
}

void require_warmup_within_run(const RunConfig& config, std::int64_t samples) {
  const std::int64_t steps = total_steps(config.training, samples), warmup = warmup_of(config.schedule, steps);
  require_input(
      warmup <= steps,
      "schedule.warmup_steps {} exceeds the number of steps, {}, that training.epochs {} make of {} samples in batches of {}; the "
      "learning rate would never reach its peak: lower it, or give schedule.warmup_share in its place",
      warmup, steps, config.training.epochs.value_or(1), samples, config.training.batch_size);
}

double learning_rate(double peak, const ScheduleConfig& schedule, std::int64_t steps, std::int64_t step) {
  const std::int64_t warmup = warmup_of(schedule, steps);
  require(step >= 1 && step <= steps, "learning_rate: step {} is outside 1 to {}", step, steps);
  require(warmup >= 0 && warmup <= steps, "learning_rate: warmup_steps {} is outside 0 to {}", warmup, steps);
  if (step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  const double left = static_cast<double>(steps - step + 1) / static_cast<double>(steps - warmup + 1);
  switch (schedule.decay) {
    case Decay::linear: return peak * left;
    case Decay::cosine: return peak * (1 + std::cos(std::numbers::pi * (1 - left))) / 2;
    case Decay::constant: return peak;
  }
  return peak;
}

}  // namespace nystrom
