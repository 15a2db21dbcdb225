#include "train/report/run_history.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "train/config/config_io.h"
#include "train/loop/metrics.h"
#include "train/objectives/sweep.h"
#include "train/report/report_page.h"
#include "train/state/checkpoint.h"
#include "train/state/run_folder.h"
#include "train/state/run_state.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_metrics = 1000, max_warnings = 50, log_lines = 30;
constexpr std::string_view baseline = "validation_baseline";

/// The number after `word` in `line`.
std::optional<std::int64_t> number_behind(std::string_view line, std::string_view word) {
  const std::size_t at = line.find(word);
  if (at == line.npos) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] =
      std::from_chars(line.data() + at + word.size(), line.data() + line.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

/// Adds one line of metrics.jsonl, completely or not at all; only names beyond max_metrics get no
/// curve. Throws an InputError for a malformed line.
void add_record(RunHistory& run, const std::string& line, const std::string& source) {
  const nlohmann::json json = parse_json(line, source);
  require_input(json.is_object() && json.contains("step"), "{}: has no step", source);
  const std::int64_t step = json_count(json["step"], source + ": step");
  require_input(step >= run.steps, "{}: step {} follows step {}", source, step, run.steps);
  EvaluationRecord evaluation{step, {}};
  for (const auto& [name, value] : json.items())
    require_input(value.is_number() || value.is_null(), "{}: {} is no number", source,
                  printable(name, 60));
  for (const auto& [name, value] : json.items()) {
    if (name == "step") continue;
    const double number = number_or_nan(value);
    if (name == baseline) {
      if (std::isfinite(number)) run.baseline = number;
      continue;
    }
    if (name.starts_with(validation_prefix))
      evaluation.metrics[name.substr(validation_prefix.size())] = number;
    if (run.curves.size() >= max_metrics && !run.curves.contains(name)) {
      if (run.notes.empty())
        run.notes.push_back(fmt::format(
            "metrics.jsonl has more than {} metrics; the others have no chart", max_metrics));
      continue;
    }
    ChartSeries& curve = run.curves[name];
    curve.x.push_back(static_cast<double>(step));
    curve.y.push_back(number);
  }
  if (!evaluation.metrics.empty()) run.evaluations.push_back(std::move(evaluation));
  run.steps = step;
}

void read_metrics(RunHistory& run) {
  std::ifstream file = open_records(run.path / "metrics.jsonl");
  if (!file.is_open())
    return run.notes.push_back("there is no metrics.jsonl yet: no step was recorded");
  std::size_t number = 0, damaged = 0;
  std::string first_problem;
  for (std::string line; std::getline(file, line);) {
    ++number;
    try {
      add_record(run, line, fmt::format("metrics.jsonl:{}", number));
    } catch (const InputError& error) {
      if (file.eof()) continue;  // the line is still being written
      if (damaged++ == 0) first_problem = error.what();
    }
  }
  if (number == 0) run.notes.push_back("metrics.jsonl is empty: no step was recorded");
  if (damaged > 0)
    run.notes.push_back(fmt::format("{} of {} lines of metrics.jsonl were left out; {}", damaged,
                                    number, first_problem));
}

/// The text of a message, in a line "TIME MARKTEXT".
std::optional<std::string> text_behind(std::string_view mark, const std::string& line) {
  const std::size_t space = line.find(' ');
  if (space == line.npos || line.compare(space + 1, mark.size(), mark) != 0) return std::nullopt;
  return line.substr(space + 1 + mark.size());
}

void read_log(RunHistory& run) {
  std::ifstream file = open_records(run.path / "log.txt");
  std::deque<std::string> end;
  std::map<std::string, std::size_t> places;  // of different warnings
  std::int64_t left_out = 0;
  bool done = false;
  const auto warn = [&](const std::string& text) {
    // Numbers in warnings about a step do not count.
    const std::string key = text.starts_with("step ") ? without_numbers(text) : text;
    if (const auto known = places.find(key); known != places.end()) {
      run.warnings[known->second].text = text;
      ++run.warnings[known->second].count;
    } else if (places.size() < max_warnings) {
      places[key] = run.warnings.size();
      run.warnings.push_back({text});
    } else {
      ++left_out;
    }
  };
  for (std::string line; std::getline(file, line);) {
    end.push_back(line);
    if (end.size() > log_lines) end.pop_front();
    if (const auto warning = text_behind("warning: ", line)) warn(*warning);
    // A start that is refused does not change a finished run.
    if (const auto error = text_behind("error: ", line); error && !done) run.error = *error;
    done |= line.find(" done: ") != line.npos;
    if (line.find(" training ") != line.npos && line.find(" parameters on ") != line.npos) {
      run.stopped_early = false;  // the run was resumed
      run.error.clear();
      done = false;
      run.parameters = number_behind(line, " training ");
      if (!run.config.training.steps) run.total_steps = number_behind(line, ", to step ");
    }
    if (line.find(" stopped early: ") != line.npos) run.stopped_early = true;
  }
  run.log_end.assign(end.begin(), end.end());
  if (left_out > 0) run.warnings.push_back({fmt::format("{} more warnings in log.txt", left_out)});
}

}  // namespace

