// THE backend contract: every kernel, once. Each exists for f32, bf16 and f64, on GPUs for f16 too
// (sums in accumulate_t), unless said otherwise.
//
// The ops of autograd/ check shapes and types before they call; kernels assume them. "rows" means
// all axes but the last merged. Arguments are contiguous unless marked (strided): then any strides
// go, but for the last axis where "unit" is said. Gradient outputs named d… are overwritten; those
// marked (+=) are accumulated into, and may be of the accumulate type.
#pragma once

#include "core/dispatch.h"
#include "core/rng.h"
#include "core/view.h"

namespace nystrom {

enum class Binary : unsigned char { add, subtract, multiply, divide };
enum class Unary : unsigned char { gelu_erf, gelu_tanh, relu, tanh, exp, square };

/// Which column sums scale the first iterate of the pseudo-inverse: those of each matrix, or the
/// largest of the batch.
enum class PinvScale : unsigned char { per_matrix, whole_batch };

/// What attention gives a query whose every key is masked: 0, or (as when a finite mask value
/// swallows all scores) the plain mean of the values, with the gradient of a softmax that happens
/// to be uniform.
enum class EmptyRows : unsigned char { zero, uniform };

/// What a product of f32 operands may be computed in: tf32 lets a GPU round them to 11 bits of
/// precision, for several times the speed.
enum class Precision : unsigned char { full, tf32 };

struct AdamWStep {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
  double bias_correction1, bias_correction2;  ///< 1 - βᵗ
  double gradient_scale;                      ///< multiplies every gradient: clipping
};

namespace kernels {

/// y = x converted to y's type; equal shapes, both (strided).
CONVERTING_KERNEL(copy, CView x, View y);
/// y = value, any type; y (strided).
CONVERTING_KERNEL(fill, View y, double value);
/// y += scale · x; equal shapes, floating types may differ; both (strided).
KERNEL(accumulate, CView x, double scale, View y);
/// y = op(a, b) with a and b broadcast to y's shape by strides of 0; one type; a and b (strided).
KERNEL(binary, Binary op, CView a, CView b, View y);
/// y = scale · x + shift; y may alias x.
KERNEL(affine, CView x, double scale, double shift, View y);
/// y = op(x); y may alias x. gelu_erf: x Φ(x); gelu_tanh: its tanh form (Hendrycks & Gimpel, arXiv
/// 1606.08415).
KERNEL(unary, Unary op, CView x, View y);
/// dx = op'(x) ∘ dy; dx may alias dy.
KERNEL(unary_grad, Unary op, CView x, CView dy, View dx);
/// y[o, i] (+= if accumulate) = sum over r of x[o, r, i]; y may be of the accumulate type.
KERNEL(sum_middle, CView x, View y, bool accumulate);
/// y[0] = sum of squares of x, in f64, by blocks of fixed size: independent of the number of
/// threads.
KERNEL(sum_of_squares, CView x, View y);
/// y[0] (i64) = Σ (2i + 1 mod 2³²) · the bits of x[i] as an unsigned integer, modulo 2⁶⁴: another
/// number for any one flipped bit, the same on every device. To notice that two copies of x have
/// parted.
KERNEL(bit_sum, CView x, View y);

/// c (+= if accumulate) = op(a) · op(b) [+ bias]: a [batch…, M, K], b [batch…, K, N], c [batch…, M,
/// N], all (strided: a, b either way round, c unit). Batch axes of size 1 broadcast. c may be of
/// the accumulate type; bias [N] or absent. The CPU's precision is always full.
LIBRARY_KERNEL(matmul, CView a, CView b, CView bias, View c, bool accumulate, Precision precision);
/// The same for f64, and the oracle of the library's: a plain blocked loop without batch broadcast
/// rules of its own.
KERNEL(matmul_plain, CView a, CView b, CView bias, View c, bool accumulate);

/// y = softmax(x) over the last axis; y may alias x.
KERNEL(softmax, CView x, View y);
/// dx = y ∘ (dy − ⟨y, dy⟩).
KERNEL(softmax_grad, CView y, CView dy, View dx);

/// y = (x − mean) · rstd · gamma + beta over the last axis; mean and rstd [rows] in the accumulate
/// type.
KERNEL(layer_norm, CView x, CView gamma, CView beta, double epsilon, View y, View mean, View rstd);
/// dx as usual; dgamma, dbeta (+=).
KERNEL(layer_norm_grad, CView x, CView gamma, CView mean, CView rstd, CView dy, View dx,
       View dgamma, View dbeta);

/// sum = residual + dropout(x), y = layer_norm(sum), in one pass: x, residual, sum, y [b, …, n];
/// the dropout as below, none (and no sample_ids) where p is 0.
KERNEL(residual_layer_norm, CView x, CView residual, CView sample_ids, DropoutKey key, double p,
       CView gamma, CView beta, double epsilon, View sum, View y, View mean, View rstd);
/// dsum, the gradient of residual; dx, absent where p is 0 and it would be dsum; dgamma, dbeta
/// (+=).
KERNEL(residual_layer_norm_grad, CView sum, CView sample_ids, DropoutKey key, double p, CView gamma,
       CView mean, CView rstd, CView dy, View dsum, View dx, View dgamma, View dbeta);

/// y = x ∘ mask / (1 − p): x [b, …], sample_ids [b] i64; the mask is core/rng.h's of (key, sample
/// id, element within the sample). Its own gradient: call with dy. y may alias x.
KERNEL(dropout, CView x, CView sample_ids, DropoutKey key, double p, View y);

/// y[r] = x[index[r]]: x [n, c], index [r] i64, y [r, c]; an index < 0 gives a row of zeros.
KERNEL(gather_rows, CView x, CView index, View y);
/// y[index[r]] += x[r]; rows whose index is < 0 or equals `skip` are left out; y may be of the
/// accumulate type. Deterministic.
KERNEL(scatter_add_rows, CView x, CView index, std::int64_t skip, View y);
/// y = x where mask[row] ≠ 0, else 0 (also where x is not finite): x [rows, c], mask [rows] u8.
KERNEL(mask_rows, CView x, CView mask, View y);

/// y[b, i] = mean of the tokens of segment i of sample b: x [b, n, c], y [b, m, c] in the
/// accumulate type. Of the l valid tokens in order (mask [b, n] u8; absent: all) segment i holds
/// those from floor(i·l/m) to floor((i+1)·l/m)−1; an empty one gives 0.
KERNEL(segment_means, CView x, CView mask, View y);
/// dx (+=) += dy[b, segment of the token] / its length.
KERNEL(segment_means_grad, CView dy, CView mask, View dx);

/// out = softmax(scale · q kᵀ over keys with mask ≠ 0) v, blockwise: no score matrix is kept (Rabe
/// & Staats, arXiv 2112.05682). q [b, h, nq, d], k [b, h, nk, d], v [b, h, nk, dv], out [b, h, nq,
/// dv] (strided, unit); types may differ within one accumulate type; key_mask [b, nk] u8 or absent;
/// log_sum_exp [b, h, nq] in the accumulate type.
KERNEL(attention, CView q, CView k, CView v, CView key_mask, EmptyRows empty, double scale,
       View out, View log_sum_exp);
/// dq, dk, dv of the above (all strided, unit).
KERNEL(attention_grad, CView q, CView k, CView v, CView key_mask, EmptyRows empty, double scale,
       CView out, CView log_sum_exp, CView dout, View dq, View dk, View dv);

/// Iterates z[k+1] = ¼ z[k] (13 I − a z[k] (15 I − a z[k] (7 I − a z[k]))) from z[0] = aᵀ / c: a
/// [batch, m, m] f32 or f64, z [iterations + 1, batch, m, m]. c is the largest column sum, by
/// `scale` (Xiong et al., AAAI 2021, eq. 13).
KERNEL(pseudo_inverse_iterative, CView a, PinvScale scale, View z);
/// da = gradient of the iteration as run, from dz of the last iterate.
KERNEL(pseudo_inverse_iterative_grad, CView a, PinvScale scale, CView z, CView dz, View da);
/// z = Moore–Penrose inverse of a [batch, m, m] by SVD, singular values below m·eps·σmax taken as
/// 0; f32 or f64.
LIBRARY_KERNEL(pseudo_inverse_svd, CView a, View z);

/// y[b, t, h, :] = Σ_j w[h, j] · x[b, t + j − k/2, h, :], zero outside and where mask is 0: x, y
/// [b, n, h, d] (strided, unit), w [h, k], mask [b, n] u8 or absent.
KERNEL(sequence_conv, CView x, CView w, CView mask, View y);
/// dx of the above (zero where mask is 0), and dw (+=).
KERNEL(sequence_conv_grad, CView x, CView w, CView mask, CView dy, View dx, View dw);

/// loss[r] = log Σ exp(logits[r]) − logits[r, label[r]], 0 where the label is < 0; log_sum_exp
/// [rows], both in the accumulate type.
KERNEL(cross_entropy, CView logits, CView labels, View loss, View log_sum_exp);
/// dlogits = dloss[r] · (softmax(logits[r]) − onehot(label[r])), 0 where the label is < 0; may
/// alias logits.
KERNEL(cross_entropy_grad, CView logits, CView labels, CView log_sum_exp, CView dloss,
       View dlogits);

/// y[r] = the first place of the largest value of x[r]: x [rows, c], y [rows] i64.
KERNEL(argmax_rows, CView x, View y);

/// One AdamW step over slabs (Loshchilov & Hutter, arXiv 1711.05101): parameter, gradient, both
/// moments in the accumulate type, `low` the copy in 16 bits or absent. segment_end [k] i64 (the
/// last one the end of the slab) and segment_decay [k] f64 (a factor of weight_decay) say what
/// decays.
KERNEL(adamw, View parameter, CView gradient, View moment1, View moment2, View low,
       CView segment_end, CView segment_decay, AdamWStep step);

}  // namespace kernels
}  // namespace nystrom
