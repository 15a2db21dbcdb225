// The report of the study of a model's attention.
#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "nn/layer_kinds.h"
#include "train/report/approximation_model.h"

namespace nystrom {
namespace {

/// Calls use(head, layer, number of the head) for all heads in all layers.
template <class Use>
void for_each_head(const ModelFindings& findings, const Use& use) {
  for (std::size_t l = 0; l < findings.layers.size(); ++l) {
    for (std::size_t h = 0; h < findings.layers[l].size(); ++h)
      use(findings.layers[l][h], static_cast<std::int64_t>(l), static_cast<std::int64_t>(h));
  }
}

/// The values f(head) of all heads in all layers.
template <class F>
std::vector<double> over_heads(const ModelFindings& findings, const F& f) {
  std::vector<double> values;
  for_each_head(findings, [&](const HeadFindings& head, auto, auto) { values.push_back(f(head)); });
  return values;
}

Summary out_errors(const ModelFindings& findings, std::size_t variant) {
  return summarise(
      over_heads(findings, [&](const HeadFindings& head) { return head.errors[variant].out; }));
}

StudyTable head_table(const ModelFindings& findings) {
  StudyTable table{"heads",
                   {"layer", "head", "entropy", "effective_rank", "out_error", "matrix_error"}};
  for_each_head(findings, [&](const HeadFindings& head, std::int64_t l, std::int64_t h) {
    table.rows.push_back(
        {l, h, head.entropy, head.effective_rank, head.errors[0].out, head.errors[0].matrix});
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
          {variant.group, variant.setting, l, h, head.errors[v].out, head.errors[v].matrix});
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
    const LossFindings& loss = findings.losses[v];
    std::vector<Cell> row = {variant.group, variant.setting, std::nan(""), std::nan(""),
                             std::nan(""),  loss.loss,       loss.change,  loss.standard_error};
    if (variant.has_errors && !findings.layers.empty()) {
      const std::vector<double> out =
          over_heads(findings, [&](const HeadFindings& head) { return head.errors[v].out; });
      row[2] = summarise(out).median;
      row[3] = *std::max_element(out.begin(), out.end());
      row[4] = summarise(over_heads(findings, [&](const HeadFindings& head) {
                 return head.errors[v].matrix;
               })).median;
    }
    table.rows.push_back(row);
  }
  return table;
}

// ---- Charts -------------------------------------------------------------------------------------

/// One line for each layer: the mean over its heads, in a band from the minimum to the maximum.
/// value(head, i) is drawn at places[i].
template <class F>
std::vector<ChartSeries> lines_of_layers(const ModelFindings& findings,
                                         const std::vector<double>& places, const F& value) {
  std::vector<ChartSeries> lines;
  for (std::size_t l = 0; l < findings.layers.size(); ++l) {
    ChartSeries line;
    line.name = fmt::format("layer {}", l);
    line.x = places;
    for (std::size_t i = 0; i < places.size(); ++i) {
      std::vector<double> heads;
      for (const HeadFindings& head : findings.layers[l]) heads.push_back(value(head, i));
      line.y.push_back(summarise(heads).mean);
      line.low.push_back(*std::min_element(heads.begin(), heads.end()));
      line.high.push_back(*std::max_element(heads.begin(), heads.end()));
    }
    lines.push_back(line);
  }
  return lines;
}

std::vector<double> counting(std::size_t count, double first) {
  std::vector<double> numbers;
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(first + static_cast<double>(i));
  return numbers;
}

/// A chart of errors against the numeric settings of one group.
Chart error_chart(const ModelFindings& findings, const std::string& group, const char* title,
                  const char* label, Axis x_axis) {
  std::vector<std::size_t> variants;
  std::vector<double> places;
  for (std::size_t v = 0; v < findings.variants.size(); ++v) {
    if (findings.variants[v].group != group) continue;
    variants.push_back(v);
    places.push_back(std::stod(findings.variants[v].setting));
  }
  return {title,
          label,
          "error of the output, relative",
          lines_of_layers(findings, places,
                          [&](const HeadFindings& head, std::size_t i) {
                            return head.errors[variants[i]].out;
                          }),
          x_axis,
          Axis::logarithmic,
          1e-6,
          "lines: mean over the heads of a layer; bands: from the best head to the worst"};
}

std::vector<StudyChart> charts_of(const ModelFindings& findings) {
  if (findings.layers.empty()) return {};
  const HeadFindings& first = findings.layers[0][0];
  Chart residuals{"Residual of the iterative inverse",
                  "steps",
                  "|AZA − A| / |A|",
                  {},
                  Axis::linear,
                  Axis::logarithmic,
                  1e-12,
                  "lines: mean over the heads of a layer; bands: from the best head to the worst"};
  residuals.series =
      lines_of_layers(findings, counting(first.residuals.size(), 0),
                      [](const HeadFindings& head, std::size_t i) { return head.residuals[i]; });
  Chart spectrum{"Singular values of the exact attention matrix",
                 "number",
                 "singular value / largest",
                 {},
                 Axis::linear,
                 Axis::logarithmic,
                 1e-8,
                 "lines: mean over the heads of a layer; bands: from the least to the largest"};
  spectrum.series =
      lines_of_layers(findings, counting(first.spectrum.size(), 1),
                      [](const HeadFindings& head, std::size_t i) { return head.spectrum[i]; });
  return {{"landmarks",
           error_chart(findings, "landmarks", "Nyström against exact attention, by landmarks",
                       "landmarks", Axis::logarithmic)},
          {"steps", error_chart(findings, "steps",
                                "Nyström against exact attention, by steps of the inverse", "steps",
                                Axis::linear)},
          {"residuals", residuals},
          {"spectrum", spectrum}};
}

// ---- Sentences ----------------------------------------------------------------------------------

std::size_t find(const ModelFindings& findings, const std::string& group,
                 const std::string& setting) {
  for (std::size_t v = 0; v < findings.variants.size(); ++v) {
    if (findings.variants[v].group == group && findings.variants[v].setting == setting) return v;
  }
  throw Error(fmt::format("no variant {} {}", group, setting));
}

std::string worst_head(const ModelFindings& findings) {
  std::int64_t layer = 0, head = 0;
  double error = findings.layers[0][0].errors[0].out;
  for_each_head(findings, [&](const HeadFindings& each, std::int64_t l, std::int64_t h) {
    if (each.errors[0].out > error) layer = l, head = h, error = each.errors[0].out;
  });
  return fmt::format("worst in layer {}, head {} ({:.1f} %)", layer, head, 100 * error);
}

std::vector<std::string> verdict_of(const ModelFindings& findings) {
  std::vector<std::string> lines;
  const auto percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
  if (findings.variants[0].has_errors && !findings.layers.empty()) {
    lines.push_back(fmt::format(
        "attention as the model has it differs from exact attention by {} in the median head, {}",
        percent(out_errors(findings, 0).median), worst_head(findings)));
  }
  const LossFindings& own = findings.losses[0];
  if (std::isfinite(own.change)) {
    const double change = -own.change;
    const bool clear = std::abs(change) > std::max(1e-3, 2 * own.standard_error);
    lines.push_back(fmt::format(
        "with exact attention instead, the masked loss would be {:.4f} {} than {:.4f} (± {:.4f}){}",
        std::abs(change), change > 0 ? "higher" : "lower", own.loss, own.standard_error,
        !clear       ? ": no clear difference"
        : change > 0 ? ": the model has learned to use its own attention"
                     : ": the approximation costs that much"));
  }
  if (findings.layers.empty()) return lines;
  const double exact = out_errors(findings, find(findings, "inverse", "exact")).median;
  const double identity = out_errors(findings, find(findings, "inverse", "identity")).median;
  const double six = out_errors(findings, find(findings, "steps", "6")).median;
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
      fmt::format("the median exact attention matrix has an effective rank of {:.0f} of {}", rank,
                  findings.length));
  return lines;
}

}  // namespace

Study study_of(const ModelFindings& findings) {
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
