#include "core/base/fields.h"

#include <fmt/format.h>

#include <cmath>

namespace nystrom {

std::string describe_bounds(const Range& range) {
  const bool above = std::isfinite(range.lower);
  const bool below = std::isfinite(range.upper);
  if (range.lower == range.upper) return fmt::format("{}", range.lower);
  if (above && below && !range.lower_open && !range.upper_open)
    return fmt::format("between {} and {}", range.lower, range.upper);
  std::string text;
  if (above)
    text += fmt::format("{} {}", range.lower_open ? "greater than" : "at least", range.lower);
  if (above && below) text += " and ";
  if (below) text += fmt::format("{} {}", range.upper_open ? "below" : "at most", range.upper);
  return text;
}

std::string describe(const Range& range, bool whole) {
  if (range.lower == range.upper) return describe_bounds(range);
  const std::string bounds = describe_bounds(range);
  return fmt::format("{}{}{}",
                     range.odd ? "an odd whole number"
                     : whole   ? "a whole number"
                               : "a number",
                     bounds.empty() ? "" : " ", bounds);
}

}  // namespace nystrom
