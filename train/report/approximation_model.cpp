#include "train/report/approximation.h"

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

/// Findings about one head of one layer: means over the sequences.
struct HeadFindings {
  double entropy = 0;  // of the exact attention, in nats
  // The effective rank of its matrix: exp of the entropy of the singular values' shares.
  double effective_rank = 0;
  std::vector<double> spectrum;  // singular values divided by the largest
  // |AZA − A| / |A| after 0, 1, … steps. Empty if sequences are not longer than the number of
  // landmarks.
  std::vector<double> residuals;
  // By variant: |approximation − exact| / |exact| of the attention's output and of its matrix.
  std::vector<double> out_errors, matrix_errors;
};

/// An attention that replaces the exact one.
struct AttentionVariant {
  std::string group, setting;  // "landmarks", "32"
  ModelConfig config;
  bool convolution = true;
  // False if the attention needs its own parameters, or differs in the convolution only.
  bool has_errors = true;
  // The masked-LM loss of a model with it in every layer, the difference from exact attention, and
  // the standard error of this over sequences. All are NaN if the weights do not fit, and the
  // standard error if one sequence alone has tokens to predict.
  double loss = NAN, change = NAN, standard_error = NAN;
};

/// All findings about a model.
struct ModelFindings {
  ModelConfig config;
  std::int64_t sequences = 0, length = 0, loss_sequences = 0, loss_tokens = 0;
  double studied_length = 0;  // the mean of the sequences whose matrices are looked into
  std::vector<AttentionVariant> variants;         // the unchanged model first, then exact attention
  std::vector<std::vector<HeadFindings>> layers;  // [layer][head]
};

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
  for (std::int64_t k = 0; k <= max_steps; ++k)
    add("steps", std::to_string(k),
        [k](auto& a) { a.inverse = Inverse::iterative, a.inverse_iterations = k; });
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
  // Not every model can have each: rotary positions exclude most kinds, and one of the semantics.
  std::erase_if(list, [](const auto& variant) { return !problems(variant.config).empty(); });
  return list;
}

// ---- Layer by layer -----------------------------------------------------------------------------

/// Roy & Vetterli, EUSIPCO 2007. The result is 1 for rank one, and n for equal singular values.
double effective_rank(const std::vector<double>& sigma) {
  const double total = std::accumulate(sigma.begin(), sigma.end(), 0.0);
  double entropy = 0;
  for (const double value : sigma)
    if (value > 0) entropy -= value / total * std::log(value / total);
  return std::exp(entropy);
}

void add_to(std::vector<double>& sums, const std::vector<double>& values, double scale) {
  sums.resize(std::max(sums.size(), values.size()), 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) sums[i] += scale * values[i];
}

/// The inputs of `batch`, one sequence, out of those of the same with rows of padding behind it.
AttentionInputs without_padding(const AttentionInputs& in, const Ragged& batch) {
  const auto rows = [&](const Var& x) { return slice(x, -2, 0, batch.length()); };
  return {rows(in.hidden), rows(in.queries), rows(in.keys), rows(in.values),
          batch,           in.query,         in.key,        {},
          in.rope_theta};
}

/// Adds the findings in the attention of layer `layer` on one sequence to its heads, weighted by
/// `share`. A model of one length alone sees rows of padding, and none counts.
void look_into(const AttentionInputs& padded, const ModelFindings& findings, std::int64_t layer,
               double share, std::vector<HeadFindings>& heads) {
  const std::int64_t n = padded.batch.counts()[0];
  const Ragged tokens(1, n);
  const AttentionInputs in = n == padded.batch.length() ? padded : without_padding(padded, tokens);
  heads.resize(static_cast<std::size_t>(findings.config.num_attention_heads));
  const SoftmaxAttention exact(with_kind(findings.config, AttentionKind::softmax));
  const Tensor out = exact(in).value(), matrix = attention_matrix(exact, in).contiguous();
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
    heads[h].out_errors.resize(findings.variants.size());
    heads[h].matrix_errors.resize(findings.variants.size());
  }
  for (std::size_t v = 0; v < findings.variants.size(); ++v) {
    if (!findings.variants[v].has_errors) {
      for (HeadFindings& head : heads) head.out_errors[v] = head.matrix_errors[v] = NAN;
      continue;
    }
    ParameterStore none;
    const ModelConfig config = findings.variants[v].config.of_layer(layer);
    const auto method = make_attention(Scope(none) / "study", config);
    const AttentionInputs& seen = config.fixed_length() == padded.batch.length() ? padded : in;
    const Tensor got = (*method)(seen).value().slice(2, 0, n),
                 got_matrix = attention_matrix(*method, seen).slice(2, 0, n).slice(3, 0, n);
    const std::vector<double> of_out = relative_errors(got, out),
                              of_matrix = relative_errors(got_matrix, matrix);
    for (std::size_t h = 0; h < heads.size(); ++h) {
      heads[h].out_errors[v] += share * of_out[h];
      heads[h].matrix_errors[v] += share * of_matrix[h];
    }
  }
}

