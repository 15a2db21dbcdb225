#include "nn/nystrom.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/check.h"

namespace nystrom {
namespace {

Tensor index_tensor(const std::vector<std::int64_t>& rows, Device device) {
  return Tensor::from(rows, {static_cast<std::int64_t>(rows.size())}).to(device);
}

/// The samples of `in` at `rows`.
struct Subset {
  Tensor index;
  SequenceMask mask;
  AttentionInputs inputs;
  Subset(const AttentionInputs& in, const std::vector<std::int64_t>& rows)
      : index(index_tensor(rows, in.hidden.value().device())),
        mask(in.mask.rows(rows)),
        inputs{gather_rows(in.hidden, index),
               gather_rows(in.queries, index),
               gather_rows(in.keys, index),
               gather_rows(in.values, index),
               mask,
               in.query,
               in.key} {}
};

}  // namespace

NystromAttention::NystromAttention(const ModelConfig& config)
    : config_(config.attention),
      segment_means_seq_len_(config.segment_means_seq_len),
      heads_(config.num_attention_heads),
      scale_(1 / std::sqrt(static_cast<double>(config.head_dim()))),
      exact_(config) {}

Var NystromAttention::operator()(const AttentionInputs& in) const {
  if (config_.semantics == Semantics::transformers) {
    if (is_exact(in.mask.length())) return exact_(in);
    require_input(in.mask.length() == segment_means_seq_len_,
                  "semantics transformers needs sequences padded to segment_means_seq_len {}, got "
                  "length {}; pad them, or set "
                  "model.attention.semantics=nystrom",
                  segment_means_seq_len_, in.mask.length());
    return approximate(in);
  }
  std::vector<std::int64_t> few, many;
  for (std::int64_t b = 0; b < in.mask.batch(); ++b) {
    (is_exact(in.mask.counts()[static_cast<std::size_t>(b)]) ? few : many).push_back(b);
  }
  if (few.empty()) return approximate(in);
  if (many.empty()) return exact_(in);
  const Subset short_ones(in, few), long_ones(in, many);
  return scatter_rows(exact_(short_ones.inputs), short_ones.index, in.mask.batch()) +
         scatter_rows(approximate(long_ones.inputs), long_ones.index, in.mask.batch());
}

bool NystromAttention::fuses(const SequenceMask& mask) const {
  if (config_.inverse != Inverse::iterative) return false;
  if (config_.semantics == Semantics::transformers)
    return !is_exact(mask.length()) && mask.length() == segment_means_seq_len_;
  return std::ranges::none_of(mask.counts(), [&](std::int64_t tokens) { return is_exact(tokens); });
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
  options.mean_mask = transformers ? Tensor{} : in.mask.valid();
  options.key_mask = in.mask.valid();
  options.empty_rows = transformers ? EmptyRows::uniform : EmptyRows::zero;
  LandmarkProjections projections{{in.key.weight()}, {in.key.bias()}};
  if (!options.shared_landmarks) {
    projections.weights.insert(projections.weights.begin(), in.query.weight());
    projections.biases.insert(projections.biases.begin(), in.query.bias());
  }
  return nystrom_attention(in.hidden, in.qkv, projections, in.taps, options);
}

NystromAttention::Landmarks NystromAttention::landmarks(const AttentionInputs& in) const {
  const Tensor counted = config_.semantics == Semantics::transformers ? Tensor{} : in.mask.valid();
  const Var means = segment_means(in.hidden, counted, config_.num_landmarks);
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
  return landmark_matrix(landmarks(in));
}

bool NystromAttention::is_exact(std::int64_t tokens) const {
  if (config_.semantics == Semantics::transformers)
    return segment_means_seq_len_ == config_.num_landmarks;
  return tokens <= config_.num_landmarks;
}

Var NystromAttention::read_values(const Landmarks& l, const AttentionInputs& in) const {
  const EmptyRows empty =
      config_.semantics == Semantics::transformers ? EmptyRows::uniform : EmptyRows::zero;
  return attention(l.queries, in.keys, in.values, {scale_, in.mask.valid(), empty, l.keys.dtype()});
}

Var NystromAttention::read_landmarks(const Landmarks& l, const AttentionInputs& in,
                                     const Var& y) const {
  return attention(in.queries, l.keys, y, {scale_, {}, EmptyRows::zero, in.queries.dtype()});
}

Var NystromAttention::approximate(const AttentionInputs& in) const {
  const Landmarks l = landmarks(in);
  Var y = read_values(l, in);
  if (config_.inverse != Inverse::identity) y = apply_inverse(landmark_matrix(l), y);
  return read_landmarks(l, in, y);
}

Tensor NystromAttention::landmark_matrix_gradient(const AttentionInputs& in,
                                                  const Tensor& dy) const {
  const auto constants = [&] {
    const NoGrad constant;
    const Landmarks l = landmarks(in);
    return std::tuple(l, read_values(l, in).detach(), landmark_matrix(l).detach());
  };
  const auto [l, values, matrix] = constants();
  const Var a = Var::leaf(matrix.value());
  Tape tape;
  tape.backward(read_landmarks(l, in, apply_inverse(a, values)), dy);
  return a.grad();
}

}  // namespace nystrom
