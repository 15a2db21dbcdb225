#include "train/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/check.h"

namespace nystrom {
namespace {

double decay_share_of(const ScheduleOptions& schedule) {
  return schedule.decay_share.value_or(0.1);
}

}  // namespace

std::int64_t warmup_of(const ScheduleOptions& schedule, std::int64_t steps) {
  constexpr std::int64_t longest_by_default = 10000;
  if (schedule.warmup_share)
    return std::llround(*schedule.warmup_share * static_cast<double>(steps));
  return schedule.warmup_steps.value_or(std::min(longest_by_default, steps / 10));
}

std::string decay_problem(const ScheduleOptions& schedule, std::optional<std::int64_t> steps) {
  if (schedule.decay != Decay::wsd || !(steps || schedule.warmup_share)) return "";
  const std::int64_t warmup = steps ? warmup_of(schedule, *steps) : 0;
  const double rising = schedule.warmup_share
                            ? *schedule.warmup_share
                            : static_cast<double>(warmup) / static_cast<double>(*steps);
  constexpr double rounding = 1e-9;
  if (rising + decay_share_of(schedule) <= 1 + rounding) return "";
  return fmt::format(
      "schedule.decay_share {} of the steps do not fit behind a warm-up of {}; lower one of them",
      decay_share_of(schedule),
      schedule.warmup_share ? fmt::format("schedule.warmup_share {}", rising)
                            : fmt::format("{} of {} steps", warmup, *steps));
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
      const auto share = std::llround(decay_share_of(schedule) * static_cast<double>(steps));
      const auto decaying = std::min<std::int64_t>(steps - warmup, std::max(share, 1LL));
      const std::int64_t past = step - (steps - decaying);
      if (past <= 0) return peak;
      return peak * (1 - std::sqrt(static_cast<double>(past) / static_cast<double>(decaying + 1)));
    }
  }
  return peak;
}

}  // namespace nystrom
