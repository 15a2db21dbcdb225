#include "core/base/ramp.h"

#include <fmt/format.h>

#include "core/base/printable.h"
#include "core/base/words.h"

namespace nystrom {
namespace {

/// The step of a key; nothing if it is none.
std::optional<std::int64_t> step_of(const std::string& key, std::int64_t end) {
  if (key == "end") return end;
  const auto step = number_of<std::int64_t>(key);
  return step && *step >= 0 ? step : std::nullopt;
}

}  // namespace

std::string Ramp::key_problem(std::optional<std::int64_t> steps) const {
  constexpr std::int64_t far = std::int64_t{1} << 62;
  std::int64_t before = -1;
  for (const auto& [key, value] : points) {
    const auto step = step_of(key, steps ? std::max<std::int64_t>(*steps - 1, 1) : far);
    if (!step)
      return fmt::format(
          "'{}' is no step; expected whole numbers or end, as in {{0: 0.3, end: 0.15}}",
          printable(key, 40));
    if (before < 0 && *step != 0) return fmt::format("begins at step {}; it begins at 0", key);
    if (key == "end" && *step == before)
      return fmt::format("names the last step twice, as {} and as end; leave one out", before);
    if (*step <= before) return fmt::format("has step {} behind a later one, or twice", key);
    if (steps && key != "end" && *step >= *steps)
      return fmt::format("reaches step {} of a run of {}; begin earlier, or write end", key,
                         *steps);
    before = *step;
  }
  return points.empty() ? "is empty; give a number, or {0: 0.3, end: 0.15}" : "";
}

double Ramp::at(std::int64_t step, std::int64_t steps) const {
  const std::int64_t end = std::max<std::int64_t>(steps - 1, 1);
  for (std::size_t i = 1; i < points.size(); ++i) {
    const std::int64_t from = *step_of(points[i - 1].first, end),
                       to = *step_of(points[i].first, end);
    if (step < to) {
      const double part = static_cast<double>(step - from) / static_cast<double>(to - from);
      return points[i - 1].second + part * (points[i].second - points[i - 1].second);
    }
  }
  return last();
}

}  // namespace nystrom
