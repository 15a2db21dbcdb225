// Properties of every model, tried on models whose options are drawn together.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <span>

#include "tests/support/drawn_models.h"
#include "tests/support/model_cases.h"
#include "tests/support/rounds.h"

namespace nystrom::testing {
namespace {

constexpr int models = 100;

/// Calls f(config) for drawn configurations.
void for_each_drawn(const std::function<void(const ModelConfig&)>& f) {
  for (int seed = 1; seed <= models * test_rounds(); ++seed) {
    const ModelConfig config = drawn_model(static_cast<std::uint64_t>(seed));
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, description(config)));
    f(config);
    if (::testing::Test::HasFailure()) return;  // one description is enough to read
  }
}

std::vector<double> loss_and_gradients(const Model& model, const Layout& layout,
                                       const RunContext& run) {
  return gradients_and_loss(
      model, [&] { return loss_of(model, layout, drawn_input(model.config(), layout), run); });
}

/// The derivative along a random direction of all parameters, with dropout, by five points.
TEST(DrawnModels, TheirGradientIsTheNumericalOneAlongADirection) {
  for_each_drawn([](const ModelConfig& config) {
    const Layout layout = drawn_layout(config);
    const auto model = make_model(config, DType::f64, 1.7);
    const RunContext run = drawn_run(layout);
    const ModelInput input = drawn_input(config, layout);
    const std::vector<double> found = loss_and_gradients(*model, layout, run);
    double analytic = 0, scale = 0;
    std::map<std::string, Tensor> start, direction;
    for (const Parameter& parameter : model->parameters().parameters()) {
      start[parameter.name()] = parameter.var().value().clone();
      const Tensor along = random_normal(parameter.shape(), hash_of(parameter.name()) + 1);
      direction[parameter.name()] = along;
      const std::vector<double> a = along.to_doubles(),
                                g = model->parameters().gradient(parameter.name()).to_doubles();
      for (std::size_t i = 0; i < a.size(); ++i) {
        analytic += a[i] * g[i];
        scale += std::abs(a[i] * g[i]);
      }
    }
    const auto loss_at = [&](double distance) {
      for (const Parameter& parameter : model->parameters().parameters()) {
        Tensor value = start.at(parameter.name()).clone();
        const Tensor& along = direction.at(parameter.name());
        for (std::int64_t i = 0; i < value.numel(); ++i)
          value.data<double>()[i] += distance * along.data<double>()[i];
        model->parameters().set(parameter.name(), value);
      }
      return loss_of(*model, layout, input, run).value().item();
    };
    const auto numerical = [&](double h) {
      return (loss_at(-2 * h) - 8 * loss_at(-h) + 8 * loss_at(h) - loss_at(2 * h)) / (12 * h);
    };
    // A kink (relu, a maximum, a bucket of reformer) between the points spoils longer steps.
    double error = HUGE_VAL;
    for (const double h : {1e-5, 1e-7, 1e-8})
      error = std::min(error, std::abs(numerical(h) - analytic));
    EXPECT_LE(error, 1e-6 * scale);
  });
}

TEST(DrawnModels, RecomputingActivationsGivesTheSameBits) {
  for_each_drawn([](const ModelConfig& config) {
    const Layout layout = drawn_layout(config);
    const auto model = make_model(config, DType::f64), other = make_model(config, DType::f64);
    EXPECT_EQ(loss_and_gradients(*model, layout, drawn_run(layout)),
              loss_and_gradients(*other, layout, drawn_run(layout, true)));
  });
}

/// Of an output the numbers of a sample, of its first `tokens` places if the output has places.
Tensor part_of(const Var& output, std::int64_t places, std::int64_t sample, std::int64_t tokens) {
  const std::vector<double> all = output.value().to_doubles();
  const std::int64_t each = std::ssize(all) / output.dim(0);
  const bool has_places = output.rank() > 1 && output.dim(1) == places;
  const auto begin = all.begin() + sample * each;
  const std::vector<double> part(begin, begin + (has_places ? each / places * tokens : each));
  return Tensor::from(part, {std::ssize(part)});
}

std::int64_t tokens_of(const std::string& row) {
  return static_cast<std::int64_t>(row.find_last_of('1') + 1);
}

/// The rows of a sample, from `first` on, without the padding that all of them have.
Layout alone(const Layout& batch, std::int64_t first, std::int64_t sequences) {
  Layout found{{}, {}, 2};
  std::int64_t longest = 0;
  for (std::int64_t row = first; row < first + sequences; ++row) {
    found.rows.push_back(batch.rows[static_cast<std::size_t>(row)]);
    found.sequences.push_back(static_cast<int>(row));
    longest = std::max(longest, tokens_of(found.rows.back()));
  }
  for (std::string& row : found.rows) row.resize(static_cast<std::size_t>(longest));
  return found;
}

TEST(DrawnModels, ASampleGivesInABatchWhatItGivesAlone) {
  for_each_drawn([](const ModelConfig& config) {
    if (config.attention.semantics == Semantics::transformers) return;
    const Layout batch = drawn_layout(config);
    const auto model = make_model(config, DType::f64);
    const ModelOutput together = (*model)(drawn_input(config, batch));
    const std::int64_t sequences = config.has_towers() ? 2 : 1;
    for (std::int64_t first = 0; first < batch.batch(); first += sequences) {
      const Layout sample = alone(batch, first, sequences);
      const ModelOutput own = (*model)(drawn_input(config, sample));
      // `parts` outputs a sample: one, or that of each sequence.
      const auto expect_equal = [&](const Var& a, const Var& b, std::int64_t parts) {
        ASSERT_EQ(a.defined(), b.defined());
        for (std::int64_t i = 0; a.defined() && i < parts; ++i) {
          const std::int64_t tokens = tokens_of(sample.rows[static_cast<std::size_t>(i)]);
          EXPECT_LE(relative_difference(
                        part_of(a, sample.length(), i, tokens),
                        part_of(b, batch.length(), first / sequences * parts + i, tokens)),
                    1e-9);
        }
      };
      expect_equal(own.logits, together.logits, 1);
      expect_equal(own.start_logits, together.start_logits, 1);
      expect_equal(own.end_logits, together.end_logits, 1);
      expect_equal(own.output, together.output, sequences);
      if (!config.has_class_token())
        expect_equal(own.last_hidden_state, together.last_hidden_state, sequences);
    }
  });
}

}  // namespace
}  // namespace nystrom::testing
