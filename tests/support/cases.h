// The table of differentiable functions under test, with one entry for each. Every entry is checked
// in four ways: gradients in f64, every vector level, f32 and bf16 against f64, and strided inputs
// against contiguous ones. CUDA builds also compare the GPU with the CPU.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "tests/support/named.h"

namespace nystrom::testing {

using Vars = std::vector<Var>;

struct OpCase : Named {
  std::vector<Shape> inputs;
  std::function<Var(const Vars&)> f;
  double tolerance = 1e-7;  ///< of the gradient check, relative to each tensor's largest entry
  double input_scale = 1;   ///< standard deviation of the inputs
  /// Whether bf16 is compared too. False when rounded inputs change the result completely.
  bool low_precision = true;
};

/// All cases.
const std::vector<OpCase>& op_cases();

/// Inputs of a case: standard normal values, rounded to bf16 so that every type computes with the
/// same numbers.
std::vector<Tensor> case_inputs(const OpCase& test);

struct Evaluation {
  Tensor output;
  std::vector<Tensor> gradients;
};

/// Computes f in the given type on `inputs`, and the gradients of Σ w ∘ f with fixed random w.
Evaluation evaluate(const OpCase& test, const std::vector<Tensor>& inputs, DType dtype,
                    Device device = cpu_device);

/// Expects the output and the gradients, relative to each tensor's largest entry.
void expect_close(const Evaluation& got, const Evaluation& expected, double tolerance);

}  // namespace nystrom::testing
