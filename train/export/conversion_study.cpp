#include "train/export/conversion_study.h"

#include <algorithm>
#include <numeric>

#include "nn/attention_diagnostics.h"

namespace nystrom {
namespace {

constexpr std::int64_t study_batch = 16, studied_sequences = 8;

/// Adds the errors of one layer on one sequence, weighted by `share`.
void add_errors(const ModelConfig& parent, const AttentionInputs& in, const Tensor& exact,
                double share, LayerError& layer) {
  ModelConfig config = parent.without_window();  // of other layers
  config.attention.semantics = Semantics::nystrom;
  for (std::size_t i = 0; i < compared_landmarks.size(); ++i) {
    config.attention.num_landmarks = compared_landmarks[i];
    const std::vector<double> heads = relative_errors(NystromAttention(config)(in).value(), exact);
    layer.errors[i] += share * std::accumulate(heads.begin(), heads.end(), 0.0) /
                       static_cast<double>(heads.size());
  }
}

}  // namespace

std::optional<std::int64_t> LayerError::advised_landmarks() const {
  for (std::size_t i = 0; i < compared_landmarks.size(); ++i)
    if (errors[i] <= advised_error) return compared_landmarks[i];
  return std::nullopt;
}

ConversionStudy study_conversion(const Model& parent, const Model& converted,
                                 const MaskedSamples& samples, const ConversionProgress& progress) {
  const std::int64_t size = samples.packing->size();
  const std::vector<Batch> sequences = longest_sequences(samples, studied_sequences);
  const std::int64_t total = 2 * size + std::ssize(sequences);
  Communicator alone;
  const auto evaluate = [&](const Model& model, std::int64_t before) {
    return evaluate_masked_lm(model, samples, study_batch, alone,
                              [&](std::int64_t done) { progress(before + done, total); });
  };
  ConversionStudy study;
  study.parent = evaluate(parent, 0);
  study.converted = evaluate(converted, size);
  study.sequences = std::ssize(sequences);
  study.layers.resize(static_cast<std::size_t>(parent.config().num_hidden_layers));
  for (std::int64_t done = 0; const Batch& sequence : sequences) {
    study.sequence_length = std::max(study.sequence_length, sequence.tokens);
    std::size_t layer = 0;
    RunContext run;
    run.observe_attention = [&](const AttentionInputs& in, const Var& exact) {
      add_errors(parent.config(), in, exact.value(), 1 / static_cast<double>(sequences.size()),
                 study.layers[layer++]);
    };
    parent.masked_lm_logits(sequence.input, {0}, run);
    progress(2 * size + ++done, total);
  }
  return study;
}

}  // namespace nystrom
