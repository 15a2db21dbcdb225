// Attention without a mask through cuDNN's fused attention: on tensor cores, deterministic, with
// softmax and sums in f32.
#pragma once

#include "core/kernels.h"

namespace nystrom::cuda {

/// kernels::attention without a mask, for bf16 operands of one shape [b, h, n, d] whose rows begin
/// at multiples of 16 bytes. Returns false if cuDNN is absent, refuses the operands, or has no
/// deterministic engine. Another kernel must then compute the results.
bool attention_cudnn(CView q, CView k, CView v, double scale, View out, View log_sum_exp);
/// kernels::attention_grad under the same conditions.
bool attention_cudnn_grad(CView q, CView k, CView v, double scale, CView out, CView log_sum_exp,
                          CView dout, View dq, View dk, View dv);

}  // namespace nystrom::cuda
