// AdamW, LAMB and Muon on slabs compared with textbook loops in double.
#include "train/optim/optimizer.h"

#include <gtest/gtest.h>

#include <map>

#include "core/kernels.h"
#include "tests/support/errors.h"
#include "tests/support/named.h"
#include "tests/support/random.h"
#include "train/optim/parameter_groups.h"

namespace nystrom::testing {
namespace {

/// Parameters with and without weight decay in alternation. They form several ranges with gaps of
/// the slab between them.
void declare(ParameterStore& store) {
  for (const char* layer : {"first", "second"}) {
    const Scope scope = Scope(store) / layer;
    scope.parameter("weight", {5, 7});
    scope.parameter("bias", {7}, {Init::Kind::normal}, false);
  }
}

/// One parameter, updated as in torch.optim.AdamW or in LAMB's algorithm 2 (You et al., ICLR 2020).
struct Textbook {
  std::vector<double> value, m, v;
  double decay;
  bool trust;  // whether LAMB's trust ratio applies
  double rate_factor = 1;
  bool frozen = false;

  void step(const OptimizerOptions& c, int t, double rate, const std::vector<double>& gradient,
            double scale) {
    const double beta1 = c.betas[0], beta2 = c.betas[1];
    std::vector<double> update(value.size());
    double own = 0, moved = 0;
    for (std::size_t i = 0; i < value.size(); ++i) {
      const double g = scale * gradient[i];
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      update[i] = m[i] / (1 - std::pow(beta1, t)) /
                      (std::sqrt(v[i] / (1 - std::pow(beta2, t))) + c.epsilon) +
                  decay * value[i];
      own += value[i] * value[i];
      moved += update[i] * update[i];
    }
    if (frozen) return;
    const double ratio = trust && own > 0 && moved > 0 ? std::sqrt(own) / std::sqrt(moved) : 1;
    for (std::size_t i = 0; i < value.size(); ++i)
      value[i] -= rate_factor * rate * ratio * update[i];
  }
};

struct Case : Named {
  DType dtype;
  OptimizerOptions config;
  double gradient_scale, tolerance;
};

OptimizerOptions with(double decay, std::vector<double> betas = {0.9, 0.999},
                      double epsilon = 1e-8) {
  OptimizerOptions config;
  config.weight_decay = decay;
  config.betas = std::move(betas);
  config.epsilon = epsilon;
  return config;
}

OptimizerOptions lamb(double decay) {
  OptimizerOptions config = with(decay);
  config.name = OptimizerKind::lamb;
  return config;
}

/// The groups of `first` with other rates and decay, and of a frozen bias.
OptimizerOptions grouped(OptimizerOptions config) {
  config.groups = {{"first.*", 3, 0.3}, {"second.bias", 1, std::nullopt, true}};
  return config;
}

const Case cases[] = {
    {"f64", DType::f64, with(0.1), 1, 1e-12},
    {"f64_no_decay", DType::f64, with(0), 1, 1e-12},
    {"f64_clipped", DType::f64, with(0.1), 0.3, 1e-12},
    {"f64_other_betas", DType::f64, with(0.1, {0.5, 0.9}, 1e-3), 1, 1e-12},
    {"f32", DType::f32, with(0.1), 1, 1e-6},
    {"bf16_masters", DType::bf16, with(0.1), 1, 1e-6},
    {"lamb_f64", DType::f64, lamb(0.1), 1, 1e-12},
    {"lamb_f64_no_decay", DType::f64, lamb(0), 1, 1e-12},
    {"lamb_f64_clipped", DType::f64, lamb(0.1), 0.3, 1e-12},
    {"lamb_f32", DType::f32, lamb(0.1), 1, 1e-6},
    {"lamb_bf16_masters", DType::bf16, lamb(0.1), 1, 1e-6},
    {"groups_f64", DType::f64, grouped(with(0.1)), 0.3, 1e-12},
    {"groups_f32", DType::f32, grouped(with(0.1)), 1, 1e-6},
    {"groups_bf16_masters", DType::bf16, grouped(with(0.1)), 1, 1e-6},
    {"groups_lamb_f64", DType::f64, grouped(lamb(0.1)), 1, 1e-12},
    {"groups_lamb_bf16_masters", DType::bf16, grouped(lamb(0.1)), 1, 1e-6},
};

class OptimizerOfStore : public ::testing::TestWithParam<Case> {};

TEST_P(OptimizerOfStore, EqualsTextbook) {
  const Case& test = GetParam();
  ParameterStore store;
  declare(store);
  freeze_parameters(store, test.config);
  store.allocate(test.dtype, StoreMode::training);
  store.initialise(1, 0.5);
  std::map<std::string, Textbook> expected;
  for (const Parameter& p : store.parameters()) {
    const auto values = store.master(p.name()).to_doubles();
    const std::vector<double> zeros(values.size());
    const bool weight = p.name().ends_with("weight"), groups = !test.config.groups.empty(),
               first = groups && p.name().starts_with("first");
    expected[p.name()] = {values,
                          zeros,
                          zeros,
                          !weight ? 0
                          : first ? 0.3
                                  : test.config.weight_decay,
                          weight && test.config.name == OptimizerKind::lamb,
                          first ? 3.0 : 1.0,
                          groups && p.name() == "second.bias"};
  }
  Optimizer optimizer(store, test.config);
  for (int t = 1; t <= 5; ++t) {
    const double rate = 1e-2 / t;
    for (auto& [name, textbook] : expected) {
      Tensor gradient = store.gradient(name);
      kernels::copy(
          random_normal(gradient.shape(), static_cast<std::uint64_t>(100 * t) + name.size(), 0.1)
              .cast(gradient.dtype()),
          gradient);
      textbook.step(test.config, t, rate, gradient.to_doubles(), test.gradient_scale);
    }
    optimizer.step(rate, test.gradient_scale);
  }
  EXPECT_EQ(optimizer.steps_taken(), 5);
  for (const Parameter& p : store.parameters()) {
    const Tensor master = store.master(p.name());
    EXPECT_LE(relative_difference(master, Tensor::from(expected[p.name()].value, p.shape())),
              test.tolerance)
        << p.name();
    EXPECT_EQ(p.var().value().to_doubles(), master.cast(test.dtype).to_doubles())
        << p.name() << " is the rounded master";
  }
}

INSTANTIATE_TEST_SUITE_P(Types, OptimizerOfStore, ::testing::ValuesIn(cases), case_name);

TEST(Lamb, ParametersOfZerosMoveAsUnderAdamW) {
  for (const OptimizerOptions& config : {with(0.1), lamb(0.1)}) {
    ParameterStore store;
    declare(store);
    store.allocate(DType::f64, StoreMode::training);
    store.initialise(1, 0);
    Optimizer optimizer(store, config);
    kernels::fill(store.gradient("first.weight"), 3);
    optimizer.step(1e-2, 1);
    /// Adam's first step equals the learning rate.
    EXPECT_NEAR(store.master("first.weight").to_doubles()[0], -1e-2, 1e-10);
    EXPECT_EQ(store.master("second.weight").to_doubles()[0], 0) << "no gradient, no move";
  }
}

/// Rows of numbers.
using Matrix = std::vector<std::vector<double>>;

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(b[0].size()));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t k = 0; k < b.size(); ++k)
      for (std::size_t j = 0; j < b[0].size(); ++j) c[i][j] += a[i][k] * b[k][j];
  return c;
}

