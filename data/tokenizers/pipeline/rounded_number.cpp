#include "data/tokenizers/pipeline/rounded_number.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

#include "core/base/words.h"

namespace nystrom {
namespace {

constexpr std::int64_t largest_power = 308;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The double nearest to 10^exponent.
double power_of_ten(std::int64_t exponent) {
  return number_of<double>(fmt::format("1e{}", exponent)).value();
}

double scaled(std::uint64_t digits, std::int64_t exponent) {
  auto value = static_cast<double>(digits);
  for (; exponent < -largest_power && value != 0; exponent += largest_power)
    value /= power_of_ten(largest_power);
  if (value == 0) return 0;
  // Beyond the largest power serde_json fails. The JSON parser here has already rejected such
  // numbers.
  return exponent >= 0 ? value * power_of_ten(std::min(exponent, largest_power))
                       : value / power_of_ten(-exponent);
}

}  // namespace

double read_rounded_number(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t digits = 0;
  std::int64_t exponent = 0;
  bool full = false, behind_point = false;
  std::size_t i = 0;
  for (; i < text.size() && (is_digit(text[i]) || text[i] == '.'); ++i) {
    if (text[i] == '.') {
      behind_point = true;
      continue;
    }
    const auto digit = static_cast<std::uint64_t>(text[i] - '0');
    full |= digits > (most - digit) / 10;
    if (full) {
      exponent += behind_point ? 0 : 1;
    } else {
      digits = digits * 10 + digit;
      exponent -= behind_point ? 1 : 0;
    }
  }
  if (i < text.size()) {  // the exponent after e or E
    ++i;
    const bool shrinks = text[i] == '-';
    if (shrinks || text[i] == '+') ++i;
    constexpr std::int64_t enough = 1'000'000'000;
    std::int64_t power = 0;
    for (; i < text.size(); ++i) power = std::min(power * 10 + (text[i] - '0'), enough);
    exponent += shrinks ? -power : power;
  }
  const double value = scaled(digits, exponent);
  return negative ? -value : value;
}

}  // namespace nystrom
