#include "train/report/approximation_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/printable.h"
#include "core/check.h"
#include "core/singular_values.h"
#include "nn/attention_diagnostics.h"
#include "nn/layer_kinds.h"
#include "train/objectives/evaluation.h"

namespace nystrom {
namespace {

constexpr std::int64_t max_steps = 12, loss_factor = 8;

ModelConfig with_kind(ModelConfig config, AttentionKind kind) {
  config.attention.kind = kind;
  config.attention.layers.clear();
  config.attention.semantics = Semantics::nystrom;
  return config;
}

/// The Nyström attention that the variants change. It is the model's own attention if that is
/// Nyström, with fewer landmarks than tokens.
ModelConfig base_of(const ModelConfig& config, std::int64_t length) {
  ModelConfig base = with_kind(config, AttentionKind::nystrom);
  base.attention.num_landmarks =
      std::min(base.attention.num_landmarks, std::max<std::int64_t>(1, length / 2));
  return base;
}

/// Whether a layer has weights that Nyström attention lacks, or lacks some of its weights. Reformer
/// has no key projection, and linformer has two more projections.
bool has_own_weights(const ModelConfig& config) {
  return config.has_kind(AttentionKind::linformer) || config.has_kind(AttentionKind::reformer);
}

std::vector<AttentionVariant> variants_of(const ModelConfig& config, std::int64_t length) {
  const ModelConfig base = base_of(config, length);
  std::vector<AttentionVariant> list = {
      {"model", describe_kinds(config), config, true, !has_own_weights(config)}};
  const auto add = [&](const char* group, const std::string& setting, const auto& change) {
    list.push_back({group, setting, base});
    change(list.back().config.attention);
  };
  list.push_back({"kind", "softmax", with_kind(config, AttentionKind::softmax)});
  for (std::int64_t m = 8; m <= 256 && m < length; m *= 2)
    add("landmarks", std::to_string(m), [m](auto& a) { a.num_landmarks = m; });
  for (std::int64_t k = 0; k <= max_steps; ++k) {
    add("steps", std::to_string(k),
        [k](auto& a) { a.inverse = Inverse::iterative, a.inverse_iterations = k; });
  }
  for (const Inverse inverse : {Inverse::exact, Inverse::identity})
    add("inverse", enum_name(inverse), [=](auto& a) { a.inverse = inverse; });
  add("landmark_source", "keys", [](auto& a) { a.landmark_source = LandmarkSource::keys; });
  if (length % base.attention.num_landmarks == 0) {
    add("semantics", "transformers", [](auto& a) { a.semantics = Semantics::transformers; });
    list.back().config.segment_means_seq_len = length;
  }
  for (const AttentionKind kind :
       {AttentionKind::performer, AttentionKind::double_softmax, AttentionKind::linear})
    list.push_back({"kind", enum_name(kind), with_kind(config, kind)});
  if (config.attention.conv_kernel_size) {
    list.push_back({"convolution", "none", config, false, false});
    list.push_back(
        {"convolution", "none, softmax", with_kind(config, AttentionKind::softmax), false, false});
  }
  return list;
}

// ---- Layer by layer -----------------------------------------------------------------------------

/// Roy & Vetterli, EUSIPCO 2007. The result is 1 for rank one, and n for equal singular values.
double effective_rank(const std::vector<double>& sigma) {
  const double total = std::accumulate(sigma.begin(), sigma.end(), 0.0);
  double entropy = 0;
  for (const double value : sigma) {
    if (value > 0) entropy -= value / total * std::log(value / total);
  }
  return std::exp(entropy);
}

void add_to(std::vector<double>& sums, const std::vector<double>& values, double scale) {
  sums.resize(std::max(sums.size(), values.size()), 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) sums[i] += scale * values[i];
}

/// Adds the findings in the attention of layer `layer` on one sequence to its heads, weighted by
/// `share`.
void look_into(const AttentionInputs& in, const ModelFindings& findings, std::int64_t layer,
               double share, std::vector<HeadFindings>& heads) {
  heads.resize(static_cast<std::size_t>(findings.config.num_attention_heads));
  const SoftmaxAttention exact(with_kind(findings.config, AttentionKind::softmax));
  const Tensor out = exact(in).value(), matrix = attention_matrix(exact, in).contiguous();
  const std::int64_t n = matrix.dim(3);
  const std::vector<double> entropies = attention_entropies(matrix);
  const NystromAttention approximation(base_of(findings.config, n));
  const auto residuals = inverse_residuals(approximation.landmark_matrix(in), max_steps);
  for (std::size_t h = 0; h < heads.size(); ++h) {
    std::vector<double> sigma = singular_values(
                            matrix.data<double>() + static_cast<std::int64_t>(h) * n * n, n),
                        of_head;
    for (const auto& step : residuals) of_head.push_back(step[h]);
    heads[h].entropy += share * entropies[h];
    heads[h].effective_rank += share * effective_rank(sigma);
    add_to(heads[h].spectrum, sigma, share / sigma[0]);
    add_to(heads[h].residuals, of_head, share);
    heads[h].errors.resize(findings.variants.size());
  }
  for (std::size_t v = 0; v < findings.variants.size(); ++v) {
    if (!findings.variants[v].has_errors) {
      for (HeadFindings& head : heads) head.errors[v] = {NAN, NAN};
      continue;
    }
    ParameterStore none;
    const auto method =
        make_attention(Scope(none) / "study", findings.variants[v].config.of_layer(layer));
    const std::vector<double> of_out = relative_errors((*method)(in).value(), out);
    const std::vector<double> of_matrix = relative_errors(attention_matrix(*method, in), matrix);
    for (std::size_t h = 0; h < heads.size(); ++h) {
      heads[h].errors[v].out += share * of_out[h];
      heads[h].errors[v].matrix += share * of_matrix[h];
    }
  }
}

// ---- The loss -----------------------------------------------------------------------------------

/// The summed masked losses of each sequence.
std::vector<double> loss_sums(const ModelFolder& folder, const AttentionVariant& variant,
                              const std::vector<Batch>& sequences) {
  const auto model = load_model(folder.path, variant.config, DType::f32, StoreMode::inference);
  if (!variant.convolution) {
    for (const Parameter& parameter : model->parameters().parameters()) {
      if (parameter.name().ends_with(".self.conv.weight"))
        model->parameters().set(parameter.name(), Tensor::zeros(parameter.shape(), DType::f32));
    }
  }
  std::vector<double> sums;
  for (const Batch& sequence : sequences)
    sums.push_back(
        sequence.targets == 0
            ? 0
            : model->masked_lm(sequence.input, sequence.labels, 1, {}).loss.value().item());
  return sums;
}

/// With an empty `exact` there is no comparison.
LossFindings compare_losses(const std::vector<double>& sums, const std::vector<double>& exact,
                            const std::vector<Batch>& sequences) {
  double tokens = 0, total = 0, difference = 0, squares = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    tokens += static_cast<double>(sequences[i].targets);
    total += sums[i];
    if (!exact.empty()) difference += sums[i] - exact[i];
  }
  if (exact.empty()) return {total / tokens, NAN, NAN};
  const double change = difference / tokens;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double residual = sums[i] - exact[i] - change * static_cast<double>(sequences[i].targets);
    squares += residual * residual;
  }
  return {total / tokens, change, std::sqrt(squares) / tokens};
}

