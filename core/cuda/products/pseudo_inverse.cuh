// The common part of the two pseudo-inverse kernels: the plain one for any size and type, and the
// fused one for 32, 64 or 128 landmarks in f32.
#pragma once

#include <cstdint>

#include "core/view.h"

namespace nystrom::cuda {

/// The column with the largest sum.
template <class A>
struct ColumnSum {
  A value;
  std::int64_t matrix, column;
};

/// Whether the fused kernels support f32 matrices [batch, m, m] of this size. The GPU must have the
/// tensor cores and the shared memory for them.
bool fuses_pseudo_inverse(const CView& a);
/// Computes z of kernels::pseudo_inverse_iterative. `sum` is the batch's largest column sum, the
/// divisor of all; null: each matrix has its own.
void pseudo_inverse_fused(const CView& a, const ColumnSum<float>* sum, const View& z);
/// Computes da of its gradient, and inner[b] = ⟨dZ0, Aᵀ⟩. da includes the gradient through the
/// scale, except through that of the whole batch.
void pseudo_inverse_fused_grad(const CView& a, const ColumnSum<float>* sum, const CView& z,
                               const CView& dz, const View& da, float* inner);

}  // namespace nystrom::cuda