Matrix transposed(const Matrix& a) {
  Matrix t(a[0].size(), std::vector<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a[0].size(); ++j) t[j][i] = a[i][j];
  return t;
}

Matrix matrix_of(const std::vector<double>& values, std::int64_t columns) {
  Matrix a;
  for (std::size_t i = 0; i < values.size(); i += static_cast<std::size_t>(columns))
    a.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(i),
                   values.begin() + static_cast<std::ptrdiff_t>(i) + columns);
  return a;
}

/// Five steps x ← 3.4445 x − 4.775 (x xᵀ) x + 2.0315 (x xᵀ)² x from x / ‖x‖, for any shape.
Matrix textbook_orthogonal(Matrix x) {
  double squares = 0;
  for (const auto& row : x)
    for (const double value : row) squares += value * value;
  for (auto& row : x)
    for (double& value : row) value /= std::sqrt(squares) + 1e-7;
  for (int step = 0; step < 5; ++step) {
    const Matrix gram = product(x, transposed(x)), first = product(gram, x),
                 second = product(gram, first);
    for (std::size_t i = 0; i < x.size(); ++i)
      for (std::size_t j = 0; j < x[0].size(); ++j)
        x[i][j] = 3.4445 * x[i][j] - 4.775 * first[i][j] + 2.0315 * second[i][j];
  }
  return x;
}

