// Every differentiable function. Shapes are checked on entry and errors name the op, what was got
// and what was expected.
//
// Indices, labels and masks may lie on the CPU: ops copy them to where the numbers are.
// Unless said otherwise all inputs of one op have one floating type, which is the result's, and
// gradients have the type of what they belong to. "[…, c]" means any leading axes.
#pragma once

#include <vector>

#include "autograd/tape.h"
#include "core/ignore_index.h"
#include "core/kernels.h"

namespace nystrom {

// ---- Element-wise -------------------------------------------------------------------------------

/// NumPy broadcasting; gradients are summed over repeated axes.
Var operator+(const Var& a, const Var& b);
Var operator-(const Var& a, const Var& b);
Var operator*(const Var& a, const Var& b);
Var operator/(const Var& a, const Var& b);
/// scale · x + shift in one pass.
Var affine(const Var& x, double scale, double shift = 0);
inline Var operator*(double scale, const Var& x) { return affine(x, scale); }
inline Var operator*(const Var& x, double scale) { return affine(x, scale); }
inline Var operator/(const Var& x, double divisor) { return affine(x, 1 / divisor); }
inline Var operator+(const Var& x, double shift) { return affine(x, 1, shift); }
inline Var operator-(const Var& x, double shift) { return affine(x, 1, -shift); }
inline Var operator-(const Var& x) { return affine(x, -1); }
/// Gaussian error linear unit x Φ(x), and its tanh form ("gelu_new"). Hendrycks & Gimpel, arXiv
/// 1606.08415.
Var gelu_erf(const Var& x);
Var gelu_tanh(const Var& x);
Var relu(const Var& x);
Var tanh(const Var& x);
/// In f32 at most e^88.
Var exp(const Var& x);
Var square(const Var& x);
/// x in another floating type; the gradient comes back in x's.
Var cast(const Var& x, DType dtype);
/// x rounded to what `dtype` can hold, in x's type; the gradient passes unchanged.
Var round_to(const Var& x, DType dtype);

/// x / (1 − p) where kept, else 0: x [b, …], sample_ids [b] i64, 0 ≤ p < 1. See core/rng.h for what
/// decides the mask.
Var dropout(const Var& x, double p, DropoutKey key, const Tensor& sample_ids);

// ---- Matrix products ----------------------------------------------------------------------------

/// x Wᵀ + bias: x […, in], weight [out, in], bias [out] or an undefined Var; result […, out].
/// Gradients have the same `precision`.
Var linear(const Var& x, const Var& weight, const Var& bias = {},
           Precision precision = Precision::full);
/// The same with the result in the accumulate type, not rounded to x's: for outputs that are
/// compared with each other. Its gradient is rounded to x's type before it goes on.
Var linear_unrounded(const Var& x, const Var& weight, const Var& bias = {});
/// a b: a […, m, k], b […, k, n]; leading axes broadcast.
Var matmul(const Var& a, const Var& b);

// ---- Attention and its parts --------------------------------------------------------------------

/// Over the last axis.
Var softmax(const Var& x);

struct AttentionOptions {
  double scale = 1;
  Tensor key_mask;  ///< [b, keys] u8, 0 = left out; undefined: all count
  EmptyRows empty_rows = EmptyRows::zero;
  DType out = DType::f32;  ///< type of the result: the queries' or its accumulate type
};

/// softmax(scale · q kᵀ) v without keeping a score matrix: q [b, h, nq, d], k [b, h, nk, d], v [b,
/// h, nk, dv] → [b, h, nq, dv]. Types may differ within one accumulate type (bf16 queries, f32
/// landmarks). Any strides but the last go in and come out: the result is laid out as [b, nq, h,
/// dv], so that merging the heads again copies nothing.
Var attention(const Var& q, const Var& k, const Var& v, const AttentionOptions& options);

/// Means over m segments of the valid tokens of each sample: x [b, n, c], mask [b, n] u8 or
/// undefined → [b, m, c] in the accumulate type. Of l valid tokens in order, segment i covers
/// floor(i·l/m) … floor((i+1)·l/m) − 1; an empty segment gives 0.
Var segment_means(const Var& x, const Tensor& mask, std::int64_t segments);

/// `iterations` steps of Z ← ¼ Z (13 I − AZ (15 I − AZ (7 I − AZ))) from Z0 = Aᵀ / c: a […, m, m],
/// f32 or f64. The gradient is that of the iteration as run, not of the true inverse. Xiong et al.,
/// arXiv 2102.03902, equation 13.
Var pseudo_inverse_iterative(const Var& a, std::int64_t iterations,
                             PinvScale scale = PinvScale::per_matrix);
/// Moore–Penrose inverse by SVD, differentiated by the formula of Golub & Pereyra (SIAM J. Numer.
/// Anal. 10, 1973), which needs no singular vectors and holds where the rank does not change: a […,
/// m, m], f32 or f64.
Var pseudo_inverse_exact(const Var& a);

/// Depthwise along the sequence, one filter a head shared by its channels, zero padding k/2, no
/// bias: x [b, n, h, d] (strided), weight [h, k] with k odd, mask [b, n] u8 or undefined (masked
/// positions count as 0) → [b, n, h, d].
Var sequence_conv(const Var& x, const Var& weight, const Tensor& mask);

/// Over the last axis c: gamma, beta [c]. Ba et al., arXiv 1607.06450.
Var layer_norm(const Var& x, const Var& gamma, const Var& beta, double epsilon);

/// A dropout as an argument: see core/rng.h for what decides the mask. p 0 leaves everything as it
/// is and needs no sample_ids.
struct DropoutOptions {
  double p = 0;
  DropoutKey key;
  Tensor sample_ids;  ///< [b] i64
};

/// layer_norm(residual + dropout(x)) in one pass: x and residual [b, …, c] of one shape.
Var residual_layer_norm(const Var& x, const Var& residual, const DropoutOptions& dropout,
                        const Var& gamma, const Var& beta, double epsilon);

// ---- Rows by index ------------------------------------------------------------------------------

/// Rows of `table` [n, c] at ids […] i64 → […, c]. Row `padding_row` gets no gradient (−1: every
/// row does). Ids outside 0 … n−1 throw.
Var embedding(const Var& table, const Tensor& ids, std::int64_t padding_row = -1);
/// x[index] along the first axis: x [n, …], index [r] i64 → [r, …]. An index of −1 gives zeros.
Var gather_rows(const Var& x, const Tensor& index);
/// The converse: y [rows, …] with y[index[r]] += x[r]; rows not named are 0.
Var scatter_rows(const Var& x, const Tensor& index, std::int64_t rows);
/// x with masked rows set to 0, whatever they hold: x [b, n, c], mask [b, n] u8.
Var mask_rows(const Var& x, const Tensor& mask);

// ---- Shape --------------------------------------------------------------------------------------

Var reshape(const Var& x, const Shape& shape);
/// Views: nothing is copied.
Var transpose(const Var& x, int axis_a, int axis_b);
Var slice(const Var& x, int axis, std::int64_t begin, std::int64_t end);
Var concat(const std::vector<Var>& parts, int axis);

// ---- Reductions and losses ----------------------------------------------------------------------

/// All elements → [1]; one axis → without it.
Var sum(const Var& x);
Var sum(const Var& x, int axis);
Var mean(const Var& x);
Var mean(const Var& x, int axis);

/// Σ −log softmax(logits)[label] / normaliser over rows whose label is not ignore_index: logits [r,
/// c], labels [r] i64 → [1] in the accumulate type. normaliser 0 means the number of counted rows
/// (a mean); a training step spread over micro-batches gives its total. Without any counted row the
/// loss is 0.
Var cross_entropy(const Var& logits, const Tensor& labels, double normaliser = 0);
/// mean((x − target)²) → [1] in the accumulate type; target has x's shape.
Var mean_squared_error(const Var& x, const Tensor& target);

}  // namespace nystrom
