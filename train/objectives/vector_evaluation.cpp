#include "train/objectives/vector_evaluation.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <numeric>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/base/checksum.h"
#include "core/base/interruption.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/labels.h"
#include "data/tasks/task_metrics.h"
#include "train/objectives/text_embedder.h"

namespace nystrom {
namespace {

/// Texts as vectors, [rows, d] f32, and their labels.
struct LabelledVectors {
  Tensor vectors;
  std::vector<std::int64_t> labels;
};

LabelledVectors read_labelled(TextEmbedder& embedder, const TaskConfig& task,
                              const std::vector<std::string>& patterns, const LabelSet& known,
                              std::vector<std::string>& warnings) {
  LabelledVectors result;
  std::vector<float> values;
  TextBlocks blocks(embedder, [&](const std::vector<Example>&, const Tensor& vectors) {
    const auto* data = vectors.data<float>();
    values.insert(values.end(), data, data + vectors.numel());
  });
  SkippedRows skipped;
  for_each_example(task, patterns, Labelled::required, skipped, [&](Example&& example) {
    refuse_blank(example.text, example);
    const std::int64_t label = known.find(*example.label);
    if (label < 0)
      throw BadRow(fmt::format("{}: the label '{}' is not in the files to train on; their {}",
                               example.place(), printable(*example.label), describe(known)));
    blocks.add(std::move(example));
    result.labels.push_back(label);
  });
  blocks.finish();
  require_input(!result.labels.empty(), "{}", describe_unreadable(patterns, skipped));
  add_new_notes(warnings, warnings_of(skipped));
  result.vectors = Tensor::from(values, {std::ssize(result.labels), embedder.width()});
  return result;
}

/// A hash of each row of vectors.
std::vector<Digest> row_digests(const Tensor& vectors) {
  std::vector<Digest> digests;
  for (std::int64_t row = 0; row < vectors.dim(0); ++row)
    digests.push_back(checksum_of_items(std::span(vectors.data<float>() + row * vectors.dim(1),
                                                  static_cast<std::size_t>(vectors.dim(1)))));
  return digests;
}

using Point = std::vector<double>;

constexpr std::size_t memory = 10;  // pairs of L-BFGS
constexpr int max_iterations = 1000;
constexpr double tolerance = 1e-6;

double dot(const Point& a, const Point& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// x + scale · y.
Point moved(Point x, double scale, const Point& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += scale * y[i];
  return x;
}

/// A step, and how the gradient changed by it.
struct Curvature {
  Point step, change;
};

/// −H g, where H is the inverse Hessian that the curvatures imply (Nocedal & Wright, "Numerical
/// Optimization", algorithm 7.4).
Point descent(const Point& gradient, const std::deque<Curvature>& curvatures) {
  Point direction = gradient;
  std::vector<double> alphas;
  for (auto each = curvatures.rbegin(); each != curvatures.rend(); ++each) {
    alphas.push_back(dot(each->step, direction) / dot(each->step, each->change));
    direction = moved(std::move(direction), -alphas.back(), each->change);
  }
  if (!curvatures.empty()) {
    const auto& [step, change] = curvatures.back();
    const double scale = dot(step, change) / dot(change, change);
    for (double& value : direction) value *= scale;
  }
  for (const Curvature& each : curvatures) {
    const double beta = dot(each.change, direction) / dot(each.step, each.change);
    direction = moved(std::move(direction), alphas.back() - beta, each.step);
    alphas.pop_back();
  }
  for (double& value : direction) value = -value;
  return direction;
}

/// The minimum of a convex function, from 0. The function also writes its gradient.
Point minimum(std::size_t size, const std::function<double(const Point&, Point&)>& function) {
  Point x(size), gradient(size), next_gradient(size);
  double value = function(x, gradient);
  std::deque<Curvature> curvatures;
  for (int iteration = 0; iteration < max_iterations; ++iteration) {
    const double largest = std::abs(
        *std::ranges::max_element(gradient, {}, [](double entry) { return std::abs(entry); }));
    if (largest <= tolerance) break;
    const Point direction = descent(gradient, curvatures);
    const double slope = dot(gradient, direction);
    double length = curvatures.empty() ? std::min(1.0, 1 / std::sqrt(dot(gradient, gradient))) : 1;
    Point next = moved(x, length, direction);
    double next_value = function(next, next_gradient);
    // Armijo's rule. Below 1e-12 of a step only rounding is left.
    for (; next_value > value + 1e-4 * length * slope && length > 1e-12; length /= 2) {
      next = moved(x, length / 2, direction);
      next_value = function(next, next_gradient);
    }
    if (!(next_value < value)) break;
    Curvature curvature{moved(next, -1, x), moved(next_gradient, -1, gradient)};
    if (dot(curvature.step, curvature.change) > 0) {
      curvatures.push_back(std::move(curvature));
      if (curvatures.size() > memory) curvatures.pop_front();
    }
    x = std::move(next);
    std::swap(gradient, next_gradient);
    value = next_value;
  }
  return x;
}

}  // namespace

double inner_product(const Tensor& a, std::int64_t i, const Tensor& b, std::int64_t j) {
  const std::int64_t width = a.dim(1);
  const float *const x = a.data<float>() + i * width, *const y = b.data<float>() + j * width;
  constexpr std::int64_t lanes = 8;  // which a compiler makes vectors of
  double sums[lanes] = {};
  std::int64_t c = 0;
  for (; c + lanes <= width; c += lanes)
    for (std::int64_t lane = 0; lane < lanes; ++lane)
      sums[lane] += static_cast<double>(x[c + lane]) * y[c + lane];
  for (; c < width; ++c) sums[0] += static_cast<double>(x[c]) * y[c];
  return std::accumulate(sums, sums + lanes, 0.0);
}

double similarity(Similarity by, const Tensor& a, std::int64_t i, const Tensor& b, std::int64_t j) {
  if (by == Similarity::dot) return inner_product(a, i, b, j);
  const double lengths = std::sqrt(inner_product(a, i, a, i) * inner_product(b, j, b, j));
  return lengths > 0 ? inner_product(a, i, b, j) / lengths : 0;
}

VectorScores evaluate_pairs(TextEmbedder& first, TextEmbedder& second, const TaskConfig& task,
                            const std::vector<std::string>& patterns) {
  std::vector<double> scores, similarities;
  const auto compare = [&](const std::vector<Example>& examples, const Tensor& vectors) {
    std::vector<std::string> pairs;
    for (const Example& example : examples) {
      pairs.push_back(*example.pair);
      scores.push_back(*example.value);
    }
    const Tensor others = second(pairs);
    for (std::int64_t row = 0; row < vectors.dim(0); ++row)
      similarities.push_back(similarity(first.similarity(), vectors, row, others, row));
  };
  TextBlocks blocks(first, compare, /*of_pairs=*/true);
  SkippedRows skipped;
  for_each_example(task, patterns, Labelled::required, skipped, [&](Example&& example) {
    refuse_blank(example.text, example);
    refuse_blank(*example.pair, example);
    blocks.add(std::move(example));
  });
  blocks.finish();
  require_input(!scores.empty(), "{}", describe_unreadable(patterns, skipped));
  const double spearman = spearman_correlation(similarities, scores);
  require_input(std::isfinite(spearman),
                "{} pairs have no correlation: their scores or their similarities are all equal",
                scores.size());
  return {{{"pairs", std::ssize(scores)}},
          {{"spearman", spearman}, {"pearson", pearson_correlation(similarities, scores)}},
          warnings_of(skipped)};
}

VectorScores evaluate_classes(TextEmbedder& embedder, const TaskConfig& task) {
  require_input(
      *task.multi_label == false,
      "task.multi_label is true, and the vectors are sorted into one class each; leave it "
      "out, or give each text one label");
  const LabelSet labels = task_labels(task);
  std::vector<std::string> warnings;
  std::vector<Digest> trained;
  const LogisticRegression classifier = [&] {
    const LabelledVectors train = read_labelled(embedder, task, task.train, labels, warnings);
    trained = row_digests(train.vectors);
    return LogisticRegression(train.vectors, train.labels, labels.size());
  }();
  const LabelledVectors test = read_labelled(embedder, task, task.validation, labels, warnings);
  const std::vector<std::int64_t> said = classifier.predict(test.vectors);
  const ClassMetrics metrics = class_metrics(test.labels, said);
  const std::int64_t overlap = count_known(row_digests(test.vectors), trained);
  if (overlap > 0)
    warnings.push_back(
        fmt::format("{} of {} texts to test are among those to train on, as the model reads them; "
                    "their score is no test",
                    overlap, test.labels.size()));
  return {{{"train", std::ssize(trained)},
           {"test", std::ssize(test.labels)},
           {"labels", labels.size()}},
          {{"accuracy", metrics.accuracy}, {"f1_macro", metrics.f1_macro}},
          std::move(warnings)};
}

LogisticRegression::LogisticRegression(const Tensor& vectors, std::span<const std::int64_t> labels,
                                       std::int64_t classes) {
  const std::int64_t rows = vectors.dim(0), width = vectors.dim(1);
  const Var inputs(vectors.cast(DType::f64));
  const Tensor targets =
      Tensor::from(std::vector<std::int64_t>(labels.begin(), labels.end()), {rows});
  const auto weights = static_cast<std::size_t>(classes * width);
  const auto parts = [&](const Point& point) {
    const auto middle = point.begin() + static_cast<std::ptrdiff_t>(weights);
    return std::pair(Tensor::from(std::vector<double>(point.begin(), middle), {classes, width}),
                     Tensor::from(std::vector<double>(middle, point.end()), {classes}));
  };
  const auto count = static_cast<double>(rows);
  const double penalty = classes == 2 ? 1 : 0.5;
  // Divided by the rows, which moves no minimum.
  const Point found = minimum(
      weights + static_cast<std::size_t>(classes), [&](const Point& point, Point& gradient) {
        check_interruption();
        const auto [w, b] = parts(point);
        const Var weight = Var::leaf(w), bias = Var::leaf(b);
        Tape tape;
        const Var loss = cross_entropy(linear(inputs, weight, bias), targets) +
                         affine(sum(square(weight)), penalty / count);
        tape.backward(loss);
        gradient = weight.grad().to_doubles();
        const Point rest = bias.grad().to_doubles();
        gradient.insert(gradient.end(), rest.begin(), rest.end());
        return loss.value().item();
      });
  std::tie(weight_, bias_) = parts(found);
}

std::vector<std::int64_t> LogisticRegression::predict(const Tensor& vectors) const {
  const Point logits = linear(vectors.cast(DType::f64), weight_, bias_).value().to_doubles();
  const std::int64_t classes = bias_.dim(0);
  std::vector<std::int64_t> labels;
  for (auto row = logits.begin(); row != logits.end(); row += classes)
    labels.push_back(std::max_element(row, row + classes) - row);
  return labels;
}

}  // namespace nystrom
