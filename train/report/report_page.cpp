#include "train/report/report_page.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "nn/layer_kinds.h"
#include "train/config/config_io.h"
#include "train/report/report_html.h"
#include "train/report/report_parts.h"

namespace nystrom {
namespace {

constexpr std::size_t max_evaluations = 1000, long_table = 12;

std::string kind_of(const RunHistory& run) {
  if (!has_task(run.config))
    return run.config.pretraining.objective == PretrainingObjective::masked
               ? "masked language model"
               : "detector of replaced tokens";
  const auto kind = resolve_task(run.config.task).kind;
  return fmt::format("fine-tuning: {}", kind ? enum_name(*kind) : "task");
}

/// Peak and reserved bytes in words. Runs of older versions have not recorded the latter.
std::string memory_text(double peak, double reserved) {
  const std::string text = fmt::format("{:.2f} GB", peak / 1e9);
  return std::isfinite(reserved) ? text + fmt::format(", {:.2f} GB reserved", reserved / 1e9)
                                 : text;
}

std::string facts_of(const RunHistory& run) {
  const ModelConfig& model = run.config.model;
  std::vector<std::pair<std::string, std::string>> facts = {{"Trains", kind_of(run)},
                                                            {"State", state_of(run)}};
  if (const EvaluationRecord* best = run.best()) {
    facts.emplace_back("Best evaluation",
                       fmt::format("{} {} at step {}", run.metric_name(),
                                   short_number(best->metrics.at(run.metric_name())), best->step));
    if (run.baseline)
      facts.emplace_back("Baseline", fmt::format("{} {}, {}", run.metric_name(),
                                                 short_number(*run.baseline), run.baseline_name()));
  } else {
    facts.emplace_back("Best evaluation", "none yet");
  }
  facts.emplace_back("Model", fmt::format("{} layers of {}, {} attention", model.num_hidden_layers,
                                          model.hidden_size, describe_kinds(model)));
  if (run.parameters) facts.emplace_back("Parameters", fmt::format("{}", *run.parameters));
  std::vector<std::int64_t> lengths;
  for (const LengthStage& stage : length_stages(run.config.data)) lengths.push_back(stage.length);
  facts.emplace_back("Sequence length", fmt::format("{}", fmt::join(lengths, ", then ")));
  if (const double speed = speed_of(run); std::isfinite(speed))
    facts.emplace_back("Tokens a second", fmt::format("{:.0f} (median)", speed));
  if (const double memory = largest_of(run, "peak_memory_bytes"); std::isfinite(memory))
    facts.emplace_back("Peak memory",
                       memory_text(memory, largest_of(run, "reserved_memory_bytes")));
  std::string html = "<div class=\"facts\">\n";
  for (const auto& [name, value] : facts)
    html += fmt::format("<div><span>{}</span>{}</div>\n", html_text(name), html_text(value));
  return html + "</div>\n";
}

std::string evaluations_of(const RunHistory& run) {
  if (run.evaluations.empty()) return "<p class=\"soft\">No evaluation yet.</p>\n";
  std::vector<std::string> metrics = {run.metric_name()};  // the decisive one first
  for (const auto& evaluation : run.evaluations) {
    for (const auto& [name, value] : evaluation.metrics) {
      if (std::find(metrics.begin(), metrics.end(), name) == metrics.end()) metrics.push_back(name);
    }
  }
  std::vector<std::string> columns = {"step"};
  columns.insert(columns.end(), metrics.begin(), metrics.end());
  std::vector<std::vector<Cell>> rows;
  int best = -1;
  const std::size_t first =
      run.evaluations.size() > max_evaluations ? run.evaluations.size() - max_evaluations : 0;
  for (std::size_t i = first; i < run.evaluations.size(); ++i) {
    const EvaluationRecord& evaluation = run.evaluations[i];
    if (&evaluation == run.best()) best = static_cast<int>(rows.size());
    rows.push_back({evaluation.step});
    for (const std::string& metric : metrics) {
      const auto found = evaluation.metrics.find(metric);
      rows.back().emplace_back(found == evaluation.metrics.end() ? NAN : found->second);
    }
  }
  const std::string table = html_table(columns, rows, best);
  if (rows.size() <= long_table) return table;
  return html_folded(
      first > 0 ? fmt::format("the last {} of {} evaluations", rows.size(), run.evaluations.size())
                : fmt::format("{} evaluations", rows.size()),
      table);
}

/// The most probable words of one mask: “sea” 31 %, “ship” 4.2 %.
std::string words_of(const std::vector<MaskFill>& fills) {
  std::vector<std::string> words;
  for (const MaskFill& fill : fills)
    words.push_back(fmt::format("“{}” {:.2g} %", fill.token_str, 100 * fill.score));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string samples_of(const MaskSamples& samples, const RunHistory& run) {
  if (!samples.note.empty()) return "<p class=\"soft\">" + html_text(samples.note) + "</p>\n";
  std::string html;
  for (std::size_t t = 0; t < samples.texts.size(); ++t) {
    html += "<h3>" + html_text(samples.texts[t]) + "</h3>\n";
    std::vector<std::vector<Cell>> rows;
    int best = -1;
    for (const FilledMasks& filled : samples.steps) {
      if (run.best() && run.best()->step == filled.step) best = static_cast<int>(rows.size());
      std::vector<std::string> masks;
      for (const auto& fills : filled.texts.at(t)) masks.push_back(words_of(fills));
      rows.push_back({filled.step, fmt::format("{}", fmt::join(masks, " | "))});
    }
    html += html_table({"step", "most probable words"}, rows, best);
  }
  return html;
}

std::string settings_of(const RunHistory& run) {
  RunConfig defaults;
  if (has_task(run.config)) {
    defaults.task.kind = resolve_task(run.config.task).kind;  // adds the section task
    set_finetuning_defaults(defaults, run.config.model.hidden_size);
  }
  const auto options = option_values(run.config), before = option_values(defaults);
  std::vector<std::vector<Cell>> changed, all;
  for (const auto& [key, value] : options) {
    const std::string old = option_in(before, key);
    all.push_back({key, value});
    if (old != value) changed.push_back({key, value, old});
  }
  const std::string table = changed.empty() ? "<p>All settings have their defaults.</p>\n"
                                            : html_table({"option", "value", "default"}, changed);
  return table + html_folded(fmt::format("all {} settings", all.size()),
                             html_table({"option", "value"}, all));
}

std::string study_of(const StudyFindings& study) {
  std::string html = study.verdict.empty() ? "" : html_list(study.verdict);
  if (study.pictures.empty()) return html;
  html += "<div class=\"charts\">\n";
  for (const std::string& picture : study.pictures)
    html += html_image(picture, "picture of the approximation study");
  return html + "</div>\n";
}

std::string log_of(const RunHistory& run) {
  if (run.log_end.empty()) return "";
  std::string text;
  for (const std::string& line : run.log_end) text += html_text(line) + "\n";
  return html_folded(fmt::format("the last {} lines", run.log_end.size()),
                     "<pre>" + text + "</pre>\n");
}

}  // namespace

std::string run_page(const RunHistory& run, const MaskSamples& samples, const StudyFindings& study,
                     const TaskFindings& findings) {
  const std::string title = fmt::format("Run {}", run.name);
  std::string body = "<h1>" + html_text(title) + "</h1>\n" + facts_of(run) + html_notes({run});
  body += html_section("Validation", validation_curves(run) + evaluations_of(run));
  body += html_section("Predictions of the best checkpoint", html_findings(findings));
  body += html_section("Training", training_curves(run));
  body += html_section("Attention by layer", layer_curves(run));
  if (!samples.texts.empty())
    body += html_section("Masks as the model fills them", samples_of(samples, run));
  body += html_section("Quality of the approximation", study_of(study));
  body += html_section("Settings that differ from the defaults", settings_of(run));
  body += html_section("Log", log_of(run));
  return html_page(title, body);
}

}  // namespace nystrom
