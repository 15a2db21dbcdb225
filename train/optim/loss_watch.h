// Notices that a run's loss has spiked.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace nystrom {

/// Looks at the loss of every step. An outlier is a loss whose robust z-score, (loss − median) /
/// (1.4826 · median absolute deviation) over the baseline of the last 100 other losses, exceeds 6.
/// Three outliers in a row are a spike. The first 30 losses are none.
class LossWatch {
 public:
  static constexpr std::size_t window = 100, in_a_row = 3;

  LossWatch() = default;
  /// As it was saved.
  LossWatch(std::vector<double> baseline, std::vector<double> outliers)
      : baseline_(baseline.begin(), baseline.end()), outliers_(std::move(outliers)) {}

  /// A message at the third outlier in a row, after which the baseline starts anew.
  std::optional<std::string> update(double loss);

  std::vector<double> baseline() const { return {baseline_.begin(), baseline_.end()}; }
  const std::vector<double>& outliers() const { return outliers_; }

 private:
  double score(double loss) const;

  std::deque<double> baseline_;
  std::vector<double> outliers_;
};

}  // namespace nystrom
