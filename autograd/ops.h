// All differentiable functions. They check shapes on entry. Errors name the op, the shape or type
// that it got, and the expected one.
//
// Indices, labels and masks may be on the CPU: ops copy them to the device of the values.
// Unless a comment says otherwise, all inputs of an op have one floating type, which is also the
// result's. Gradients have the types of the values that they belong to. "[…, c]" stands for any
// leading axes.
#pragma once

#include <functional>
#include <vector>

#include "autograd/inverse.h"
#include "autograd/tape.h"
#include "core/batch.h"
#include "core/kernels.h"
#include "core/row_spans.h"

namespace nystrom {

// ---- Element-wise -------------------------------------------------------------------------------

/// Element-wise arithmetic with NumPy broadcasting. Gradients are summed over repeated axes.
Var operator+(const Var& a, const Var& b);
Var operator-(const Var& a, const Var& b);
Var operator*(const Var& a, const Var& b);
Var operator/(const Var& a, const Var& b);
/// scale · x + shift in one pass. The operators with a scalar call it.
Var affine(const Var& x, double scale, double shift = 0);
inline Var operator*(double scale, const Var& x) { return affine(x, scale); }
inline Var operator*(const Var& x, double scale) { return affine(x, scale); }
Var operator/(const Var& x, double divisor);
inline Var operator+(const Var& x, double shift) { return affine(x, 1, shift); }
inline Var operator-(const Var& x, double shift) { return affine(x, 1, -shift); }
inline Var operator-(const Var& x) { return affine(x, -1); }
/// The Gaussian error linear unit x Φ(x), and its tanh form, "gelu_new" (Hendrycks & Gimpel, arXiv
/// 1606.08415).
Var gelu_erf(const Var& x);
Var gelu_tanh(const Var& x);
/// x / (1 + e^(−x)), also called swish (Elfwing et al., arXiv 1702.03118).
Var silu(const Var& x);
/// max(x, 0).
Var relu(const Var& x);
/// The hyperbolic tangent.
Var tanh(const Var& x);
/// eˣ; in f32 at most e^88.
Var exp(const Var& x);
/// x².
Var square(const Var& x);
/// x converted to another floating type. The gradient has x's type.
Var cast(const Var& x, DType dtype);
/// x rounded to the values of `dtype`, in x's type. The gradient passes unchanged.
Var round_to(const Var& x, DType dtype);

/// x / (1 − p) for kept elements, 0 for the others: x [b, …], sample_ids [b] i64, 0 ≤ p < 1. For
/// rows that were chosen from samples, sample_ids is [b, 2]: see SampleRows. For the mask see
/// core/rng.h.
Var dropout(const Var& x, double p, DropoutKey key, const Tensor& sample_ids);

// ---- Matrix products ----------------------------------------------------------------------------

/// x Wᵀ + bias: x […, in], weight [out, in], bias [out] or an undefined Var → […, out]. Gradients
/// are computed in the same `precision`.
Var linear(const Var& x, const Var& weight, const Var& bias = {},
           Precision precision = Precision::full);
/// linear for data without a gradient, of any float type. Blocks of its rows are converted to the
/// type of the weight, never all at once.
Var linear_of_data(const Tensor& x, const Var& weight, const Var& bias = {});
/// linear with several weights [out_i, in] and biases [out_i] at once: x […, in] → […, Σ out_i].
/// One product, if the weights are adjacent in memory and so are their gradients.
Var joint_linear(const Var& x, const std::vector<Var>& weights, const std::vector<Var>& biases);
/// linear with the result in the accumulate type, not rounded to x's type, for outputs that are
/// compared with each other. Its gradient is rounded to x's type first.
Var linear_unrounded(const Var& x, const Var& weight, const Var& bias = {});
/// The weight and the bias, which may be undefined, of a linear layer.
struct LinearParameters {
  Var weight, bias;
};
/// linear(activation(linear(x, up…)), down…). Keeps the first product alone: the backward pass
/// computes its activation again, beside the derivative. A GPU may compute the activation beside
/// the first product.
Var feed_forward(Unary activation, const Var& x, const LinearParameters& up,
                 const LinearParameters& down);
/// linear(activation(a) ∘ b, weight, bias) for the halves a, b of x […, 2·in], weight [out, in]: a
/// gated linear unit (Shazeer, arXiv 2002.05202). Keeps x alone.
Var gated_linear(Unary activation, const Var& x, const Var& weight, const Var& bias = {});
/// The matrix product a b: a […, m, k], b […, k, n] → […, m, n]. Leading axes broadcast.
Var matmul(const Var& a, const Var& b);

// ---- Attention and its parts --------------------------------------------------------------------

/// Softmax over the last axis.
Var softmax(const Var& x);

/// The options of attention().
struct AttentionOptions {
  double scale = 1;
  DType out = DType::f32;  ///< the result's type: the queries' type or its accumulate type
  RowSpans queries = {}, keys = {};  ///< of ragged tensors
  /// [b, keys] u8, 0 for keys that are left out; of dense keys. Undefined: no key is left out.
  Tensor key_mask = {};
  EmptyRows empty_rows = EmptyRows::zero;
  /// The keys that a query sees: those at most this many rows away. Queries and keys then have the
  /// same spans, and no key is masked.
  std::int64_t reach = Scoring::all_keys;
  /// The rows outside the spans: the result of an op of other spans of the same rows, into which
  /// this one is written, so that both give one tensor without a sum. Nobody else may read it, and
  /// its op ignores dy outside its own spans. Undefined: these rows are 0.
  Var others = {};
};

/// softmax(scale · q kᵀ) v without a stored score matrix. Dense: q [b, h, nq, d], k [b, h, nk, d],
/// v [b, h, nk, dv] → [b, h, nq, dv]. Queries, or keys and values, may be ragged instead: [r, h, d]
/// with spans. Span i of the queries sees span i of the keys, and ragged results outside the spans
/// are 0. Types may differ within one accumulate type (bf16 queries, f32 landmarks). All axes but
/// the last may have any strides. A dense result is laid out as [b, nq, h, dv], so merging the
/// heads copies nothing.
Var attention(const Var& q, const Var& k, const Var& v, const AttentionOptions& options);

/// Rotary positions: columns i and i + d/2 of each row as one number of the plane, turned by the
/// angle of its place in the span. x is ragged [r, h, d] with spans, or dense [b, h, n, d] → x's
/// shape; table [places, d/2, 2], in the accumulate type, has the cosine and the sine of each angle
/// (rotary_table). With `heads`, only the first of them are rotated, and the others are copied. Su
/// et al., arXiv 2104.09864.
Var rotate(const Var& x, const RowSpans& spans, const Tensor& table,
           std::optional<std::int64_t> heads = {});
/// The angles of place 1, theta^(−2i / width) for i from 0 to width / 2 − 1, rounded to f32 as
/// transformers has them.
std::vector<float> rotary_frequencies(std::int64_t width, double theta);
/// The table of these places for rotate(): angle place · theta^(−2i / width) of column i, f64
/// [places, width / 2, 2]. Angles are rounded to f32 too.
Tensor rotary_table(const std::vector<double>& places, std::int64_t width, double theta);
/// The same of places 0 … count − 1.
Tensor rotary_table(std::int64_t count, std::int64_t width, double theta);

/// Means over m segments of each span of x: x [r, c] with p spans, or dense [p, n, c] → [p, m, c]
/// in the accumulate type. Of l rows in order, segment i covers floor(i·l/m) … floor((i+1)·l/m)
/// − 1. An empty segment gives 0.
Var segment_means(const Var& x, const RowSpans& spans, std::int64_t segments);

/// The projections that make landmarks of segment means: weights [h·d, c] and biases [h·d] of
/// queries and keys. A single projection is that of the keys, and makes both landmarks.
struct LandmarkProjections {
  std::vector<Var> weights, biases;
  bool int8 = false;  ///< weights have 8 bits, and means are rounded to as many
};

/// The inputs of nystrom_attention(): ragged rows with spans, or dense ones.
struct NystromInputs {
  Var hidden;                 ///< [r, c] or [b, n, c]: landmarks come from its segment means
  Var queries, keys, values;  ///< [r, h, d] or [b, h, n, d], as attention() takes them
  LandmarkProjections projections;
  Var taps = {};  ///< [h, k] or, as files have them, [h, 1, k, 1]; undefined: no convolution
  /// [r, 3·h·d] or [b, n, 3·h·d], if queries, keys and values are the parts of one tensor.
  Var qkv = {};