// ---- The loss -----------------------------------------------------------------------------------

/// The summed masked losses of each sequence.
std::vector<double> loss_sums(const ModelFolder& folder, const AttentionVariant& variant,
                              const std::vector<Batch>& sequences) {
  const auto model = load_model(folder.with(variant.config), DType::f32, StoreMode::inference);
  if (!variant.convolution)
    for (const Parameter& parameter : model->parameters().parameters())
      if (parameter.name().ends_with(".self.conv.weight"))
        model->parameters().set(parameter.name(), Tensor::zeros(parameter.shape(), DType::f32));
  std::vector<double> sums;
  for (const Batch& sequence : sequences)
    sums.push_back(
        sequence.targets == 0
            ? 0
            : model->masked_lm(sequence.input, sequence.labels, 1, {}).loss.value().item());
  return sums;
}

/// Sets the loss of a variant. With an empty `exact` there is no comparison.
void compare_losses(const std::vector<double>& sums, const std::vector<double>& exact,
                    const std::vector<Batch>& sequences, AttentionVariant& variant) {
  double tokens = 0, total = 0, difference = 0, squares = 0, samples = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    samples += sequences[i].targets > 0;
    tokens += static_cast<double>(sequences[i].targets);
    total += sums[i];
    if (!exact.empty()) difference += sums[i] - exact[i];
  }
  variant.loss = total / tokens;
  if (exact.empty()) return;
  variant.change = difference / tokens;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double residual =
        sums[i] - exact[i] - variant.change * static_cast<double>(sequences[i].targets);
    squares += residual * residual;
  }
  if (samples > 1) variant.standard_error = std::sqrt(squares * samples / (samples - 1)) / tokens;
}

/// Whether a model with the attention kinds of `own` has all weights that those of `other` need.
bool same_weights(const ModelConfig& own, const ModelConfig& other) {
  const bool same =
      own.attention.kind == other.attention.kind && own.attention.layers == other.attention.layers;
  return same || (!has_own_weights(own) && !has_own_weights(other));
}

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
  findings.loss_sequences = std::ssize(sequences);
  findings.sequences = std::min(count, findings.loss_sequences);
  const auto [shortest, longest_one] = std::ranges::minmax_element(sequences, {}, &Batch::tokens);
  findings.length = shortest->tokens;
  const std::int64_t longest = longest_one->tokens;
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

  const std::int64_t total = findings.sequences + std::ssize(findings.variants);
  const auto model = load_model(folder, DType::f64, StoreMode::inference);
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
    findings.studied_length +=
        static_cast<double>(sequences[at].tokens) / static_cast<double>(findings.sequences);
    model->masked_lm_logits(sequences[at].input, {0}, run);
    progress(s + 1, total);
  }
  // The second variant is exact attention.
  const auto fits = [&](const AttentionVariant& variant) {
    return same_weights(folder.config, variant.config);
  };
  const std::vector<double> exact = fits(findings.variants[1])
                                        ? loss_sums(folder, findings.variants[1], sequences)
                                        : std::vector<double>{};
  std::int64_t done = findings.sequences;
  for (AttentionVariant& variant : findings.variants) {
    if (fits(variant))
      compare_losses(loss_sums(folder, variant, sequences), exact, sequences, variant);
    progress(++done, total);
  }
  return findings;
}

// ---- Tables -------------------------------------------------------------------------------------

/// Calls use(head, layer, number of the head) for all heads in all layers.
template <class Use>
void for_each_head(const ModelFindings& findings, const Use& use) {
  for (std::size_t l = 0; l < findings.layers.size(); ++l)
    for (std::size_t h = 0; h < findings.layers[l].size(); ++h)
      use(findings.layers[l][h], static_cast<std::int64_t>(l), static_cast<std::int64_t>(h));
}

/// The values f(head) of all heads in all layers.
template <class F>
std::vector<double> over_heads(const ModelFindings& findings, const F& f) {
  std::vector<double> values;
  for_each_head(findings, [&](const HeadFindings& head, auto, auto) { values.push_back(f(head)); });
  return values;
}

/// The median over all heads of the error of a variant's output.
double median_error(const ModelFindings& findings, std::size_t variant) {
  return summarise(over_heads(findings,
                              [&](const HeadFindings& head) { return head.out_errors[variant]; }))
      .median;
}

StudyTable head_table(const ModelFindings& findings) {
  StudyTable table{"heads",
                   {"layer", "head", "entropy", "effective_rank", "out_error", "matrix_error"}};
  for_each_head(findings, [&](const HeadFindings& head, std::int64_t l, std::int64_t h) {
    table.rows.push_back(
        {l, h, head.entropy, head.effective_rank, head.out_errors[0], head.matrix_errors[0]});
  });
  return table;
}

