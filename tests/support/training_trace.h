// Twenty AdamW steps compared with float64 PyTorch: same initial weights and batches, no dropout,
// with clipping and warm-up.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/fixtures.h"
#include "tests/support/random.h"
#include "train/loop/train_step.h"
#include "train/state/model_folder.h"

namespace nystrom::testing {

/// Step `t` of a [steps, b, n] tensor.
inline Tensor at_step(const Tensor& tensor, std::int64_t t) {
  return tensor.slice(0, t, t + 1).contiguous().reshape({tensor.dim(1), tensor.dim(2)});
}

inline Tensor mask_of_ones(const Tensor& ones) {
  std::vector<std::uint8_t> values;
  for (const double v : ones.to_doubles()) values.push_back(v != 0);
  return Tensor::from(values, ones.shape());
}

/// Runs the trace with `parts` micro-batches in each step and checks every loss and norm. In f16
/// the loss is scaled.
inline void expect_trace(DType dtype, double tolerance, std::int64_t parts,
                         Device device = cpu_device) {
  const auto folder = fixture_folder() / "trace";
  const auto model = load_model(ModelFolder(folder), dtype, StoreMode::training, device);
  const auto batches = read_tensors(folder / "batches.safetensors");
  const auto expected = read_tensors(folder / "expected.safetensors");
  const auto losses = expected.at("losses").to_doubles(),
             norms = expected.at("grad_norms").to_doubles();
  const auto rates = expected.at("learning_rates").to_doubles();
  Optimizer optimizer(model->parameters(), OptimizerOptions{});
  for (std::size_t t = 0; t < losses.size(); ++t) {
    const auto step = static_cast<std::int64_t>(t);
    const Tensor ids = at_step(batches.at("input_ids"), step),
                 labels = at_step(batches.at("labels"), step);
    const Tensor mask = mask_of_ones(at_step(batches.at("attention_mask"), step));
    std::vector<Batch> micro;
    const std::int64_t rows = ids.dim(0) / parts;
    for (std::int64_t p = 0; p < parts; ++p) {
      const auto part = [&](const Tensor& x) {
        return x.slice(0, p * rows, (p + 1) * rows).contiguous();
      };
      micro.push_back({.input = {part(ids), {}, part(mask), {}}, .labels = part(labels)});
    }
    StepOptions options;
    options.learning_rate = rates[t];
    options.clip_norm = 1.0;
    options.dropout = false;
    if (dtype == DType::f16) options.loss_scale = 4096;
    const StepResult result = train_step(*model, optimizer, micro, options);
    EXPECT_NEAR(result.loss, losses[t], tolerance * losses[t]) << "step " << t + 1;
    // A norm is the root of a sum of many squares, each as exact as a gradient. Its tolerance is
    // ten times that of the loss.
    EXPECT_NEAR(result.gradient_norm, norms[t], 10 * tolerance * norms[t]) << "step " << t + 1;
  }
}

}  // namespace nystrom::testing
