#include "train/objectives/text_pairs.h"

#include <cmath>

#include "core/check.h"
#include "data/tasks/task_metrics.h"
#include "train/objectives/text_blocks.h"

namespace nystrom {
double cosine(const Tensor& a, std::int64_t i, const Tensor& b, std::int64_t j) {
  const std::int64_t width = a.dim(1);
  const float *const x = a.data<float>() + i * width, *const y = b.data<float>() + j * width;
  double product = 0, x_squares = 0, y_squares = 0;
  for (std::int64_t c = 0; c < width; ++c) {
    product += static_cast<double>(x[c]) * y[c];
    x_squares += static_cast<double>(x[c]) * x[c];
    y_squares += static_cast<double>(y[c]) * y[c];
  }
  const double lengths = std::sqrt(x_squares * y_squares);
  return lengths > 0 ? product / lengths : 0;
}

PairScores evaluate_pairs(TextEmbedder& first, TextEmbedder& second, const TaskConfig& task,
                          const std::vector<std::string>& patterns) {
  std::vector<std::string> texts, pairs;
  std::vector<double> scores, cosines;
  std::int64_t bytes = 0;
  const auto flush = [&] {
    if (texts.empty()) return;
    const Tensor a = first(texts), b = second(pairs);
    for (std::int64_t row = 0; row < a.dim(0); ++row) cosines.push_back(cosine(a, row, b, row));
    texts.clear();
    pairs.clear();
    bytes = 0;
  };
  SkippedRows skipped;
  for_each_example(task, patterns, Labelled::required, skipped, [&](Example&& example) {
    refuse_blank(example.text, example);
    refuse_blank(*example.pair, example);
    bytes += std::ssize(example.text) + std::ssize(*example.pair);
    texts.push_back(std::move(example.text));
    pairs.push_back(std::move(*example.pair));
    scores.push_back(*example.value);
    if (is_full_block(std::ssize(texts), bytes, first.options().batch_size)) flush();
  });
  flush();
  require_input(!scores.empty(), "{}", describe_unreadable(patterns, skipped));
  const PairScores result{spearman_correlation(cosines, scores),
                          pearson_correlation(cosines, scores), std::ssize(scores)};
  require_input(std::isfinite(result.spearman),
                "{} pairs have no correlation: their scores or their cosines are all equal",
                result.pairs);
  return result;
}

}  // namespace nystrom
