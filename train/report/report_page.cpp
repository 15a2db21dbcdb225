#include "train/report/report_page.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/check.h"
#include "nn/layer_kinds.h"
#include "train/config/config_io.h"
#include "train/objectives/sweep.h"
#include "train/report/report_html.h"
#include "train/state/checkpoint.h"
#include "train/state/model_folder.h"
#include "train/state/run_folder.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_evaluations = 1000, long_table = 12;

std::vector<double> finite_values(const RunHistory& run, const char* metric) {
  std::vector<double> values;
  if (const auto found = run.curves.find(metric); found != run.curves.end())
    std::ranges::copy_if(found->second.y, std::back_inserter(values),
                         [](double value) { return std::isfinite(value); });
  return values;
}

/// A line of the box, and the runs that have it.
struct Note {
  std::string text;
  std::int64_t count = 0;
  std::vector<std::string> runs{};
};

std::string text_of(const Note& note, std::size_t runs) {
  std::string text;
  if (runs > 1 && note.runs.size() < runs) text = fmt::format("{}: ", fmt::join(note.runs, ", "));
  text += note.text;
  if (note.count > static_cast<std::int64_t>(note.runs.size()))
    text += fmt::format(" ({} times)", note.count);
  return text;
}

/// `content` under a heading; empty without content.
std::string html_section(const char* title, const std::string& content) {
  return content.empty() ? "" : fmt::format("<h2>{}</h2>\n{}", html_text(title), content);
}

/// The state of a run: "step 3 of 9, stopped early".
std::string state_of(const RunHistory& run) {
  const std::string steps = run.total_steps
                                ? fmt::format("step {} of {}", run.steps, *run.total_steps)
                                : fmt::format("step {}", run.steps);
  if (!run.error.empty()) return steps + ", ended in an error";
  if (run.stopped_early) return steps + ", stopped early";
  if (run.total_steps && run.steps >= *run.total_steps) return steps + ", finished";
  return steps + ", still going or stopped";
}

/// The median of tokens per second, by single steps where means are not recorded; NaN without both.
double speed_of(const RunHistory& run) {
  for (const char* metric : {"mean_tokens_per_second", "tokens_per_second"})
    if (const auto values = finite_values(run, metric); !values.empty())
      return summarise(values).median;
  return NAN;
}

/// The largest value of a metric; NaN without values.
double largest_of(const RunHistory& run, const char* metric) {
  const std::vector<double> values = finite_values(run, metric);
  return values.empty() ? NAN : std::ranges::max(values);
}

/// One box with the notes and warnings of all runs; empty without any. Equal ones stand there once,
/// with their count. With several runs each begins with the name of its run, unless all have it.
std::string html_notes(const std::vector<RunHistory>& runs) {
  std::vector<Note> notes;
  const auto add = [&](const std::string& run, const RunWarning& warning) {
    auto place = std::ranges::find(notes, warning.text, &Note::text);
    if (place == notes.end()) place = notes.insert(place, {warning.text});
    place->count += warning.count;
    if (place->runs.empty() || place->runs.back() != run) place->runs.push_back(run);
  };
  for (const RunHistory& run : runs) {
    for (const std::string& note : run.notes) add(run.name, {note});
    for (const RunWarning& warning : run.warnings) add(run.name, warning);
  }
  if (notes.empty()) return "";
  std::vector<std::string> lines;
  for (const Note& note : notes) lines.push_back(text_of(note, runs.size()));
  return "<div class=\"notes\"><b>Warnings</b>\n" + html_list(lines) + "</div>\n";
}

/// Paths of options and their values (option_values).
using Options = std::vector<std::pair<std::string, std::string>>;

/// The value of an option in a list of options; "–" without it.
std::string option_in(const Options& options, const std::string& key) {
  const auto found = std::ranges::find(options, key, &Options::value_type::first);
  return found == options.end() ? "–" : found->second;
}

// ---- Filled masks of checkpoints ----------------------------------------------------------------

