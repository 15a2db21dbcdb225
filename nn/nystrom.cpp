#include "nn/nystrom.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/check.h"

namespace nystrom {
NystromAttention::NystromAttention(const ModelConfig& config)
    : config_(config.attention),
      segment_means_seq_len_(config.segment_means_seq_len),
      heads_(config.num_attention_heads),
      scale_(1 / std::sqrt(static_cast<double>(config.head_dim()))),
      exact_(config) {}

Var NystromAttention::operator()(const AttentionInputs& in) const {
  const Ragged& batch = in.batch;
  if (config_.semantics == Semantics::transformers && !is_exact(batch.length()))
    require_input(batch.length() == segment_means_seq_len_,
                  "semantics transformers needs sequences padded to segment_means_seq_len {}, got "
                  "length {}; pad them, or set "
                  "model.attention.semantics=nystrom",
                  segment_means_seq_len_, batch.length());
  if (batch.dense()) return is_exact(batch.length()) ? exact_(in) : approximate(batch.all(), in);
  const auto& [few, many] = batch.split(config_.num_landmarks);
  if (!many) return exact_(in);
  const Var approximated = approximate(*many, in);
  return few ? exact_.of(*few, in) + approximated : approximated;
}

bool NystromAttention::fuses(const Ragged& batch) const {
  if (config_.inverse != Inverse::iterative) return false;
  if (config_.semantics == Semantics::transformers)
    return !is_exact(batch.length()) && batch.length() == segment_means_seq_len_;
  return std::ranges::none_of(batch.counts(),
                              [&](std::int64_t tokens) { return is_exact(tokens); });
}

Var NystromAttention::fused(const FusedInputs& in) const {
  const bool transformers = config_.semantics == Semantics::transformers;
  NystromOptions options;
  options.heads = heads_;
  options.landmarks = config_.num_landmarks;
  options.iterations = config_.inverse_iterations;
  options.pinv_scale = transformers ? PinvScale::whole_batch : PinvScale::per_matrix;
  options.scale = scale_;
  options.shared_landmarks = config_.landmark_source == LandmarkSource::keys;
  options.queries = in.batch.all().queries;
  options.keys = in.batch.all().keys;
  options.key_mask = in.batch.key_mask();
  options.empty_rows = transformers ? EmptyRows::uniform : EmptyRows::zero;
  LandmarkProjections projections{{in.key.weight()}, {in.key.bias()}};
  if (!options.shared_landmarks) {
    projections.weights.insert(projections.weights.begin(), in.query.weight());
    projections.biases.insert(projections.biases.begin(), in.query.bias());
  }
  return nystrom_attention(in.hidden, in.qkv, projections, in.taps, options);
}

NystromAttention::Landmarks NystromAttention::landmarks(const SequenceSpans& sequences,
                                                        const AttentionInputs& in) const {
  const Var means = segment_means(in.hidden, sequences.keys, config_.num_landmarks);
  const bool rounded = is_half(in.hidden.dtype());
  const auto project = [&](const Linear& projection) {
    const DType exact = means.dtype();
    const Var rows =
        linear(factor_of(projection.weight(), means), cast(projection.weight(), exact),
               cast(projection.bias(), exact),
               rounded ? Precision::tf32 : Precision::full);  // no coarser than the rounding below
    const Var heads = split_heads(rows, heads_);
    return rounded ? round_to(heads, in.hidden.dtype()) : heads;
  };
  const Var keys = project(in.key);
  return {config_.landmark_source == LandmarkSource::keys ? keys : project(in.query), keys};
}

Var NystromAttention::apply_inverse(const Var& a, const Var& x) const {
  switch (config_.inverse) {
    case Inverse::iterative: {
      const auto scale = config_.semantics == Semantics::transformers ? PinvScale::whole_batch
                                                                      : PinvScale::per_matrix;
      return matmul(pseudo_inverse_iterative(a, config_.inverse_iterations, scale), x);
    }
    case Inverse::exact: return matmul(pseudo_inverse_exact(a), x);
    case Inverse::identity: return x;
  }
  return x;
}

Var NystromAttention::landmark_matrix(const Landmarks& l) const {
  return softmax(matmul(scale_ * l.queries, transpose(l.keys, -1, -2)));
}

Var NystromAttention::landmark_matrix(const AttentionInputs& in) const {
  return landmark_matrix(landmarks(in.batch.all(), in));
}

bool NystromAttention::is_exact(std::int64_t tokens) const {
  if (config_.semantics == Semantics::transformers)
    return segment_means_seq_len_ == config_.num_landmarks;
  return tokens <= config_.num_landmarks;
}

Var NystromAttention::read_values(const Landmarks& l, const SequenceSpans& sequences,
                                  const AttentionInputs& in) const {
  return attention(l.queries, in.keys, in.values,
                   {.scale = scale_,
                    .out = l.keys.dtype(),
                    .keys = sequences.keys,
                    .key_mask = in.batch.key_mask(),
                    .empty_rows = config_.semantics == Semantics::transformers ? EmptyRows::uniform
                                                                               : EmptyRows::zero});
}

Var NystromAttention::read_landmarks(const Landmarks& l, const SequenceSpans& sequences,
                                     const AttentionInputs& in, const Var& y) const {
  return attention(in.queries, l.keys, y,
                   {.scale = scale_, .out = in.queries.dtype(), .queries = sequences.queries});
}

Var NystromAttention::approximate(const SequenceSpans& sequences, const AttentionInputs& in) const {
  const Landmarks l = landmarks(sequences, in);
  Var y = read_values(l, sequences, in);
  if (config_.inverse != Inverse::identity) y = apply_inverse(landmark_matrix(l), y);
  return read_landmarks(l, sequences, in, y);
}

Tensor NystromAttention::landmark_matrix_gradient(const AttentionInputs& in,
                                                  const Tensor& dy) const {
  const SequenceSpans& all = in.batch.all();
  const auto constants = [&] {
    const NoGrad constant;
    const Landmarks l = landmarks(all, in);
    return std::tuple(l, read_values(l, all, in).detach(), landmark_matrix(l).detach());
  };
  const auto [l, values, matrix] = constants();
  const Var a = Var::leaf(matrix.value());
  Tape tape;
  tape.backward(read_landmarks(l, all, in, apply_inverse(a, values)), dy);
  return a.grad();
}

}  // namespace nystrom
