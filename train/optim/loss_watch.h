// Detection of loss spikes.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace nystrom {

/// Checks the loss of every step. Its robust z-score is (loss − median) / (1.4826 · median absolute
/// deviation), over a baseline of the last 100 ordinary losses. A loss with a score above 6 is an
/// outlier, and three outliers in a row are a spike. The first 30 losses are never outliers.
class LossWatch {
 public:
  static constexpr std::size_t window = 100, in_a_row = 3;

  LossWatch() = default;
  /// Restores saved values.
  LossWatch(std::vector<double> baseline, std::vector<double> outliers)
      : baseline_(baseline.begin(), baseline.end()), outliers_(std::move(outliers)) {}

  /// Adds the loss of a step. Returns a message at the third outlier in a row, after which the
  /// baseline starts anew.
  std::optional<std::string> update(double loss);

  /// The ordinary losses that outliers are compared with, oldest first.
  std::vector<double> baseline() const { return {baseline_.begin(), baseline_.end()}; }
  /// The current outliers in a row.
  const std::vector<double>& outliers() const { return outliers_; }

 private:
  double score(double loss) const;

  std::deque<double> baseline_;
  std::vector<double> outliers_;
};

}  // namespace nystrom
