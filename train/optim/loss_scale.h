// Dynamic loss scaling (Micikevicius et al., arXiv 1710.03740), by the rule of
// torch.amp.GradScaler.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace nystrom {

/// The factor of the loss before the backward pass of an f16 step; the gradient is divided by it
/// afterwards. It keeps small gradients from vanishing: f16 has no values between 0 and 6e-8.
/// Dynamic scaling finds the largest factor that gradients permit. The factor is a power of two, so
/// normal numbers keep their bits.
class LossScale {
 public:
  static constexpr double first = 65536, least = 1;
  /// The scale doubles after this many consecutive finite steps.
  static constexpr std::int64_t growth_interval = 2000;

  LossScale() = default;
  /// Restores saved values.
  LossScale(double value, std::int64_t finite_steps) : value_(value), finite_steps_(finite_steps) {}

  /// The current factor.
  double value() const { return value_; }
  /// Consecutive steps with a finite gradient since the last change.
  std::int64_t finite_steps() const { return finite_steps_; }
  /// Whether the scale can explain a non-finite gradient: the loss is finite and the scale can
  /// still fall. The loss itself is not scaled, so no scale explains a non-finite loss.
  bool explains_skip(double loss) const { return value_ > least && std::isfinite(loss); }
  /// Called after each step with a finite loss; `finite` says whether the gradient was finite too.
  /// A non-finite gradient halves the scale, and the step is skipped.
  void update(bool finite) {
    finite_steps_ = finite ? finite_steps_ + 1 : 0;
    if (!finite) {
      value_ = std::max(value_ / 2, least);
    } else if (finite_steps_ == growth_interval) {
      value_ *= 2;
      finite_steps_ = 0;
    }
  }

 private:
  double value_ = first;
  std::int64_t finite_steps_ = 0;
};

}  // namespace nystrom
