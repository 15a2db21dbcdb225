// A number that changes over the steps of a run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nystrom {

/// A number, or several at some steps, and linear between them: 0.3, or {0: 0.3, end: 0.15}. Keys
/// are whole numbers of steps, from 0, or "end" for the last step. In files a single number stands
/// for itself.
struct Ramp {
  std::vector<std::pair<std::string, double>> points;

  // NOLINTNEXTLINE(google-explicit-constructor): a number is a ramp of one point
  Ramp(double value = 0) : points{{"0", value}} {}
  bool operator==(const Ramp&) const = default;

  /// The fault of the keys, for a message; empty: they begin at 0 and grow, within `steps` if
  /// known.
  std::string key_problem(std::optional<std::int64_t> steps) const;
  /// The number of step `step`, from 0, in a run of `steps` steps. The keys must be valid.
  double at(std::int64_t step, std::int64_t steps) const;
  /// The number at the end.
  double last() const { return points.back().second; }
  /// The largest number.
  double largest() const {
    return std::ranges::max(points, {}, &std::pair<std::string, double>::second).second;
  }
};

}  // namespace nystrom
