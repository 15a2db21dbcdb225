// Attention on the tensor cores, scores never leaving the registers (Dao, arXiv 2307.08691).
// Operands that are f32 beside ones of 16 bits are rounded to these' type as they enter a product;
// softmax, its sums and all accumulation stay in f32.
#pragma once

#include <initializer_list>

#include "core/kernels.h"

namespace nystrom::cuda {

/// The type of 16 bits that these operands have, where they are not f32; f32 where all are, or
/// where there are two such types.
DType half_of(std::initializer_list<CView> operands);

/// Whether the fused kernels take these operands: one width of 32, 64 or 128, at least one of them
/// of 16 bits, in a type that the tensor cores take, and rows aligned to 16 bytes. The backward
/// pass also needs the shared memory.
bool fused_attention_fits(std::initializer_list<CView> operands);
bool fused_attention_grad_fits(std::initializer_list<CView> operands);

/// As kernels::attention and kernels::attention_grad.
void attention_fused(CView q, CView k, CView v, CView key_mask, EmptyRows empty, double scale,
                     View out, View log_sum_exp);
void attention_fused_grad(CView q, CView k, CView v, CView key_mask, EmptyRows empty, double scale,
                          CView out, CView log_sum_exp, CView dout, View dq, View dk, View dv);

}  // namespace nystrom::cuda