  /// Inputs whose queries, keys and values are the parts of qkv.
  static NystromInputs joint(const Var& hidden, const Var& qkv, std::int64_t heads,
                             LandmarkProjections projections, const Var& taps);
};

/// The options of nystrom_attention().
struct NystromOptions {
  std::int64_t heads = 1, landmarks = 1;
  Inverse inverse = Inverse::iterative;
  std::int64_t iterations = 6;
  PinvScale pinv_scale = PinvScale::per_matrix;
  double scale = 1;  ///< of scores
  /// Of ragged inputs: the rows that attend, and those of means, keys and values. With taps they
  /// are the same.
  RowSpans queries = {}, keys = {};
  Tensor key_mask = {};  ///< [b, n] u8 or undefined; of dense inputs
  EmptyRows empty_rows = EmptyRows::zero;
  /// With rotary positions, where queries and keys are rotated already: the table of rotate() for
  /// the landmarks of all sequences, one behind another, [b·m, d/2, 2].
  Tensor landmark_angles = {};
  /// Gets the matrix A [b, h, m, m] before it is inverted. It may replace A by an equal value, to
  /// study its gradient.
  std::function<void(Var& a)> observe_matrix = {};
};

/// Nyström attention with a convolution of its values: softmax(s Q Ksᵀ) · A⁺ · (softmax(s Qs Kᵀ) V)
/// + sequence_conv(V), with A = softmax(s Qs Ksᵀ). The landmarks Qs, Ks are projections of hidden's
/// segment means, rounded to hidden's type → [r, h·d] or [b, n, h·d]. Rows outside the spans are 0.
///
/// It has two forms. The composed one consists of other ops. The fused one has a hand-written
/// gradient and fewer kernels; it serves the iterative inverse where qkv is given.
Var nystrom_attention(const NystromInputs& inputs, const NystromOptions& options);

/// `iterations` steps of Z ← ¼ Z (13 I − AZ (15 I − AZ (7 I − AZ))) from Z0 = Aᵀ / c: a […, m, m],
/// f32 or f64. `scale` selects c. The gradient is that of the iteration, not of the true inverse.
/// Xiong et al., arXiv 2102.03902, equation 13.
Var pseudo_inverse_iterative(const Var& a, std::int64_t iterations,
                             PinvScale scale = PinvScale::per_matrix);
/// The Moore–Penrose inverse by SVD: a […, m, m], f32 or f64. Its gradient is the formula of Golub
/// & Pereyra (SIAM J. Numer. Anal. 10, 1973). That formula needs no singular vectors and holds
/// where the rank is constant.
Var pseudo_inverse_exact(const Var& a);

/// Depthwise convolution along each span, with zero padding k/2 and no bias: x [r, h, d] with
/// spans, or dense [b, n, h, d] (strided), weight [h, k] with odd k → x's shape. All channels of a
/// head share one filter. Ragged rows outside the spans give 0.
Var sequence_conv(const Var& x, const Var& weight, const RowSpans& spans = {});

/// Layer normalisation over the last axis c: gamma, beta [c], or an undefined beta. Ba et al.,
/// arXiv 1607.06450. Linear layers of the result do not keep it: the backward pass computes it
/// again.
Var layer_norm(const Var& x, const Var& gamma, const Var& beta, double epsilon);

/// The dropout of an op that includes one. For the mask see core/rng.h. With p = 0 nothing is
/// dropped, and sample_ids may be undefined.
struct DropoutOptions {
  double p = 0;
  DropoutKey key;
  Tensor sample_ids;  ///< [b] or [b, 2] i64
};

/// residual + dropout(x): x and residual [b, …, c] of one shape → the same shape.
Var residual_dropout(const Var& x, const Var& residual, const DropoutOptions& dropout);

/// layer_norm(residual + dropout(x)) in one pass: x and residual [b, …, c] of one shape → the same
/// shape. beta may be undefined.
Var residual_layer_norm(const Var& x, const Var& residual, const DropoutOptions& dropout,
                        const Var& gamma, const Var& beta, double epsilon);

// ---- Rows by index ------------------------------------------------------------------------------

/// The rows of `table` [n, c] at ids […] i64 → […, c]. Row `padding_row` gets no gradient; with −1
/// every row gets one. Throws for ids outside 0 … n−1.
Var embedding(const Var& table, const Tensor& ids, std::int64_t padding_row = -1);
/// x[index] along the first axis: x [n, …], index [r] i64 → [r, …]. An index of −1 gives zeros.
Var gather_rows(const Var& x, const Tensor& index);

// ---- Shape --------------------------------------------------------------------------------------

/// x in another shape with the same number of elements.
Var reshape(const Var& x, const Shape& shape);
/// x with two axes exchanged, as a view.
Var transpose(const Var& x, int axis_a, int axis_b);
/// Part `part` of `parts` equal ones of the last axis, by heads, as a view: [b, n, parts·h·d] → [b,
/// h, n, d] or, ragged, [r, parts·h·d] → [r, h, d].
Var split_heads(const Var& x, std::int64_t heads, std::int64_t part = 0, std::int64_t parts = 1);
/// The inverse of split_heads with one part. Nothing is copied if x came from it.
Var merge_heads(const Var& x);
/// Elements begin … end − 1 of an axis, as a view.
Var slice(const Var& x, int axis, std::int64_t begin, std::int64_t end);
/// Joins parts along an axis. Their other axes have equal sizes.
Var concat(const std::vector<Var>& parts, int axis);

// ---- Reductions and losses ----------------------------------------------------------------------

/// The sum of all elements → [1].
Var sum(const Var& x);
/// The sum over one axis, which the result does not have.
Var sum(const Var& x, int axis);
/// The mean of all elements → [1].
Var mean(const Var& x);
/// The mean over one axis, which the result does not have.
Var mean(const Var& x, int axis);
/// The Euclidean lengths of the rows of x […, c] → […], at least 1e-12. The gradient of a shorter
/// row is 0.
Var row_norms(const Var& x);

/// Σ −log softmax(logits)[label] / normaliser, over rows whose label is not ignore_index: logits
/// [r, c], labels [r] i64 → [1] in the accumulate type. normaliser 0 stands for the number of
/// counted rows and gives a mean. A training step of several micro-batches passes its total.
/// Without any counted row the loss is 0. `argmax` [r] i64 on the logits' device, if defined,
/// receives the first index of each row's largest logit. `z_loss` times (log Σ exp(logits))² of
/// each row is added to it, which keeps logits near 0 (Chowdhery et al., "PaLM", 2022, section 5).
Var cross_entropy(const Var& logits, const Tensor& labels, double normaliser = 0,
                  Tensor argmax = {}, double z_loss = 0);
/// temperature² · Σ KL(softmax(target / temperature) ‖ softmax(logits / temperature)) / normaliser
/// over the rows: logits, target [r, c] → [1] in the accumulate type. The target is a constant
/// (Hinton et al., arXiv 1503.02531).
Var distillation_loss(const Var& logits, const Tensor& target, double temperature,
                      double normaliser);
/// mean((x − target)²) → [1] in the accumulate type. target has x's shape.
Var mean_squared_error(const Var& x, const Tensor& target);

}  // namespace nystrom
