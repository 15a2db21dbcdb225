#include "nn/transformers_nystrom.h"

#include "core/check.h"

namespace nystrom {
namespace {

bool as_transformers(const ModelConfig& config) {
  return config.attention.semantics == Semantics::transformers;
}

}  // namespace

TransformersNystrom::TransformersNystrom(const ModelConfig& config)
    : NystromAttention(config), length_(config.segment_means_seq_len) {
  options_.pinv_scale = PinvScale::whole_batch;
  options_.empty_rows = EmptyRows::uniform;
}

const SequenceSpans& TransformersNystrom::sequences(const AttentionInputs& in) const {
  require_input(in.batch.length() == length_,
                "semantics transformers needs sequences padded to segment_means_seq_len {}, got "
                "length {}; pad them, or set "
                "model.attention.semantics=nystrom",
                length_, in.batch.length());
  return in.batch.all();
}

Var TransformersNystrom::operator()(const AttentionInputs& in) const {
  return split_heads(approximate(sequences(in), in), options_.heads);
}

Var TransformersNystrom::with_convolution(const AttentionInputs& in,
                                          const Convolution& convolution) const {
  return approximate(sequences(in), in, convolution.weight());
}

std::unique_ptr<NystromAttention> make_nystrom(const ModelConfig& config) {
  if (!as_transformers(config)) return std::make_unique<NystromAttention>(config);
  return config.exact_in_transformers() ? nullptr : std::make_unique<TransformersNystrom>(config);
}

EmptyRows empty_rows_of(const ModelConfig& config) {
  return as_transformers(config) ? EmptyRows::uniform : EmptyRows::zero;
}

Padding padding_of(const ModelConfig& config, Padding padding) {
  if (config.attends_by_distance()) return Padding::left_out;
  return as_transformers(config) ? Padding::kept : padding;
}

}  // namespace nystrom
