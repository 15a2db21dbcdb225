// What the two ways to the pseudo-inverse share: the plain one for any size and type, and the fused
// one for 32, 64 or 128 landmarks in f32.
#pragma once

#include <cstdint>

#include "core/view.h"

namespace nystrom::cuda {

/// Where the largest column sum stands.
template <class A>
struct ColumnSum {
  A value;
  std::int64_t matrix, column;
};

/// Whether the fused kernels know f32 matrices [batch, m, m] of this size, and the GPU has the
/// tensor cores and the shared memory for them.
bool fuses_pseudo_inverse(const CView& a);
/// z of kernels::pseudo_inverse_iterative. sums: each matrix's largest column sum, and behind them
/// the batch's, which all are divided by where `whole`.
void pseudo_inverse_fused(const CView& a, const ColumnSum<float>* sums, bool whole, const View& z);
/// da of its gradient; inner[b] = ⟨dZ0, Aᵀ⟩. The gradient through the scale is in da, but for that
/// of the whole batch.
void pseudo_inverse_fused_grad(const CView& a, const ColumnSum<float>* sums, bool whole,
                               const CView& z, const CView& dz, const View& da, float* inner);

}  // namespace nystrom::cuda