/// The errors of every variant in every head.
StudyTable error_table(const ModelFindings& findings) {
  StudyTable table{"errors", {"group", "setting", "layer", "head", "out_error", "matrix_error"}};
  for (std::size_t v = 0; v < findings.variants.size(); ++v) {
    const AttentionVariant& variant = findings.variants[v];
    if (!variant.has_errors) continue;
    for_each_head(findings, [&](const HeadFindings& head, std::int64_t l, std::int64_t h) {
      table.rows.push_back(
          {variant.group, variant.setting, l, h, head.out_errors[v], head.matrix_errors[v]});
    });
  }
  return table;
}

/// One row for each element of a list in each head.
StudyTable list_table(const ModelFindings& findings, const char* name, const char* place,
                      const char* value, std::vector<double> HeadFindings::*list) {
  StudyTable table{name, {"layer", "head", place, value}};
  for_each_head(findings, [&](const HeadFindings& head, std::int64_t l, std::int64_t h) {
    for (std::int64_t i = 0; const double each : head.*list)
      table.rows.push_back({l, h, i++, each});
  });
  return table;
}

/// For every variant: the median and the worst error over layers and heads, and the loss.
StudyTable variant_table(const ModelFindings& findings) {
  StudyTable table{"variants",
                   {"group", "setting", "median_out_error", "worst_out_error",
                    "median_matrix_error", "loss", "change", "standard_error"}};
  for (std::size_t v = 0; v < findings.variants.size(); ++v) {
    const AttentionVariant& variant = findings.variants[v];
    std::vector<Cell> row = {variant.group,  variant.setting,       NAN, NAN, NAN, variant.loss,
                             variant.change, variant.standard_error};
    if (variant.has_errors && !findings.layers.empty()) {
      row[2] = median_error(findings, v);
      row[3] = std::ranges::max(
          over_heads(findings, [&](const HeadFindings& head) { return head.out_errors[v]; }));
      row[4] = summarise(over_heads(findings, [&](const HeadFindings& head) {
                 return head.matrix_errors[v];
               })).median;
    }
    table.rows.push_back(row);
  }
  return table;
}

// ---- Charts -------------------------------------------------------------------------------------

/// A chart with a line for each layer: the mean over its heads, in a band from the minimum to the
/// maximum. value(head, i) is drawn at places[i]. `bands` says what the ends of a band are.
template <class F>
Chart chart_of_layers(const ModelFindings& findings, const char* title, const char* x_label,
                      const char* y_label, Axis x_axis, double y_floor, const char* bands,
                      const std::vector<double>& places, const F& value) {
  Chart chart{title, x_label, y_label, {}, x_axis, Axis::logarithmic, y_floor};
  chart.note = fmt::format("lines: mean over the heads of a layer; bands: from the {}", bands);
  for (std::size_t l = 0; l < findings.layers.size(); ++l) {
    ChartSeries line{fmt::format("layer {}", l), places, {}};
    for (std::size_t i = 0; i < places.size(); ++i) {
      std::vector<double> heads;
      for (const HeadFindings& head : findings.layers[l]) heads.push_back(value(head, i));
      line.y.push_back(summarise(heads).mean);
      line.low.push_back(std::ranges::min(heads));
      line.high.push_back(std::ranges::max(heads));
    }
    chart.series.push_back(line);
  }
  return chart;
}

