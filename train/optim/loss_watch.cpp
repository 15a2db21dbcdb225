#include "train/optim/loss_watch.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/check.h"

namespace nystrom {
namespace {

constexpr std::size_t min_losses = 30;
constexpr double limit = 6;
/// Deviations count as at least this share of the median. Otherwise every fluctuation of a constant
/// loss would be an outlier.
constexpr double min_deviation = 1e-3;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

double LossWatch::score(double loss) const {
  const std::vector<double> losses = baseline();
  const double centre = median(losses);
  std::vector<double> deviations;
  for (const double each : losses) deviations.push_back(std::abs(each - centre));
  // For a normal distribution, the standard deviation is 1.4826 times the median absolute
  // deviation.
  return (loss - centre) /
         std::max(1.4826 * median(std::move(deviations)), min_deviation * std::abs(centre));
}

std::optional<std::string> LossWatch::update(double loss) {
  if (!std::isfinite(loss)) {  // a skipped step
    outliers_.clear();
    return std::nullopt;
  }
  if (baseline_.size() >= min_losses && score(loss) > limit) {
    outliers_.push_back(loss);
    if (outliers_.size() < in_a_row) return std::nullopt;
    std::string spike =
        fmt::format("the loss has spiked: {:.4f} in the last {} steps; its baseline is {:.4f}",
                    fmt::join(outliers_, ", "), in_a_row, median(baseline()));
    outliers_.clear();
    baseline_.clear();
    return spike;
  }
  outliers_.clear();
  baseline_.push_back(loss);
  if (baseline_.size() > window) baseline_.pop_front();
  return std::nullopt;
}

}  // namespace nystrom
