// The backend contract: all kernels. Each exists for f32, bf16 and f64, and on GPUs for f16, unless
// its comment says otherwise. Sums have the type accumulate_t.
//
// The ops of autograd/ check shapes and types; kernels assume that they are valid. "rows" are all
// axes but the last, merged. Arguments are contiguous unless marked (strided), which permits any
// strides. With "unit" the last axis has stride 1. Gradient outputs d… are overwritten; those
// marked (+=) are added to and may have the accumulate type.
#pragma once

#include "core/dispatch.h"
#include "core/rng.h"
#include "core/view.h"

namespace nystrom {

/// The operations of kernels::binary.
enum class Binary : unsigned char { add, subtract, multiply, divide };
/// The operations of kernels::unary.
enum class Unary : unsigned char { gelu_erf, gelu_tanh, silu, relu, tanh, exp, square };

/// The column sums that scale the first iterate of the pseudo-inverse: those of each matrix, or the
/// largest of the batch.
enum class PinvScale : unsigned char { per_matrix, whole_batch };

/// The attention output of a query whose keys are all masked. zero: 0. uniform: the mean of all
/// values, as with a finite mask value that dominates all scores. Its gradient is that of a uniform
/// softmax.
enum class EmptyRows : unsigned char { zero, uniform };

/// Consecutive rows of a ragged tensor, span by span: the rows of each sequence of a batch. Spans
/// do not overlap. Without bounds the tensor is dense, and each of its parts (the first axis) is a
/// span.
struct Spans {
  CView bounds;              ///< [p, 2] i64: the first row of each span, and the row after its last
  std::int64_t longest = 0;  ///< the most rows of a span
};

/// How queries score keys: scale · q kᵀ, for the keys of their span that are at most `reach` rows
/// away. Of spans with a reach, that of the queries is that of the keys.
struct Scoring {
  static constexpr std::int64_t all_keys = std::int64_t{1} << 40;

  Scoring(double factor, std::int64_t distance = all_keys) : scale(factor), reach(distance) {}
  bool is_local() const { return reach < all_keys; }

