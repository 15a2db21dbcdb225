#include "autograd/ops/nystrom_fused.h"

#include "autograd/ops/shared.h"

namespace nystrom {
namespace {

/// The sizes of an op: `batch` spans, `parts` projections of landmarks.
struct Sizes {
  std::int64_t batch, channels, heads, width, landmarks, parts;
};

/// Values kept for the backward pass. With B = softmax(s Qs Kᵀ): values = B V, y = A⁺ B V.
struct Saved {
  Sizes size;
  NystromOptions options;
  Tensor means, weight;  ///< [b · m, c]; [p · h · d, c] in the accumulate type
  std::vector<Tensor> weights;
  Tensor landmarks, a, z;  ///< [b, p, h, m, d]; [b · h, m, m]; [iterations + 1, b · h, m, m]
  Tensor qkv;              ///< [r, 3 h, d] or [b, n, 3 h, d]
  Tensor values, values_sum, y, out_sum;
  Tensor out;   ///< softmax(s Q Ksᵀ) y, [r, h, d] or [b, n, h, d], if its gradient needs it
  Tensor taps;  ///< [h, k]
  Shape taps_shape;
};

/// Queries, keys or values, for i = 0, 1, 2, of qkv, in the kernels' form.
Tensor part(const Tensor& qkv, std::int64_t i) {
  const int axis = qkv.rank() - 2;
  const std::int64_t heads = qkv.dim(axis) / 3;
  return by_heads(qkv.slice(axis, i * heads, (i + 1) * heads));
}

/// One part of the landmarks, [b, h, m, d]: the first is of queries, the last of keys.
Tensor landmark_part(const Saved& s, std::int64_t i) {
  const std::int64_t heads = s.size.heads;
  return s.landmarks.reshape({s.size.batch, s.size.parts * heads, s.size.landmarks, s.size.width})
      .slice(1, i * heads, (i + 1) * heads);
}
Tensor query_landmarks(const Saved& s) { return landmark_part(s, 0); }
Tensor key_landmarks(const Saved& s) { return landmark_part(s, s.size.parts - 1); }

/// x [b, h, m, d] as [b · h, m, d].
Tensor as_batch(const Tensor& x) { return x.reshape({x.dim(0) * x.dim(1), x.dim(2), x.dim(3)}); }

/// Turns the landmarks of `rows` [b · m, p · h · d] in place, each by the middle of its segment.
void rotate_landmarks(const Saved& s, const Tensor& rows, bool backwards) {
  const RowSpans all({{0, rows.dim(0)}}, rows.device());
  Tensor heads = rows.reshape({rows.dim(0), s.size.parts * s.size.heads, s.size.width});
  kernels::rotate(heads, all, s.options.landmark_angles, backwards, heads);
}

/// Computes the landmarks, A and its inverse.
void invert(Saved& s, const Tensor& hidden, const LandmarkProjections& projections) {
  const auto& [batch, channels, heads, width, m, parts] = s.size;
  const DType sums = accumulate_dtype(hidden.dtype());
  const Device device = hidden.device();
  s.means = Tensor::empty({batch * m, channels}, sums, device);
  kernels::segment_means(hidden, s.options.keys, s.means.reshape({batch, m, channels}));
  std::vector<Tensor> biases;
  for (std::size_t i = 0; i < projections.weights.size(); ++i) {
    s.weights.push_back(projections.weights[i].value());
    biases.push_back(projections.biases[i].value().contiguous());
  }
  s.weight = joined(s.weights).cast(sums);
  Tensor rows = Tensor::empty({batch * m, parts * heads * width}, sums, device);
  Tensor bias = joined(biases);
  const bool rotated = s.options.landmark_angles.defined();
  kernels::matmul(s.means, s.weight.transpose(0, 1), rotated ? bias.cast(sums) : Tensor(), rows,
                  false, landmark_precision(hidden.dtype()));
  if (rotated) {
    rotate_landmarks(s, rows, false);
    bias = zeros_like(bias);
  }
  s.landmarks = Tensor::empty({batch, parts, heads, m, width}, hidden.dtype(), device);
  s.a = Tensor::empty({batch * heads, m, m}, sums, device);
  kernels::landmark_matrix(rows.reshape({batch, m, parts, heads, width}), bias, s.options.scale,
                           s.landmarks, s.a.reshape({batch, heads, m, m}));
  s.z = Tensor::empty({s.options.iterations + 1, batch * heads, m, m}, sums, device);
  kernels::pseudo_inverse_iterative(s.a, s.options.pinv_scale, s.z);
}

/// The inverse, [b · h, m, m].
Tensor inverse_of(const Saved& s) {
  return s.z.slice(0, s.options.iterations, s.options.iterations + 1).reshape(s.a.shape());
}

/// The shape of the inputs' rows, without what each row holds: [r] or [b, n].
Shape rows_of(const Saved& s) { return s.qkv.shape().without(-1).without(-1); }

/// An uninitialised tensor of the result's rows, 0 outside the queries' spans.
Tensor empty_result(const Saved& s) {
  return empty_rows(rows_of(s).append(s.size.heads).append(s.size.width), s.options.queries,
                    s.qkv.dtype(), s.qkv.device());
}

/// Computes both attentions and the convolution: the rows of qkv, [r, h, d] or [b, n, h, d].
Tensor attend(Saved& s) {
  const auto& [batch, channels, heads, width, m, parts] = s.size;
  const Device device = s.qkv.device();
  const DType sums = accumulate_dtype(s.qkv.dtype());
  const NystromOptions& o = s.options;
  const Spans landmarks;  // a dense tensor
  s.values = Tensor::empty({batch, heads, m, width}, sums, device);
  s.values_sum = Tensor::empty({batch, heads, m}, sums, device);
  kernels::attention(query_landmarks(s), part(s.qkv, 1), part(s.qkv, 2), landmarks, o.keys,
                     o.key_mask, o.empty_rows, o.scale, s.values, s.values_sum);
  s.y = product(inverse_of(s), as_batch(s.values)).reshape(s.values.shape());
  const Tensor queries = part(s.qkv, 0);
  s.out_sum = Tensor::empty(log_sum_exp_shape(queries.shape(), o.queries), sums, device);
  Tensor result = empty_result(s);
  if (s.taps.defined() && m <= few_keys) {
    kernels::attention_with_conv(queries, key_landmarks(s), s.y, o.queries, landmarks, o.scale,
                                 part(s.qkv, 2), s.taps, by_heads(result), s.out_sum);
    return result;
  }
  kernels::attention(queries, key_landmarks(s), s.y, o.queries, landmarks, CView{}, EmptyRows::zero,
                     o.scale, by_heads(result), s.out_sum);
  if (m > few_keys) s.out = result;
  if (!s.taps.defined()) return result;
  Tensor sum = empty_result(s);
  kernels::sequence_conv(part(s.qkv, 2), s.taps, o.queries, by_heads(result), by_heads(sum));
  return sum;
}

/// The gradients of the inputs. Letters as in Saved.
class Gradient {
 public:
  Gradient(const Saved& s, const Tensor& dy, Grads& grads)
      : s_(s),
        grads_(grads),
        dout_(dy.reshape(rows_of(s).append(s.size.heads).append(s.size.width))),
        dqkv_(covers_all_rows() ? empty_like(s.qkv) : zeros_like(s.qkv)),
        sums_(s.a.dtype()),
        device_(s.a.device()) {}