/// Whether a model with the attention kinds of `own` has all weights that those of `other` need.
bool same_weights(const ModelConfig& own, const ModelConfig& other) {
  const bool same =
      own.attention.kind == other.attention.kind && own.attention.layers == other.attention.layers;
  return same || (!has_own_weights(own) && !has_own_weights(other));
}

}  // namespace

ModelFindings measure_model(const ModelFolder& folder, const MaskedSamples& samples,
                            std::int64_t count, const StudyProgress& progress) {
  require_input(
      !folder.config.attention.window,
      "{}: has attention.window {}, and the study changes the attention of all layers; it "
      "takes models whose layers see all tokens",
      printable_path(folder.path), folder.config.attention.window.value_or(0));
  const std::vector<Batch> sequences = longest_sequences(samples, loss_factor * count);
  ModelFindings findings;
  findings.config = folder.config;
  findings.loss_sequences = static_cast<std::int64_t>(sequences.size());
  findings.sequences = std::min(count, findings.loss_sequences);
  const auto is_shorter = [](const Batch& a, const Batch& b) { return a.tokens < b.tokens; };
  findings.length = std::min_element(sequences.begin(), sequences.end(), is_shorter)->tokens;
  const std::int64_t longest =
      std::max_element(sequences.begin(), sequences.end(), is_shorter)->tokens;
  require_input(longest <= longest_studied_sequence,
                "sequences of {} tokens are too long for exact attention matrices; --set "
                "data.sequence_length={}",
                longest, longest_studied_sequence);
  require_input(findings.length >= 4, "the text has sequences of {} tokens only; give a longer one",
                findings.length);
  for (const Batch& sequence : sequences) findings.loss_tokens += sequence.targets;
  require_input(findings.loss_tokens > 0, "the text holds no token to predict");
  findings.variants = variants_of(folder.config, findings.length);
  // The semantics of transformers need sequences of one length.
  if (longest != findings.length)
    std::erase_if(findings.variants, [](const auto& v) { return v.group == "semantics"; });

  const auto variants = static_cast<std::int64_t>(findings.variants.size()),
             total = findings.sequences + variants;
  const auto model = load_model(folder.path, folder.config, DType::f64, StoreMode::inference);
  findings.layers.resize(static_cast<std::size_t>(folder.config.num_hidden_layers));
  for (std::int64_t s = 0; s < findings.sequences; ++s) {
    std::int64_t layer = 0;
    RunContext run;
    run.observe_attention = [&](const AttentionInputs& in, const Var&) {
      look_into(in, findings, layer, 1 / static_cast<double>(findings.sequences),
                findings.layers[static_cast<std::size_t>(layer)]);
      ++layer;
    };
    const auto at = static_cast<std::size_t>(s * findings.loss_sequences / findings.sequences);
    model->masked_lm_logits(sequences[at].input, {0}, run);
    if (progress) progress(s + 1, total);
  }
  // The second variant is exact attention.
  const auto fits = [&](const AttentionVariant& variant) {
    return same_weights(folder.config, variant.config);
  };
  const std::vector<double> exact = fits(findings.variants[1])
                                        ? loss_sums(folder, findings.variants[1], sequences)
                                        : std::vector<double>{};
  for (std::int64_t v = 0; v < variants; ++v) {
    const AttentionVariant& variant = findings.variants[static_cast<std::size_t>(v)];
    findings.losses.push_back(
        fits(variant) ? compare_losses(loss_sums(folder, variant, sequences), exact, sequences)
                      : LossFindings{NAN, NAN, NAN});
    if (progress) progress(findings.sequences + v + 1, total);
  }
  return findings;
}

}  // namespace nystrom
