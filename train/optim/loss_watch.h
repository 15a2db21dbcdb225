// Notices that a run's loss has spiked.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace nystrom {

/// Looks at the loss of every step. A loss is far off when its robust z-score, (loss − median) / (1.4826 · median absolute deviation) over
/// the last 100 usual losses, exceeds 6; three in a row are a spike. Says nothing before it has seen 30.
class LossWatch {
 public:
  static constexpr std::size_t window = 100, in_a_row = 3;

  LossWatch() = default;
  /// As it was saved.
  LossWatch(std::vector<double> usual, std::vector<double> far) : usual_(usual.begin(), usual.end()), far_(std::move(far)) {}

  /// What to say at the third far loss in a row; what comes then is taken for usual anew.
  std::optional<std::string> see(double loss);

  std::vector<double> usual() const { return {usual_.begin(), usual_.end()}; }
  const std::vector<double>& far() const { return far_; }

 private:
  double score(double loss) const;

  std::deque<double> usual_;
  std::vector<double> far_;
};

}  // namespace nystrom