  void run() {
    attentions();
    grads_.add(1, dqkv_.reshape(rows_of(s_).append(dqkv_.dim(-2) * dqkv_.dim(-1))));
    landmarks();
  }

 private:
  bool covers_all_rows() const {
    const NystromOptions& o = s_.options;
    return !o.queries.ragged() ||
           (o.queries.rows() == s_.qkv.dim(0) && o.keys.rows() == s_.qkv.dim(0));
  }

  /// dqkv, and the gradients of landmarks, of A and of the taps.
  void attentions() {
    const NystromOptions& o = s_.options;
    const Shape heads = s_.values.shape();
    dkeys_ = Tensor::empty(heads, sums_, device_);
    dqueries_ = Tensor::empty(heads, sums_, device_);
    Tensor dy = Tensor::empty(heads, sums_, device_);
    const Tensor dout = by_heads(dout_), out = s_.out.defined() ? by_heads(s_.out) : Tensor();
    const Spans rows;  // of landmarks, a dense tensor
    kernels::attention_grad(part(s_.qkv, 0), key_landmarks(s_), s_.y, o.queries, rows, CView{},
                            EmptyRows::zero, o.scale, out, s_.out_sum, dout, part(dqkv_, 0), dkeys_,
                            dy);
    // y = Z values
    const Tensor dvalues = product(inverse_of(s_).transpose(1, 2), as_batch(dy)).reshape(heads);
    const Tensor dz = product(as_batch(dy), as_batch(s_.values).transpose(1, 2));
    da_ = empty_like(s_.a);
    kernels::pseudo_inverse_iterative_grad(s_.a, o.pinv_scale, s_.z, dz, da_);
    Tensor dk = part(dqkv_, 1), dv = part(dqkv_, 2);
    if (!s_.taps.defined())
      return kernels::attention_grad(query_landmarks(s_), part(s_.qkv, 1), part(s_.qkv, 2), rows,
                                     o.keys, o.key_mask, o.empty_rows, o.scale, s_.values,
                                     s_.values_sum, dvalues, dqueries_, dk, dv);
    const std::size_t taps = 2 + 2 * s_.weights.size();
    grads_.add_sums(taps, {s_.taps_shape}, sums_, device_, [&](std::vector<Tensor>& dw) {
      kernels::attention_grad_with_conv(query_landmarks(s_), part(s_.qkv, 1), part(s_.qkv, 2), rows,
                                        o.keys, o.key_mask, o.empty_rows, o.scale, s_.values,
                                        s_.values_sum, dvalues, s_.taps, dout, dqueries_, dk, dv,
                                        dw[0].reshape(s_.taps.shape()));
    });
  }

