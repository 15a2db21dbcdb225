// Textbook attention with an explicit score matrix: the oracle for output and gradients of the
// fused op.
#pragma once

#include "autograd/ops.h"

namespace nystrom::testing {

/// softmax(scale · q kᵀ, masked) v from matmul, softmax and matmul. The computation is the same in
/// every type. Inputs must be finite.
inline Var unfused_attention(const Var& q, const Var& k, const Var& v,
                             const AttentionOptions& options) {
  Var scores = options.scale * matmul(q, transpose(k, -1, -2));
  const Tensor& mask = options.key_mask;
  if (!mask.defined()) return matmul(softmax(scores), v);
  const std::int64_t samples = mask.dim(0), keys = mask.dim(1);
  Tensor bias = Tensor::zeros({samples, 1, 1, keys}, q.dtype()),
         any = Tensor::zeros({samples, 1, 1, 1}, q.dtype());
  for (std::int64_t b = 0; b < samples; ++b) {
    for (std::int64_t j = 0; j < keys; ++j) {
      const bool counts = mask.data<std::uint8_t>()[b * keys + j] != 0;
      // Finite, and large enough to absorb any score: a fully masked row becomes uniform.
      if (!counts) kernels::fill(bias.slice(0, b, b + 1).slice(3, j, j + 1), -1e30);
      if (counts || options.empty_rows == EmptyRows::uniform)
        kernels::fill(any.slice(0, b, b + 1), 1);
    }
  }
  return matmul(softmax(scores + bias), v) * any;
}

}  // namespace nystrom::testing
