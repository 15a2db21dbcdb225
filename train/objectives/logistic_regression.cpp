#include "train/objectives/logistic_regression.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <numeric>

#include "autograd/ops.h"
#include "autograd/tape.h"

namespace nystrom {
namespace {

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