  /// The gradients of hidden and of the projections, through the landmarks.
  void landmarks() {
    const auto& [batch, channels, heads, width, m, parts] = s_.size;
    Tensor rows = Tensor::empty({batch * m, parts * heads * width}, sums_, device_);
    kernels::landmark_matrix_grad(s_.landmarks, s_.a.reshape({batch, heads, m, m}), da_,
                                  s_.options.scale, dqueries_, dkeys_,
                                  rows.reshape({batch, m, parts, heads, width}));
    if (s_.options.landmark_angles.defined()) rotate_landmarks(s_, rows, true);
    const Precision precision = landmark_precision(s_.qkv.dtype());
    joint_parameter_gradients(rows, s_.means, 2, s_.weights, precision, grads_);
    if (!grads_.wants(0)) return;
    Tensor dmeans = empty_like(s_.means);
    kernels::matmul(rows, s_.weight, CView{}, dmeans, false, precision);
    kernels::segment_means_grad(dmeans.reshape({batch, m, channels}), s_.options.keys,
                                grads_.so_far(0, rows_of(s_).append(channels), device_));
  }

  const Saved& s_;
  Grads& grads_;
  Tensor dout_, dqkv_;  ///< of the result and of qkv
  DType sums_;
  Device device_;
  Tensor dkeys_, dqueries_;  ///< of landmarks: [b, h, m, d]
  Tensor da_;
};

}  // namespace

Var fused_nystrom_attention(const NystromInputs& in, const NystromOptions& options) {
  const LandmarkProjections& projections = in.projections;
  const std::int64_t width = in.queries.dim(-1), rows = 3 * options.heads;
  Saved s;
  s.size = {options.queries.count(in.hidden.dim(0)),
            in.hidden.dim(-1),
            options.heads,
            width,
            options.landmarks,
            std::ssize(projections.weights)};
  s.options = options;
  const Device device = in.hidden.value().device();
  s.options.queries = options.queries.on(device);
  s.options.keys = options.keys.on(device);
  s.options.key_mask = options.key_mask.contiguous().to(device);
  s.options.landmark_angles = options.landmark_angles.contiguous().to(device);
  const Shape of_rows = in.qkv.shape().without(-1);
  s.qkv = in.qkv.value().contiguous().reshape(of_rows.append(rows).append(width));
  if (in.taps.defined()) {
    s.taps_shape = in.taps.shape();
    s.taps = in.taps.value().contiguous().reshape(
        {options.heads, in.taps.value().numel() / options.heads});
  }
  invert(s, in.hidden.value().contiguous(), projections);
  const Tensor result = attend(s).reshape(of_rows.append(options.heads * width));
  std::vector<Var> inputs{in.hidden, in.qkv};
  inputs.insert(inputs.end(), projections.weights.begin(), projections.weights.end());
  inputs.insert(inputs.end(), projections.biases.begin(), projections.biases.end());
  if (in.taps.defined()) inputs.push_back(in.taps);
  return record(
      "nystrom_attention", result, inputs,
      [s = std::move(s)](const Tensor& dy, Grads grads) { Gradient(s, dy, grads).run(); });
}

}  // namespace nystrom
