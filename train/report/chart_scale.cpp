#include "train/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "core/base/utf8.h"

namespace nystrom {
namespace {

/// Limits whose relative difference is below this are equal: their ticks would need more digits
/// than fit beside a chart.
constexpr double resolution = 1e-10;
/// Values beyond are drawn at this value, so that differences of limits stay finite.
constexpr double largest = 1e307;
constexpr double smallest = 1e-300;
constexpr int max_digits = 17, max_fixed_exponent = 15;

int exponent_of(double value) { return static_cast<int>(std::floor(std::log10(value))); }

/// Ticks at multiples of 1, 2 or 5 times a power of ten, about six of them.
Scale linear_scale(double low, double high) {
  low = std::clamp(low, -largest, largest);
  high = std::clamp(high, -largest, largest);
  const double size = std::max(std::abs(low), std::abs(high));
  if (high - low <= resolution * size || size < smallest) {
    const double half = size < smallest ? 1 : size / 2;
    low -= half;
    high += half;
  }
  const double wanted = 6, power = std::pow(10, exponent_of((high - low) / wanted));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power * wanted >= high - low) step = factor * power;
  const double first = std::floor(low / step), last = std::ceil(high / step);
  Scale scale{false, step * first, step * last, {}};
  for (double i = first; i <= last; ++i) scale.ticks.push_back(step * i);
  return scale;
}

/// Ticks at powers of ten. With fewer than three of them 2 and 5 times the powers are added. With
/// many of them only every second or third is used. Close limits have the ticks of a linear axis.
Scale log_scale(double low, double high) {
  low = std::clamp(low, smallest, largest);
  high = std::clamp(high, smallest, largest);
  if (high - low <= resolution * high) {
    low /= 2;
    high *= 2;
  }
  Scale scale{true, low, high, {}};
  const double first = std::floor(std::log10(low)), last = std::ceil(std::log10(high));
  const double stride = std::max(1.0, std::ceil((last - first) / 8));
  const bool between = last - first < 3;
  for (double power = first; power <= last; power += between ? 1 : stride)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10, power);
      if ((factor == 1 || between) && tick >= low * 0.999 && tick <= high * 1.001)
        scale.ticks.push_back(tick);
    }
  if (scale.ticks.size() >= 2) return scale;
  scale.ticks.clear();
  for (const double tick : linear_scale(low, high).ticks)
    if (tick >= low && tick <= high) scale.ticks.push_back(tick);
  return scale;
}

/// A number without zeros that its digits or its exponent do not need: "1.50e+07" is 1.5e7.
std::string without_padding(const std::string& number) {
  const std::size_t e = number.find('e');
  if (e == number.npos) return number;
  const bool negative = number[e + 1] == '-';
  const std::size_t digits = std::min(number.find_first_not_of("+-0", e + 1), number.size() - 1);
  std::string mantissa = number.substr(0, e);
  if (mantissa.find('.') != mantissa.npos) {
    mantissa.erase(mantissa.find_last_not_of('0') + 1);
    if (mantissa.back() == '.') mantissa.pop_back();
  }
  return mantissa + (negative ? "e-" : "e") + number.substr(digits);
}

/// The ticks are multiples of one step, whose digit is the last one in each label.
std::vector<std::string> linear_labels(const std::vector<double>& ticks) {
  const double size = std::max(std::abs(ticks.front()), std::abs(ticks.back()));
  const double step = (ticks.back() - ticks.front()) / static_cast<double>(ticks.size() - 1);
  // A step of 9.999…e-4 is one of 1e-3 that was rounded.
  const int last = exponent_of(step * (1 + 1e-6));
  std::vector<std::string> fixed, scientific;
  for (const double tick : ticks) {
    const int decimals = tick == 0 ? 0 : std::max(0, exponent_of(std::abs(tick)) - last);
    fixed.push_back(tick == 0 ? "0" : fmt::format("{:.{}f}", tick, std::max(0, -last)));
    scientific.push_back(tick == 0 ? "0" : without_padding(fmt::format("{:.{}e}", tick, decimals)));
  }
  const auto longest = [](const std::vector<std::string>& labels) {
    return std::ranges::max(labels, {}, &std::string::size).size();
  };
  const bool plain = std::abs(exponent_of(size)) <= max_fixed_exponent &&
                     (longest(fixed) <= 7 || longest(fixed) <= longest(scientific));
  return plain ? fixed : scientific;
}

bool all_differ(const std::vector<std::string>& labels, const std::vector<double>& ticks) {
  return std::set<std::string>(labels.begin(), labels.end()).size() >=
         std::set<double>(ticks.begin(), ticks.end()).size();
}

/// The ticks are far apart, or the places of measurements.
std::vector<std::string> logarithmic_labels(const std::vector<double>& ticks) {
  for (int digits = 4;; ++digits) {
    std::vector<std::string> labels;
    for (const double tick : ticks) {
      const bool whole = tick < 1e7 && tick == std::floor(tick);
      labels.push_back(whole ? fmt::format("{:.0f}", tick) : short_number(tick, digits));
    }
    if (all_differ(labels, ticks) || digits >= max_digits) return labels;
  }
}

}  // namespace

bool Scale::shows(double value) const { return std::isfinite(value) && (!log || value > 0); }

double Scale::share(double value) const {
  const double part =
      log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return std::clamp(part, 0.0, 1.0);
}

Scale make_scale(Axis axis, double low, double high) {
  return axis == Axis::logarithmic ? log_scale(low, high) : linear_scale(low, high);
}

Scale scale_of(Axis axis, const std::vector<const std::vector<double>*>& values, double floor) {
  const Scale probe{axis == Axis::logarithmic, 0, 1, {}};
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const auto* list : values)
    for (const double value : *list) {
      if (!probe.shows(value)) continue;
      low = std::min(low, std::max(value, floor));
      high = std::max(high, std::max(value, floor));
    }
  if (!(low <= high)) return make_scale(axis, probe.log ? 1 : 0, probe.log ? 10 : 1);
  return make_scale(axis, low, high);
}

std::vector<std::string> tick_labels(const Scale& scale) {
  return scale.log ? logarithmic_labels(scale.ticks) : linear_labels(scale.ticks);
}

std::string short_number(double value, int digits) {
  if (std::abs(value) < 1e-300) return "0";
  return without_padding(std::abs(value) < 1e-3 ? fmt::format("{:.{}e}", value, digits - 1)
                                                : fmt::format("{:.{}g}", value, digits));
}

double letters(const std::string& text) {
  return static_cast<double>(std::ranges::count_if(text, std::not_fn(is_utf8_continuation)));
}

}  // namespace nystrom