/// Limit for the weights of checkpoints other than the best one. The report then takes a few more
/// seconds at most.
constexpr std::uintmax_t small_model_bytes = std::uintmax_t{64} << 20;

/// The best checkpoint of a run and, for a small model, the other complete ones. They are in order
/// of steps.
std::vector<fs::path> checkpoints_to_ask(const RunHistory& run, Log& log) {
  const fs::path best = find_model(run.path, log), folder = run.path / "checkpoints";
  std::vector<fs::path> paths;
  for (const std::int64_t step : checkpoint_steps(folder)) {
    const fs::path path = checkpoint_path(folder, step);
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(path / "model.safetensors", error);
    const bool small = !error && bytes <= small_model_bytes;
    if (path == best || (small && checkpoint_problem(path).empty()))
      paths.insert(paths.begin(), path);
  }
  return paths;
}

FilledMasks ask(const fs::path& checkpoint, const std::vector<std::string>& texts) {
  Log quiet(true);
  const ModelFolder folder = open_model(checkpoint, {}, quiet);
  const auto tokenizer = open_masked_lm_tokenizer(folder);
  const auto model = load_model(folder, DType::f32, StoreMode::inference);
  FilledMasks filled;
  const std::string name = checkpoint.filename().string();
  filled.step = std::stoll(name.substr(name.find('-') + 1));
  for (const std::string& text : texts)
    filled.texts.push_back(sample_fills(*model, *tokenizer, text));
  return filled;
}

// ---- One run ------------------------------------------------------------------------------------

std::string kind_of(const RunHistory& run) {
  if (reads_features(run.config)) return "pretraining on features";
  if (!has_task(run.config))
    return run.config.pretraining.objective == PretrainingObjective::masked
               ? "masked language model"
               : "detector of replaced tokens";
  const auto kind = resolve_task(run.config.task).kind;
  return fmt::format("fine-tuning: {}", kind ? enum_name(*kind) : "task");
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
  for (const auto& [step, length] :
       steps_of(run.config.data.length_schedule, run.config.data.sequence_length))
    lengths.push_back(length);
  facts.emplace_back("Sequence length", fmt::format("{}", fmt::join(lengths, ", then ")));
  if (const double speed = speed_of(run); std::isfinite(speed))
    facts.emplace_back("Tokens a second", fmt::format("{:.0f} (median)", speed));
  if (const double memory = largest_of(run, "peak_memory_bytes"); std::isfinite(memory))
    facts.emplace_back("Peak memory", fmt::format("{:.2f} GB, {:.2f} GB reserved", memory / 1e9,
                                                  largest_of(run, "reserved_memory_bytes") / 1e9));
  std::string html = "<div class=\"facts\">\n";
  for (const auto& [name, value] : facts)
    html += fmt::format("<div><span>{}</span>{}</div>\n", html_text(name), html_text(value));
  return html + "</div>\n";
}

