#include <gtest/gtest.h>

#include <cmath>

#include "core/kernels.h"
#include "tests/support/views.h"

namespace nystrom::testing {
namespace {

using Values = std::vector<double>;

struct Segment {
  std::int64_t end;
  double decay;
};

/// Loshchilov & Hutter, algorithm 2, for each element in double.
struct Reference {
  Values parameter, moment1, moment2;

  void step(const Values& gradient, const std::vector<Segment>& segments, const AdamWStep& s) {
    std::size_t segment = 0;
    for (std::size_t i = 0; i < parameter.size(); ++i) {
      while (static_cast<std::int64_t>(i) >= segments[segment].end) ++segment;
      const double g = gradient[i] * s.gradient_scale;
      moment1[i] = s.beta1 * moment1[i] + (1 - s.beta1) * g;
      moment2[i] = s.beta2 * moment2[i] + (1 - s.beta2) * g * g;
      parameter[i] *= 1 - s.learning_rate * segments[segment].decay;
      parameter[i] -= s.learning_rate * (moment1[i] / s.bias_correction1) /
                      (std::sqrt(moment2[i] / s.bias_correction2) + s.epsilon);
    }
  }
};

struct Slabs {
  Tensor parameter, moment1, moment2, low;
};

constexpr std::int64_t count = 40001;  // needs several threads, with a tail shorter than a vector
const std::vector<Segment> segments{{3, 0.1}, {17000, 0}, {33000, 0.05}, {count, 0.1}};

/// Runs five steps and returns the largest difference of parameters from the reference.
double run(DType dtype, Slabs& slabs) {
  const Tensor start = random_normal({count}, 1).cast(dtype);
  slabs = {start.clone(), zeros_like(start), zeros_like(start),
           Tensor::empty({count}, DType::bf16)};
  Reference reference{elements(start), Values(count, 0), Values(count, 0)};
  std::vector<std::int64_t> ends;
  Values decays;
  for (const auto& [end, decay] : segments) {
    ends.push_back(end);
    decays.push_back(decay);
  }
  const Tensor segment_end = int_tensor(ends, {4}), segment_decay = Tensor::from(decays, {4});
  for (int t = 1; t <= 5; ++t) {
    const Tensor gradient = random_normal({count}, static_cast<std::uint64_t>(10 + t)).cast(dtype);
    const AdamWStep step{0.01, 0.9, 0.99, 1e-8, 1 - std::pow(0.9, t), 1 - std::pow(0.99, t), 0.7};
    kernels::adamw(slabs.parameter, gradient, slabs.moment1, slabs.moment2, slabs.low, segment_end,
                   segment_decay, step);
    reference.step(elements(gradient), segments, step);
  }
  return max_difference(slabs.parameter, Tensor::from(reference.parameter, {count}));
}

TEST(AdamW, EqualsANaiveLoop) {
  for (const CpuLevel level : cpu_levels) {
    const AtLevel at(level);
    Slabs slabs;
    EXPECT_LE(run(DType::f64, slabs), 1e-14) << name_of(level);
    EXPECT_LE(run(DType::f32, slabs), 2e-6) << name_of(level);
  }
}

TEST(AdamW, WritesTheBf16Copy) {
  Slabs slabs;
  run(DType::f32, slabs);
  EXPECT_EQ(elements(slabs.low), elements(slabs.parameter.cast(DType::bf16)));
}

TEST(AdamW, NeedsNoBf16Copy) {
  Tensor p = Tensor::full({2}, 1, DType::f32), g = zeros_like(p), m = zeros_like(p),
         v = zeros_like(p);
  kernels::adamw(p, g, m, v, View{}, int_tensor({2}, {1}), Tensor::full({1}, 0.5, DType::f64),
                 {0.1, 0.9, 0.99, 1e-8, 1, 1, 1});
  EXPECT_NEAR(element(p, 1), 0.95, 1e-7);
}

}  // namespace
}  // namespace nystrom::testing