  double scale;
  std::int64_t reach;
};

/// With at most this many keys, attention's gradient does not need its result.
inline constexpr std::int64_t few_keys = 64;

/// The precision of products of f32 operands. tf32 permits a GPU to round them to 11 bits of
/// precision, for several times the speed.
enum class Precision : unsigned char { full, tf32 };

/// The numbers of one AdamW step.
struct AdamWStep {
  double learning_rate, beta1, beta2, epsilon;
  double bias_correction1, bias_correction2;  ///< 1 − βᵗ
  double gradient_scale;  ///< factor of every gradient, for clipping and loss scaling
};

namespace kernels {

/// y = x converted to y's type. Equal shapes; both (strided).
CONVERTING_KERNEL(copy, CView x, View y);
/// y = value, for any type; y (strided).
CONVERTING_KERNEL(fill, View y, double value);
/// y += scale · x. Equal shapes; floating types may differ; both (strided).
STRIDED_KERNEL(accumulate, CView x, double scale, View y);
/// y = op(a, b), with a and b broadcast to y's shape by strides of 0. One type; a and b (strided).
STRIDED_KERNEL(binary, Binary op, CView a, CView b, View y);
/// y = scale · x + shift. y may alias x.
KERNEL(affine, CView x, double scale, double shift, View y);
/// y = op(x). y may alias x. gelu_erf is x Φ(x), and gelu_tanh its tanh form (Hendrycks & Gimpel,
/// arXiv 1606.08415).
KERNEL(unary, Unary op, CView x, View y);
/// dx = op'(x) ∘ dy, and y = op(x) unless y is absent. dx may alias dy, and y x. dx_sums [n] = dx
/// [rows, n] summed over the rows, in the accumulate type, or absent.
KERNEL(unary_grad, Unary op, CView x, CView dy, View dx, View y, View dx_sums);
/// y = op(a) ∘ b for the halves a, b of x's last axis: x […, 2n], y […, n]. A gated linear unit
/// without its projections (Shazeer, arXiv 2002.05202).
KERNEL(gated_unary, Unary op, CView x, View y);
/// dx [a, b] = [op'(a) ∘ b ∘ dy, op(a) ∘ dy], and y = op(a) ∘ b unless y is absent. dx may alias x,
/// and y dy.
KERNEL(gated_unary_grad, Unary op, CView x, CView dy, View dx, View y);
/// y[o, i] (+= if accumulate) = Σ_r x[o, r, i]. y may have the accumulate type.
KERNEL(sum_middle, CView x, View y, bool accumulate);
/// y[0] = the sum of squares of x, in f64. Blocks have a fixed size, so the result does not depend
/// on the number of threads.
KERNEL(sum_of_squares, CView x, View y);
/// y[0] (i64) = Σ (2i + 1 mod 2³²) · (the bits of x[i] as an unsigned integer), modulo 2⁶⁴. Any
/// single flipped bit changes it, and all devices give the same number. It detects differences
/// between two copies of x.
KERNEL(bit_sum, CView x, View y);

/// c (+= if accumulate) = op(a) · op(b) [+ bias]: a [batch…, M, K], b [batch…, K, N], c [batch…, M,
/// N], bias [N] or absent. All are (strided): a and b may be transposed, c is unit. Batch axes of
/// size 1 broadcast. c may have the accumulate type. The CPU always computes in full precision.
LIBRARY_KERNEL(matmul, CView a, CView b, CView bias, View c, bool accumulate, Precision precision);
/// c = a · b + bias, as matmul in full precision, and y = op(c), of c's type and shape. All are
/// contiguous or transposed matrices.
LIBRARY_KERNEL(matmul_unary, CView a, CView b, CView bias, Unary op, View c, View y);
/// matmul for f64, and the reference for tests of the library's: a blocked loop without batch
/// broadcasting.
STRIDED_KERNEL(matmul_plain, CView a, CView b, CView bias, View c, bool accumulate);

/// y = softmax(x) over the last axis. y may alias x.
KERNEL(softmax, CView x, View y);
/// dx = y ∘ (dy − ⟨y, dy⟩).
KERNEL(softmax_grad, CView y, CView dy, View dx);

/// sum = residual + dropout(x) and y = (sum − mean) · rstd · gamma + beta over the last axis, in
/// one pass: x, residual, sum, y [b, …, n], mean and rstd [rows] in the accumulate type. The
/// dropout is that of kernels::dropout. With p = 0 there is none, and sample_ids may be absent. If
/// the residual and sum are absent, x is the sum.
KERNEL(layer_norm, CView x, CView residual, CView sample_ids, DropoutKey key, double p, CView gamma,
       CView beta, double epsilon, View sum, View y, View mean, View rstd);
/// The gradients of layer_norm: dsum, which is also that of the residual; dx, absent with p = 0,
/// where it equals dsum; dgamma, dbeta (+=). dx_sums [n] = dx summed over the rows, in the
/// accumulate type, or absent.
KERNEL(layer_norm_grad, CView sum, CView sample_ids, DropoutKey key, double p, CView gamma,
       CView mean, CView rstd, CView dy, View dsum, View dx, View dgamma, View dbeta, View dx_sums);

/// y = x ∘ mask / (1 − p): x [b, …], sample_ids [b] i64. core/rng.h defines the mask of (key,
/// sample id, element within the sample). For rows x [b, c] that were chosen from samples,
/// sample_ids is [b, 2]: see SampleRows. The kernel is its own gradient, applied to dy. y may alias
/// x.
KERNEL(dropout, CView x, CView sample_ids, DropoutKey key, double p, View y);

/// y[r] = x[index[r]]: x [n, c], index [r] i64, y [r, c]. An index below 0 gives a row of zeros.
KERNEL(gather_rows, CView x, CView index, View y);
/// y[index[r]] += x[r]. Rows with an index below 0 or equal to `skip` are left out. y may have the
/// accumulate type. Deterministic.
KERNEL(scatter_add_rows, CView x, CView index, std::int64_t skip, View y);
/// y[i, j] = the mean of the rows in segment j of span i: x [r, c] (or [p, n, c] without bounds), y
/// [p, m, c] in the accumulate type. Of l rows in order, segment j holds floor(j·l/m) …
/// floor((j+1)·l/m) − 1. An empty segment gives 0.
KERNEL(segment_means, CView x, Spans spans, View y);
/// dx (+=) += dy[span, segment of the row] / length of the segment.
KERNEL(segment_means_grad, CView dy, Spans spans, View dx);

// In the following kernels, tensors of heads are ragged [r, h, width] or dense [p, h, n, width],
// both (strided, unit): queries, their results and gradients are ragged if `queries` has bounds,
// and keys and values if `keys` has. Span i of the queries sees span i of the keys. Ragged rows
// outside the spans are not written. log_sum_exp has the queries' rows, contiguous and in the
// accumulate type: [h, r] or [p, h, n].

/// y = x with columns i and i + d/2 of each row as one number of the plane, turned by the angle of
/// which table[place of the row in its span, i] has cosine and sine: table [places, d/2, 2] in the
/// accumulate type, x and y [r, h, d] or [p, h, n, d]; y may be x. Backwards it turns by the
/// negative angle, which is the gradient. Su et al., arXiv 2104.09864.
STRIDED_KERNEL(rotate, CView x, Spans spans, CView table, bool backwards, View y);

/// out = softmax(scores over keys with mask ≠ 0) v, computed blockwise without a stored score
/// matrix (Rabe & Staats, arXiv 2112.05682). Types may differ within one accumulate type. key_mask
/// is [p, n] u8 for dense keys, or absent, as it is with a reach.
STRIDED_KERNEL(attention, CView q, CView k, CView v, Spans queries, Spans keys, CView key_mask,
               EmptyRows empty, Scoring scoring, View out, View log_sum_exp);
/// The gradients dq, dk, dv of attention. `out` may be absent with at most few_keys keys and no
/// reach.
STRIDED_KERNEL(attention_grad, CView q, CView k, CView v, Spans queries, Spans keys, CView key_mask,
               EmptyRows empty, Scoring scoring, CView out, CView log_sum_exp, CView dout, View dq,
               View dk, View dv);

/// out = attention of all keys + the sequence_conv of x, rounded once where one kernel computes
/// both. x has the rows and the layout of q and out; w [h, k] has x's type.
STRIDED_KERNEL(attention_with_conv, CView q, CView k, CView v, Spans queries, Spans keys,
               double scale, CView x, CView w, View out, View log_sum_exp);
/// The gradients of attention and of the sequence_conv of v, in one pass where that is possible: as
/// attention_grad, where dv also has the convolution's gradient, and dw (+=). dy has the rows and
/// the layout of v; it is the gradient of the convolution's result. w [h, k] and dy have v's type.
STRIDED_KERNEL(attention_grad_with_conv, CView q, CView k, CView v, Spans queries, Spans keys,
               CView key_mask, EmptyRows empty, double scale, CView out, CView log_sum_exp,
               CView dout, CView w, CView dy, View dq, View dk, View dv, View dw);

/// y[t, h, :] = Σ_j w[h, j] · x[t + j − k/2, h, :] within each span, where x is 0 outside of it: w
/// [h, k]. `addend` of y's shape and type, which may be y, is added to y, or is absent.
STRIDED_KERNEL(sequence_conv, CView x, CView w, Spans spans, CView addend, View y);
/// The gradients of sequence_conv: dx, to which `addend` is added, and dw (+=).
STRIDED_KERNEL(sequence_conv_grad, CView x, CView w, Spans spans, CView dy, CView addend, View dx,
               View dw);

/// The landmarks of each head and the softmax of their scores: x [b, m, p, h, d] in the accumulate
/// type, bias [p · h · d], landmarks [b, p, h, m, d] = x + bias in their own type, a [b, h, m, m] =
/// softmax(scale · queries keysᵀ) in the accumulate type. With p = 2, part 0 holds the queries and
/// part 1 the keys. With p = 1 they are the same.
KERNEL(landmark_matrix, CView x, CView bias, double scale, View landmarks, View a);
/// dx = the gradient of landmark_matrix, whose rounding passes gradients unchanged, from da and
/// from the gradients dqueries and dkeys [b, h, m, d] (strided, unit) of other uses of the
/// landmarks. All have the accumulate type.
STRIDED_KERNEL(landmark_matrix_grad, CView landmarks, CView a, CView da, double scale,
               CView dqueries, CView dkeys, View dx);

/// Iterates z[k+1] = ¼ z[k] (13 I − a z[k] (15 I − a z[k] (7 I − a z[k]))) from z[0] = aᵀ / c: a
/// [batch, m, m] f32 or f64, z [iterations + 1, batch, m, m]. c is the largest column sum, selected
/// by `scale` (Xiong et al., AAAI 2021, eq. 13).
KERNEL(pseudo_inverse_iterative, CView a, PinvScale scale, View z);
/// da = the gradient of the iteration, from the gradient dz of the last iterate.
KERNEL(pseudo_inverse_iterative_grad, CView a, PinvScale scale, CView z, CView dz, View da);
/// z = the Moore–Penrose inverse of a [batch, m, m] by SVD, in f32 or f64. Singular values below
/// m·eps·σmax count as 0. NaN for a matrix that is not finite.
LIBRARY_KERNEL(pseudo_inverse_svd, CView a, View z);

/// loss[r] = s − logits[r, label[r]] + z_loss · s² with s = log Σ exp(logits[r]), or 0 for a label
/// below 0. loss [rows] has the accumulate type; log_sum_exp [rows] = s is f64, so that the loss
/// keeps its digits where all logits share an offset. argmax [rows] i64 = the first index of the
/// largest logit, as argmax_rows gives it, or absent.
KERNEL(cross_entropy, CView logits, CView labels, double z_loss, View loss, View log_sum_exp,
       View argmax);
/// dlogits = dloss[r] · ((1 + 2 z_loss s) softmax(logits[r]) − onehot(label[r])), or 0 for a label
/// below 0. dlogits may be logits, or have another type that accumulates in theirs.
KERNEL(cross_entropy_grad, CView logits, CView labels, double z_loss, CView log_sum_exp,
       CView dloss, View dlogits);

/// y[r] = the first index of the largest value of x[r]: x [rows, c], y [rows] i64.
KERNEL(argmax_rows, CView x, View y);
/// y[r] = an index drawn from softmax(x[r]): the first whose weight, added to those before it,
/// exceeds the share uniform[r] of all. x [rows, c], uniform [rows] f64 in (0, 1), y [rows] i64.
KERNEL(sample_rows, CView x, CView uniform, View y);

/// One AdamW step over slabs (Loshchilov & Hutter, arXiv 1711.05101). parameter, gradient and both
/// moments have the accumulate type; `low` is a 16-bit copy, or absent. segment_end [k] i64 holds
/// the ends of segments; the last is the end of the slab. segment_decay [k] f64 is each segment's
/// weight decay.
KERNEL(adamw, View parameter, CView gradient, View moment1, View moment2, View low,
       CView segment_end, CView segment_decay, AdamWStep step);

}  // namespace kernels
}  // namespace nystrom
