// The forms of attention: cuDNN's, the fused kernels' and the plain kernels'. attention.cu chooses.
#pragma once

#include <initializer_list>

#include "core/kernels.h"

namespace nystrom::cuda {

/// The operands of kernels::attention.
struct AttentionOperands {
  CView q, k, v;
  Spans queries, keys;
  CView key_mask = {};
  EmptyRows empty = EmptyRows::zero;
  Scoring scoring = 1;
};

// ---- cuDNN --------------------------------------------------------------------------------------
// Without a mask, through cuDNN's fused attention: on tensor cores, deterministic, with softmax and
// sums in f32.

/// kernels::attention without a mask, for bf16 operands of one shape [b, h, n, d] whose rows begin
/// at multiples of 16 bytes. Returns false if cuDNN is absent, refuses the operands, or has no
/// deterministic engine. Another kernel must then compute the results.
bool attention_cudnn(CView q, CView k, CView v, double scale, View out, View log_sum_exp);
/// kernels::attention_grad under the same conditions.
bool attention_cudnn_grad(CView q, CView k, CView v, double scale, CView out, CView log_sum_exp,
                          CView dout, View dq, View dk, View dv);

// ---- Fused --------------------------------------------------------------------------------------
// On tensor cores; scores never leave the registers (Dao, arXiv 2307.08691). If f32 and 16-bit
// operands are mixed, f32 ones are rounded to the 16-bit type when they enter a product. Softmax,
// its sums and all accumulation are f32.

/// The 16-bit type of these operands, apart from f32 ones. f32 if all are f32, or if there are two
/// such types.
DType half_of(std::initializer_list<CView> operands);

/// Whether the fused kernels support these operands. They have one width of 32, 64 or 128 and rows
/// aligned to 16 bytes. At least one has a 16-bit type that the tensor cores support. The backward
/// pass also needs the shared memory.
bool fused_attention_fits(std::initializer_list<CView> operands);
bool fused_attention_grad_fits(std::initializer_list<CView> operands);

/// Whether they compute kernels::attention_with_conv and kernels::attention_grad_with_conv. The
/// convolved rows (x, dy) and the taps have the 16-bit type, and a block has the shared memory.
/// Forward, the loop over keys has one part; backward, the queries of a span fill one tile.
bool fused_attention_with_conv_fits(const AttentionOperands& o, CView x, CView w, View out);
bool fused_attention_grad_with_conv_fits(const AttentionOperands& o, CView out, CView dout, CView w,
                                         CView dy, View dq, View dk, View dv);

/// kernels::attention, for supported operands; with taps w kernels::attention_with_conv.
void attention_fused(const AttentionOperands& o, CView x, CView w, View out, View log_sum_exp);
/// kernels::attention_grad, for supported operands; with taps w
/// kernels::attention_grad_with_conv.
void attention_fused_grad(const AttentionOperands& o, CView out, CView log_sum_exp, CView dout,
                          CView w, CView dy, View dq, View dk, View dv, View dw);

// ---- Plain --------------------------------------------------------------------------------------
// For any sizes and types, with one warp a query or a key. It is simple and slow, and the reference
// for tests of the fused kernels.

/// kernels::attention and kernels::attention_grad.
void attention_plain(const AttentionOperands& o, View out, View log_sum_exp);
void attention_plain_grad(const AttentionOperands& o, CView out, CView log_sum_exp, CView dout,
                          View dq, View dk, View dv);

}  // namespace nystrom::cuda
