// Attention for any sizes and types, with one warp a query or a key. It is simple and slow, and the
// reference for tests of the fused kernels.
#pragma once

#include "core/kernels.h"

namespace nystrom::cuda {

/// kernels::attention and kernels::attention_grad.
void attention_plain(CView q, CView k, CView v, CView key_mask, EmptyRows empty, double scale,
                     View out, View log_sum_exp);
void attention_plain_grad(CView q, CView k, CView v, CView key_mask, EmptyRows empty, double scale,
                          CView out, CView log_sum_exp, CView dout, View dq, View dk, View dv);

}  // namespace nystrom::cuda
