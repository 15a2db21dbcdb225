// Parameters that several ops share as one: tensors that lie one behind the other.
#pragma once

#include <vector>

#include "autograd/tape.h"
#include "core/kernels.h"

namespace nystrom {

/// The tensors as one along the first axis: a view if they are adjacent, otherwise undefined.
Tensor adjacent(const std::vector<Tensor>& tensors);
/// The same, copied if they are not adjacent.
Tensor joined(const std::vector<Tensor>& tensors);

/// Adds the gradients of several linear layers of `rows` [r, in] at once, from dy_rows [r, Σ
/// out_i]: those of the weights [out_i, in] are inputs `first` …, those of the biases [out_i]
/// follow.
void joint_parameter_gradients(const Tensor& dy_rows, const Tensor& rows, std::size_t first,
                               const std::vector<Tensor>& weights, Precision precision,
                               Grads& grads);

}  // namespace nystrom