std::string without_numbers(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit || result.empty() || result.back() != '#') result += digit ? '#' : c;
  }
  return result;
}

std::string RunHistory::metric_name() const {
  if (!has_task(config)) return "loss";
  const auto metric = resolve_task(config.task).metric;
  return metric ? enum_name(*metric) : "loss";
}

std::string RunHistory::baseline_name() const {
  return has_task(config)         ? "always the same answer"
         : reads_features(config) ? "always the mean row"
                                  : "by token frequency";
}

const EvaluationRecord* RunHistory::best() const {
  const EvaluationRecord* best = nullptr;
  const std::string metric = metric_name();
  for (const EvaluationRecord& evaluation : evaluations) {
    const auto found = evaluation.metrics.find(metric);
    if (found == evaluation.metrics.end() || !std::isfinite(found->second)) continue;
    if (!best || is_worse(metric, best->metrics.at(metric), found->second)) best = &evaluation;
  }
  return best;
}

RunHistory read_run_history(const fs::path& folder) {
  const std::string name = printable_path(folder);
  require_input(fs::exists(folder),
                "{}: no such folder; expected the run_dir of nystrom pretrain or finetune", name);
  require_input(fs::is_directory(folder),
                "{}: is no folder; expected the run_dir of nystrom pretrain or finetune", name);
  require_input(
      fs::exists(folder / "config.yaml"),
      "{}: holds no run (no config.yaml); expected the run_dir of nystrom pretrain or finetune",
      name);
  require_input(!fs::exists(folder / checkpoint_manifest),
                "{}: is a checkpoint; expected the run_dir of nystrom pretrain or finetune", name);
  RunHistory run;
  run.path = folder;
  run.name = name;
  run.config = read_resolved_config((folder / "config.yaml").string());
  for (const std::int64_t step : checkpoint_steps(folder / "checkpoints")) {
    try {
      const RunState state =
          RunState::read(checkpoint_path(folder / "checkpoints", step) / "state.json");
      run.data = state.data;
      run.validation = state.validation;
      run.tokenizer = state.tokenizer;
      break;
    } catch (const InputError&) {
      continue;  // a damaged checkpoint
    }
  }
  run.total_steps = run.config.training.steps;
  read_metrics(run);
  read_log(run);
  if (!run.error.empty()) run.notes.push_back("ended in an error: " + run.error);
  return run;
}

StudyFindings read_study(const fs::path& run_dir) {
  StudyFindings findings;
  const fs::path folder = run_dir / "approximation";
  if (!fs::is_directory(folder)) return findings;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    if (file.extension() == ".svg") findings.pictures.push_back(read_text_file(file));
    if (file.extension() != ".json") continue;
    const nlohmann::json study = read_json_file(file);
    try {
      for (const auto& sentence : study.at("verdict"))
        findings.verdict.push_back(sentence.get<std::string>());
    } catch (const nlohmann::json::exception&) {
      throw InputError(
          fmt::format("{}: is no study of nystrom approximation", printable_path(file)));
    }
  }
  return findings;
}

std::string sweep_page(const fs::path& folder) {
  const fs::path file = folder / "summary.json";
  const nlohmann::json summary = read_json_file(file);
  std::vector<RunHistory> runs;
  SweepResult sweep;
  try {
    sweep.metric = summary.at("metric").get<std::string>();
    for (const auto& each : summary.at("points")) {
      SweepPoint point{each.at("options").get<std::vector<std::string>>(), {}};
      for (const auto& run : each.at("runs")) {
        const fs::path within =
            place_in_sweep(folder, !point.overrides.empty(), run.at("run_dir").get<std::string>());
        runs.push_back(read_run_history(folder / within));
        runs.back().name = within.string();
        point.runs.push_back({run.at("seed"), within.string(), run.at("steps"), run.at("best_step"),
                              run.at("metric"), number_or_nan(run.at("value"))});
        if (const auto test = run.find("test"); test != run.end())
          for (const auto& [name, value] : test->items())
            point.runs.back().test.emplace_back(name, number_or_nan(value));
      }
      if (!point.runs.empty()) sweep.points.push_back(std::move(point));
    }
  } catch (const nlohmann::json::exception&) {
    throw InputError(fmt::format("{}: is no summary of a sweep", printable_path(file)));
  }
  require_input(!runs.empty(), "{}: names no runs", printable_path(file));
  return comparison_page(runs, sweep);
}

}  // namespace nystrom
