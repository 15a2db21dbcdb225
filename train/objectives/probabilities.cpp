#include "train/objectives/probabilities.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.h"

namespace nystrom {

void require_finite(std::span<const double> scores) {
  require_input(std::ranges::all_of(scores, [](double score) { return std::isfinite(score); }),
                "the model's scores are not finite: its weights have grown beyond use, or beyond "
                "what the type of the computation holds");
}

std::vector<double> softmax_of(std::span<const double> scores) {
  require_finite(scores);
  std::vector<double> values(scores.begin(), scores.end());
  const double top = *std::ranges::max_element(values);
  double total = 0;
  for (double& value : values) total += value = std::exp(value - top);
  for (double& value : values) value /= total;
  return values;
}

std::vector<std::size_t> largest(std::span<const double> numbers, std::int64_t count) {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto end = order.begin() + std::min(count, std::ssize(order));
  std::partial_sort(order.begin(), end, order.end(), [&](std::size_t a, std::size_t b) {
    return numbers[a] > numbers[b] || (!(numbers[b] > numbers[a]) && a < b);
  });
  order.erase(end, order.end());
  return order;
}

}  // namespace nystrom
