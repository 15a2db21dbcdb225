// The table of differentiable functions under test: one line each, from which follow the gradient
// check in f64, the comparison of every vector level, f32 and bf16 against f64, and (in CUDA
// builds) of the GPU against the CPU.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "autograd/ops.h"

namespace nystrom::testing {

using Vars = std::vector<Var>;

struct OpCase {
  std::string name;
  std::vector<Shape> inputs;
  std::function<Var(const Vars&)> f;
  double tolerance = 1e-7;  ///< of the gradient check, relative to each tensor's largest entry
  double input_scale = 1;   ///< standard deviation of the inputs
  bool low_precision =
      true;  ///< also compared in bf16 (not: where rounding the inputs changes the answer wholly)
};

/// How GoogleTest names a failing case.
inline void PrintTo(const OpCase& test, std::ostream* out) {
  *out << test.name;
}  // NOLINT: GoogleTest's name

const std::vector<OpCase>& op_cases();

/// Inputs of a case: standard normal, rounded to bf16 so that every type sees the same numbers.
std::vector<Tensor> case_inputs(const OpCase& test);

struct Evaluation {
  Tensor output;
  std::vector<Tensor> gradients;
};

/// f in the given type on `inputs`, and the gradients of Σ w ∘ f with fixed random w.
Evaluation evaluate(const OpCase& test, const std::vector<Tensor>& inputs, DType dtype,
                    Device device = cpu_device);

}  // namespace nystrom::testing
