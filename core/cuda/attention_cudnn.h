// Attention in which every key counts, through cuDNN's fused attention: on tensor cores,
// deterministic, softmax and sums in f32.
#pragma once

#include "core/kernels.h"

namespace nystrom::cuda {

/// As kernels::attention and kernels::attention_grad without a mask, for bf16 operands of one shape
/// [b, h, n, d] whose rows begin at multiples of 16 bytes. False where cuDNN is absent, refuses
/// them, or has no deterministic way: then another kernel must compute the results.
bool attention_cudnn(CView q, CView k, CView v, double scale, View out, View log_sum_exp);
bool attention_cudnn_grad(CView q, CView k, CView v, double scale, CView out, CView log_sum_exp,
                          CView dout, View dq, View dk, View dv);

}  // namespace nystrom::cuda