class Muon : public ::testing::TestWithParam<std::pair<DType, double>> {};

/// Two wide matrices of a layer and a tall one, a bias, and a table outside of the layers.
TEST_P(Muon, MovesMatricesOfLayersAsTheTextbookAndTheRestAsAdamW) {
  const auto [dtype, tolerance] = GetParam();
  OptimizerOptions config = with(0.1);
  config.name = OptimizerKind::muon;
  config.groups = {{"*.wide.weight", 3, std::nullopt}};
  const Shape shapes[] = {{5, 7}, {7, 5}, {5, 7}};
  ParameterStore store;
  const Scope layer = Scope(store) / "encoder" / "layer" / "0";
  const char* names[] = {"wide", "tall", "as_wide"};
  for (int i = 0; i < 3; ++i) (layer / names[i]).parameter("weight", shapes[i]);
  (layer / "wide").parameter("bias", {7}, {Init::Kind::normal}, false);
  (Scope(store) / "embeddings").parameter("weight", {3, 4});
  store.allocate(dtype, StoreMode::training);
  store.initialise(1, 0.5);
  std::vector<Matrix> expected, momentum(3);
  for (int i = 0; i < 3; ++i) {
    const std::string name = layer.path() + "." + names[i] + ".weight";
    expected.push_back(matrix_of(store.master(name).to_doubles(), shapes[i][1]));
    momentum[i].assign(static_cast<std::size_t>(shapes[i][0]),
                       std::vector<double>(static_cast<std::size_t>(shapes[i][1])));
  }
  std::map<std::string, Textbook> others;
  for (const Parameter& p : store.parameters()) {
    if (p.name().ends_with("wide.weight") || p.name().ends_with("tall.weight")) continue;
    const auto values = store.master(p.name()).to_doubles();
    const std::vector<double> zeros(values.size());
    others[p.name()] = {values, zeros, zeros, p.decays() ? 0.1 : 0, false};
  }
  Optimizer optimizer(store, config);
  for (int t = 1; t <= 4; ++t) {
    for (const Parameter& p : store.parameters()) {
      Tensor gradient = store.gradient(p.name());
      kernels::copy(random_normal(p.shape(), static_cast<std::uint64_t>(100 * t) + p.name().size())
                        .cast(gradient.dtype()),
                    gradient);
      if (others.contains(p.name()))
        others[p.name()].step(config, t, 1e-2, gradient.to_doubles(), 0.5);
    }
    for (int i = 0; i < 3; ++i) {
      const std::string name = layer.path() + "." + names[i] + ".weight";
      const Matrix g = matrix_of(store.gradient(name).to_doubles(), shapes[i][1]);
      Matrix ahead = g;
      for (std::size_t r = 0; r < g.size(); ++r)
        for (std::size_t c = 0; c < g[0].size(); ++c) {
          momentum[i][r][c] = 0.95 * momentum[i][r][c] + 0.5 * g[r][c];
          ahead[r][c] = 0.5 * g[r][c] + 0.95 * momentum[i][r][c];
        }
      const Matrix update = textbook_orthogonal(ahead);
      const double rate = i == 0 ? 3e-2 : 1e-2;
      for (std::size_t r = 0; r < g.size(); ++r)
        for (std::size_t c = 0; c < g[0].size(); ++c)
          expected[i][r][c] -=
              rate * (0.1 * expected[i][r][c] + 0.2 * std::sqrt(7.0) * update[r][c]);
    }
    optimizer.step(1e-2, 0.5);
  }
  for (int i = 0; i < 3; ++i) {
    std::vector<double> flat;
    for (const auto& row : expected[i]) flat.insert(flat.end(), row.begin(), row.end());
    const std::string name = layer.path() + "." + names[i] + ".weight";
    EXPECT_LE(relative_difference(store.master(name), Tensor::from(flat, shapes[i])), tolerance)
        << name;
  }
  for (const auto& [name, textbook] : others)
    EXPECT_LE(relative_difference(store.master(name),
                                  Tensor::from(textbook.value, store.master(name).shape())),
              std::min(tolerance, 1e-6))
        << name;
}