std::vector<double> counting(std::size_t count, double first) {
  std::vector<double> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

std::vector<std::pair<std::string, Chart>> charts_of(const ModelFindings& findings) {
  if (findings.layers.empty()) return {};
  const HeadFindings& first = findings.layers[0][0];
  const char* const by_error = "best head to the worst";
  std::vector<std::pair<std::string, Chart>> charts;
  for (const auto& [group, title, x_axis] :
       {std::tuple("landmarks", "Nyström against exact attention, by landmarks", Axis::logarithmic),
        std::tuple("steps", "Nyström against exact attention, by steps of the inverse",
                   Axis::linear)}) {
    std::vector<std::size_t> variants;
    std::vector<double> places;
    for (std::size_t v = 0; v < findings.variants.size(); ++v) {
      if (findings.variants[v].group != group) continue;
      variants.push_back(v);
      places.push_back(static_cast<double>(std::stoll(findings.variants[v].setting)));
    }
    charts.push_back(
        {group,
         chart_of_layers(findings, title, group, "error of the output, relative", x_axis, 1e-6,
                         by_error, places, [&](const HeadFindings& head, std::size_t i) {
                           return head.out_errors[variants[i]];
                         })});
  }
  charts.push_back(
      {"residuals",
       chart_of_layers(findings, "Residual of the iterative inverse", "steps", "|AZA − A| / |A|",
                       Axis::linear, 1e-12, by_error, counting(first.residuals.size(), 0),
                       [](const HeadFindings& head, std::size_t i) { return head.residuals[i]; })});
  charts.push_back(
      {"spectrum",
       chart_of_layers(findings, "Singular values of the exact attention matrix", "number",
                       "singular value / largest", Axis::linear, 1e-8, "least to the largest",
                       counting(first.spectrum.size(), 1),
                       [](const HeadFindings& head, std::size_t i) { return head.spectrum[i]; })});
  return charts;
}

// ---- Sentences ----------------------------------------------------------------------------------

double median_error(const ModelFindings& findings, const std::string& group,
                    const std::string& setting) {
  const auto found = std::ranges::find_if(findings.variants, [&](const AttentionVariant& variant) {
    return variant.group == group && variant.setting == setting;
  });
  require(found != findings.variants.end(), "no variant {} {}", group, setting);
  return median_error(findings, static_cast<std::size_t>(found - findings.variants.begin()));
}

std::string worst_head(const ModelFindings& findings) {
  std::int64_t layer = 0, head = 0;
  double error = findings.layers[0][0].out_errors[0];
  for_each_head(findings, [&](const HeadFindings& each, std::int64_t l, std::int64_t h) {
    if (each.out_errors[0] > error) layer = l, head = h, error = each.out_errors[0];
  });
  return fmt::format("worst in layer {}, head {} ({:.1f} %)", layer, head, 100 * error);
}

std::vector<std::string> verdict_of(const ModelFindings& findings) {
  std::vector<std::string> lines;
  const auto percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
  if (findings.variants[0].has_errors && !findings.layers.empty())
    lines.push_back(fmt::format(
        "attention as the model has it differs from exact attention by {} in the median head, {}",
        percent(median_error(findings, 0)), worst_head(findings)));
  const AttentionVariant& own = findings.variants[0];
  if (std::isfinite(own.change)) {
    const double change = -own.change;
    const bool clear = std::abs(change) > std::max(1e-3, 2 * own.standard_error);
    const std::string verdict =
        std::isnan(own.standard_error)
            ? "; the standard error of one sequence is unknown: give more text"
            : fmt::format(" (± {:.4f}){}", own.standard_error,
                          !clear       ? ": no clear difference"
                          : change > 0 ? ": the model has learned to use its own attention"
                                       : ": the approximation costs that much");
    lines.push_back(fmt::format(
        "with exact attention instead, the masked loss would be {:.4f} {} than {:.4f}{}",
        std::abs(change), change > 0 ? "higher" : "lower", own.loss, verdict));
  }
  if (findings.layers.empty()) return lines;
  const double exact = median_error(findings, "inverse", "exact");
  const double identity = median_error(findings, "inverse", "identity");
  const double six = median_error(findings, "steps", "6");
  lines.push_back(
      fmt::format("by inverse, the median head's error is {} with 6 steps, {} with the exact "
                  "inverse and {} with none",
                  percent(six), percent(exact), percent(identity)));
  if (identity < 0.9 * std::min(six, exact))
    lines.push_back(
        "the inverse does not help this model: leaving it out is nearer to exact attention");
  const double rank = summarise(over_heads(findings, [](const HeadFindings& head) {
                        return head.effective_rank;
                      })).median;
  lines.push_back(
      fmt::format("the median exact attention matrix has an effective rank of {:.0f} of {:.0f}",
                  rank, findings.studied_length));
  return lines;
}

}  // namespace

Study study_model(const ModelFolder& folder, const MaskedSamples& samples, std::int64_t sequences,
                  const StudyProgress& progress) {
  const ModelFindings findings = measure_model(folder, samples, sequences, progress);
  Study study;
  study.name = "model";
  study.settings = {{"kind", describe_kinds(findings.config)},
                    {"num_landmarks", findings.config.attention.num_landmarks},
                    {"inverse", enum_name(findings.config.attention.inverse)},
                    {"inverse_iterations", findings.config.attention.inverse_iterations},
                    {"sequences", findings.sequences},
                    {"length", findings.length},
                    {"loss_sequences", findings.loss_sequences},
                    {"loss_tokens", findings.loss_tokens}};
  study.tables = {
      head_table(findings), variant_table(findings), error_table(findings),
      list_table(findings, "residuals", "steps", "residual", &HeadFindings::residuals),
      list_table(findings, "spectrum", "number", "singular_value", &HeadFindings::spectrum)};
  study.charts = charts_of(findings);
  study.text =
      fmt::format("{}\n{}\n", aligned_text(study.tables[0]), aligned_text(study.tables[1]));
  study.verdict = verdict_of(findings);
  return study;
}

}  // namespace nystrom
