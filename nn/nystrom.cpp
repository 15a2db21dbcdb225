#include "nn/nystrom.h"

#include <cmath>

#include "core/check.h"

namespace nystrom {

NystromAttention::NystromAttention(const ModelConfig& config)
    : shared_landmarks_(config.attention.landmark_source == LandmarkSource::keys), exact_(config) {
  options_.heads = config.num_attention_heads;
  options_.landmarks = config.attention.num_landmarks;
  options_.inverse = config.attention.inverse;
  options_.iterations = config.attention.inverse_iterations;
  options_.scale = 1 / std::sqrt(static_cast<double>(config.head_dim()));
}

NystromInputs NystromAttention::inputs_of(const AttentionInputs& in, const Var& taps) const {
  LandmarkProjections by{{in.key.weight()}, {in.key.bias_or_zeros()}, in.key.weight().is_int8()};
  if (!shared_landmarks_) {
    by.weights.insert(by.weights.begin(), in.query.weight());
    by.biases.insert(by.biases.begin(), in.query.bias_or_zeros());
  }
  return {in.hidden, in.queries, in.keys, in.values, by, taps, in.qkv};
}

namespace {

/// The table of rotate() for the middles of all segments of some sequences of `lengths` tokens.
Tensor angles_of_segments(const std::vector<std::int64_t>& lengths, std::int64_t segments,
                          std::int64_t width, double theta) {
  std::vector<double> middles;
  for (const std::int64_t length : lengths) {
    for (std::int64_t i = 0; i < segments; ++i) {
      const std::int64_t first = i * length / segments, end = (i + 1) * length / segments;
      middles.push_back(static_cast<double>(first + end - 1) / 2);
    }
  }
  return rotary_table(middles, width, theta);
}

}  // namespace

NystromOptions NystromAttention::options_of(const SequenceSpans& sequences,
                                            const AttentionInputs& in) const {
  const Ragged& batch = in.batch;
  NystromOptions options = options_;
  if (in.rope_theta) {
    const std::vector<std::int64_t> lengths =
        sequences.keys.ragged()
            ? sequences.keys.sizes()
            : std::vector<std::int64_t>(static_cast<std::size_t>(batch.batch()), batch.length());
    options.landmark_angles =
        angles_of_segments(lengths, options.landmarks, in.keys.dim(-1), *in.rope_theta)
            .cast(accumulate_dtype(in.keys.dtype()))
            .to(in.keys.value().device());
  }
  options.queries = sequences.queries;
  options.keys = sequences.keys;
  options.key_mask = batch.key_mask();
  return options;
}

Var NystromAttention::approximate(const SequenceSpans& sequences, const AttentionInputs& in,
                                  const Var& taps) const {
  return nystrom_attention(inputs_of(in, taps), options_of(sequences, in));
}

Var NystromAttention::operator()(const AttentionInputs& in) const {
  const auto& [few, many] = in.batch.split(options_.landmarks);
  if (!many) return exact_(in);
  const Var approximated = split_heads(approximate(*many, in), options_.heads);
  return few ? exact_.of(*few, in, approximated) : approximated;
}

Var NystromAttention::with_convolution(const AttentionInputs& in, const Parameter& taps) const {
  const auto& [few, many] = in.batch.split(options_.landmarks);
  if (few || !in.batch.without_gaps()) return AttentionMethod::with_convolution(in, taps);
  return approximate(*many, in, taps);
}

Tensor NystromAttention::landmark_matrix(const AttentionInputs& in) const {
  const NoGrad constant;
  Tensor matrix;
  NystromOptions options = options_of(in.batch.all(), in);
  options.inverse = Inverse::identity;
  options.observe_matrix = [&](const Var& a) { matrix = a.value(); };
  nystrom_attention(inputs_of(in, {}), options);
  return matrix;
}

Tensor NystromAttention::landmark_matrix_gradient(const AttentionInputs& in,
                                                  const Tensor& dy) const {
  NystromInputs constants = inputs_of(in, {});
  auto& [weights, biases, int8] = constants.projections;
  for (Var* var : {&constants.hidden, &constants.queries, &constants.keys, &constants.values})
    *var = var->detach();
  for (std::vector<Var>* parameters : {&weights, &biases})
    for (Var& parameter : *parameters) parameter = parameter.detach();
  Var matrix;
  NystromOptions options = options_of(in.batch.all(), in);
  options.observe_matrix = [&](Var& a) { a = matrix = Var::leaf(a.value()); };
  Tape tape;
  const Var rows = nystrom_attention(constants, options);
  tape.backward(split_heads(rows, options.heads), dy);
  return matrix.grad();
}

TransformersNystrom::TransformersNystrom(const ModelConfig& config)
    : NystromAttention(config), length_(config.segment_means_seq_len) {
  options_.pinv_scale = PinvScale::whole_batch;
  options_.empty_rows = EmptyRows::uniform;
}

const SequenceSpans& TransformersNystrom::padded(const Ragged& batch) const {
  require_input(batch.length() == length_,
                "semantics transformers needs sequences padded to segment_means_seq_len {}, got "
                "length {}; pad them, or set "
                "model.attention.semantics=nystrom",
                length_, batch.length());
  require(batch.dense(), "semantics transformers keep padding as rows, and the batch is ragged");
  return batch.all();
}

Var TransformersNystrom::operator()(const AttentionInputs& in) const {
  return split_heads(approximate(padded(in.batch), in), options_.heads);
}

Var TransformersNystrom::with_convolution(const AttentionInputs& in, const Parameter& taps) const {
  return approximate(padded(in.batch), in, taps);
}

namespace {

bool as_transformers(const ModelConfig& config) {
  return config.attention.semantics == Semantics::transformers;
}

}  // namespace

std::unique_ptr<NystromAttention> make_nystrom(const ModelConfig& config) {
  if (!as_transformers(config)) return std::make_unique<NystromAttention>(config);
  if (config.exact_in_transformers()) return nullptr;
  return std::make_unique<TransformersNystrom>(config);
}

EmptyRows empty_rows_of(const ModelConfig& config) {
  return as_transformers(config) ? EmptyRows::uniform : EmptyRows::zero;
}

Padding padding_of(const ModelConfig& config, Padding padding) {
  if (config.attends_by_distance()) return Padding::left_out;
  return as_transformers(config) ? Padding::kept : padding;
}

}  // namespace nystrom