INSTANTIATE_TEST_SUITE_P(Types, Muon,
                         ::testing::Values(std::pair(DType::f64, 1e-12),
                                           std::pair(DType::f32, 1e-6),
                                           std::pair(DType::bf16, 5e-3)),
                         [](const auto& test) { return std::string(name_of(test.param.first)); });

TEST(Orthogonal, SingularValuesAreNearOneAndZerosStay) {
  const Tensor x = random_normal({1, 6, 9}, 5);
  const Matrix y = matrix_of(orthogonal(x, DType::f64).to_doubles(), 9),
               gram = product(y, transposed(y));
  double trace = 0;
  for (std::size_t i = 0; i < 6; ++i) trace += gram[i][i];
  EXPECT_NEAR(trace / 6, 0.9, 0.35) << "the mean of the squares";
  EXPECT_EQ(orthogonal(Tensor::zeros({1, 2, 3}, DType::f64), DType::f64).to_doubles(),
            std::vector<double>(6));
}

TEST(Optimizer, GradientNormIsOfAllParameters) {
  ParameterStore store;
  declare(store);
  store.allocate(DType::f32, StoreMode::training);
  double squares = 0;
  for (const Parameter& p : store.parameters()) {
    Tensor gradient = store.gradient(p.name());
    kernels::copy(random_normal(p.shape(), 3 + p.name().size()).cast(DType::f32), gradient);
    for (const double g : gradient.to_doubles()) squares += g * g;
  }
  Optimizer optimizer(store, OptimizerOptions{});
  EXPECT_NEAR(optimizer.gradient_norm(), std::sqrt(squares), 1e-12 * std::sqrt(squares));
  optimizer.zero_gradients();
  EXPECT_EQ(optimizer.gradient_norm(), 0);
}

TEST(Optimizer, RefusesMisuse) {
  ParameterStore store;
  declare(store);
  store.allocate(DType::f32, StoreMode::inference);
  EXPECT_EQ(message_of([&] { Optimizer(store, OptimizerOptions{}); }),
            "the optimizer needs a parameter store that was allocated for training");
  ParameterStore training;
  declare(training);
  training.allocate(DType::f32, StoreMode::training);
  EXPECT_EQ(message_of([&] { Optimizer(training, with(0, {0.9})); }),
            "the optimizer needs two betas, got 1");
  EXPECT_EQ(message_of([&] { Optimizer(training, grouped(with(0))); }),
            "parameter second.bias was not frozen before its store was allocated");
  EXPECT_EQ(message_of([&] { training.freeze("second.bias"); }),
            "parameter second.bias is frozen after the store was allocated");
}

TEST(ClipFactor, IsOfALimitGreaterThanZero) {
  EXPECT_EQ(clip_factor(4, 1), 1 / (4 + 1e-6));
  EXPECT_EQ(message_of([] { clip_factor(1, -5); }), "limit -5; expected a number greater than 0");
}

}  // namespace
}  // namespace nystrom::testing
