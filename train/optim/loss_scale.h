// Dynamic loss scaling (Micikevicius et al., arXiv 1710.03740), by the rule of
// torch.amp.GradScaler.
#pragma once

#include <cstdint>

namespace nystrom {

/// What the loss is multiplied by before the backward pass of a step in f16, and its gradient
/// divided by afterwards: f16 holds nothing between 0 and 6e-8. As large as gradients allow, which
/// is found by trying. A power of two: normal numbers keep their bits.
class LossScale {
 public:
  static constexpr double first = 65536, least = 1;
  static constexpr std::int64_t growth_interval =
      2000;  ///< finite steps in a row, after which it is doubled

  LossScale() = default;
  /// As it was saved.
  LossScale(double value, std::int64_t finite_steps) : value_(value), finite_steps_(finite_steps) {}

  double value() const { return value_; }
  /// Steps in a row whose gradient was finite, since the last change.
  std::int64_t finite_steps() const { return finite_steps_; }
  /// Whether a gradient that is not finite is the scale's doing, and how it is found: while it can
  /// fall. Of a loss that is not finite, which is not scaled, no scale is to blame.
  bool explains_skip(double loss) const;
  /// After each step whose loss was finite: halved where its gradient was not, and the step
  /// skipped.
  void update(bool finite);

 private:
  double value_ = first;
  std::int64_t finite_steps_ = 0;
};

}  // namespace nystrom
