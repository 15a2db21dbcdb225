#include "core/fields.h"

#include <fmt/format.h>

#include <cmath>

namespace nystrom {

std::string describe(const Range& range, bool whole) {
  std::string text = range.odd ? "an odd whole number" : whole ? "a whole number" : "a number";
  const bool below = std::isfinite(range.upper);
  if (range.lower == range.upper) return fmt::format("{}", range.lower);
  if (std::isfinite(range.lower) && below && !range.lower_open && !range.upper_open)
    return fmt::format("{} between {} and {}", text, range.lower, range.upper);
  if (std::isfinite(range.lower)) text += fmt::format(" {} {}", range.lower_open ? "greater than" : "at least", range.lower);
  if (std::isfinite(range.lower) && below) text += " and";
  if (below) text += fmt::format(" {} {}", range.upper_open ? "below" : "at most", range.upper);
  return text;
}

}  // namespace nystrom