std::string evaluations_of(const RunHistory& run) {
  if (run.evaluations.empty()) return "<p class=\"soft\">No evaluation yet.</p>\n";
  std::vector<std::string> metrics = {run.metric_name()};  // the decisive one first
  for (const auto& evaluation : run.evaluations)
    for (const auto& [name, value] : evaluation.metrics)
      if (std::find(metrics.begin(), metrics.end(), name) == metrics.end()) metrics.push_back(name);
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
  for (const MaskFill& fill : fills) {
    const double percent = 100 * fill.score;
    words.push_back(percent < 10 ? fmt::format("“{}” {:.2g} %", fill.token_str, percent)
                                 : fmt::format("“{}” {:.0f} %", fill.token_str, percent));
  }
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

// ---- Several runs -------------------------------------------------------------------------------

/// Whether scores of two runs mean the same. The data of tasks are known where they are encoded
/// alike; elsewhere the seed tells what it holds out.
bool are_comparable(const RunHistory& a, const RunHistory& b) {
  const bool alike =
      a.tokenizer == b.tokenizer && a.config.data.sequence_length == b.config.data.sequence_length;
  const bool drawn_alike = !a.config.task.validation_fraction || a.config.seed == b.config.seed;
  return a.metric_name() == b.metric_name() &&
         changed_options(scored_by(a.config), scored_by(b.config)).empty() &&
         (a.validation == b.validation || (has_task(a.config) && !alike && drawn_alike));
}

/// A table of runs with their states and final metrics.
std::string reached(const std::vector<RunHistory>& runs) {
  std::set<std::string> metrics;
  for (const RunHistory& run : runs) {
    if (!run.best()) continue;
    for (const auto& [name, value] : run.best()->metrics) metrics.insert(name);
  }
  std::vector<std::string> columns = {"run", "state", "best at step"};
  columns.insert(columns.end(), metrics.begin(), metrics.end());
  columns.insert(columns.end(), {"tokens/s (median)", "peak memory, GB"});
  std::vector<std::vector<Cell>> rows;
  int best = -1;
  double best_value = 0;
  bool comparable = true;
  for (const RunHistory& run : runs) {
    const EvaluationRecord* top = run.best();
    rows.push_back({run.name, state_of(run), top ? Cell(top->step) : Cell(NAN)});
    for (const std::string& metric : metrics)
      rows.back().emplace_back(top && top->metrics.contains(metric) ? top->metrics.at(metric)
                                                                    : NAN);
    rows.back().emplace_back(speed_of(run));
    rows.back().emplace_back(largest_of(run, "peak_memory_bytes") / 1e9);
    comparable = comparable && are_comparable(run, runs[0]);
    if (!top) continue;
    const double value = top->metrics.at(run.metric_name());
    if (best < 0 || is_worse(run.metric_name(), best_value, value)) {
      best = static_cast<int>(rows.size()) - 1;
      best_value = value;
    }
  }
  return html_table(columns, rows, comparable ? best : -1);
}

std::string differences(const std::vector<RunHistory>& runs) {
  std::vector<Options> options;
  std::vector<std::string> keys, columns = {"option"};
  for (const RunHistory& run : runs) {
    options.push_back(option_values(run.config));
    columns.push_back(run.name);
    for (const auto& [key, value] : options.back())
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  std::vector<std::vector<Cell>> rows;
  for (const std::string& key : keys) {
    if (key == "run_dir") continue;
    std::vector<Cell> row = {key};
    bool differs = false;
    for (const auto& of_run : options) {
      row.emplace_back(option_in(of_run, key));
      differs = differs || row.back() != row[1];
    }
    if (differs) rows.push_back(row);
  }
  for (const auto& part : {std::pair("training", &RunHistory::data),
                           std::pair("validation", &RunHistory::validation)}) {
    const auto hash = part.second;
    std::vector<Cell> row = {fmt::format("content of the {} data", part.first)};
    for (const RunHistory& run : runs) row.emplace_back((run.*hash).substr(0, 8));
    if (std::ranges::any_of(runs, [&](const auto& run) { return run.*hash != runs[0].*hash; }))
      rows.push_back(row);
  }
  return rows.empty() ? "<p>The runs have the same settings.</p>\n" : html_table(columns, rows);
}

}  // namespace

MaskSamples sample_masks(const RunHistory& run, const std::vector<std::string>& texts, Log& log) {
  MaskSamples samples;
  samples.texts = texts;
  std::vector<fs::path> checkpoints;
  try {
    checkpoints = checkpoints_to_ask(run, log);
  } catch (const InputError& error) {
    samples.note = error.what();
  }
  for (const fs::path& checkpoint : checkpoints) samples.steps.push_back(ask(checkpoint, texts));
  return samples;
}

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

std::string comparison_page(const std::vector<RunHistory>& runs, const SweepResult& sweep) {
  const std::string title = fmt::format("{} runs compared", runs.size());
  std::string body = "<h1>" + html_text(title) + "</h1>\n" + html_notes(runs);
  body += html_section("Sweep", html_sweep(sweep));
  body += html_section("Best evaluations", reached(runs));
  body += html_section("Curves", compared_curves(runs));
  body += html_section("Settings that differ", differences(runs));
  return html_page(title, body);
}

}  // namespace nystrom
