#include "train/report/run_record.h"

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

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_metrics = 200, max_warnings = 20, log_lines = 30;
constexpr std::string_view validation = "validation_";

/// The number that stands in `line` behind `word`.
std::optional<std::int64_t> number_behind(std::string_view line, std::string_view word) {
  const std::size_t at = line.find(word);
  if (at == line.npos) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] =
      std::from_chars(line.data() + at + word.size(), line.data() + line.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

/// Adds one line of metrics.jsonl, whole or not at all. InputError for a line that is none.
void add_record(RunRecord& run, const std::string& line, const std::string& source) {
  const nlohmann::json json = parse_json(line, source);
  require_input(json.is_object() && json.contains("step") && json["step"].is_number_unsigned(),
                "{}: has no step", source);
  const auto step = json["step"].get<std::int64_t>();
  require_input(step >= run.steps, "{}: step {} follows step {}", source, step, run.steps);
  EvaluationRecord evaluation{step, {}};
  for (const auto& [name, value] : json.items()) {
    require_input(value.is_number() || value.is_null(), "{}: {} is no number", source,
                  printable(name, 60));
    require_input(run.curves.contains(name) || run.curves.size() < max_metrics,
                  "{}: more than {} metrics", source, max_metrics);
  }
  for (const auto& [name, value] : json.items()) {
    if (name == "step") continue;
    const double number = number_or_nan(value);
    MetricCurve& curve = run.curves[name];
    curve.steps.push_back(static_cast<double>(step));
    curve.values.push_back(number);
    if (name.starts_with(validation)) evaluation.metrics[name.substr(validation.size())] = number;
  }
  if (!evaluation.metrics.empty()) run.evaluations.push_back(std::move(evaluation));
  run.steps = step;
}

void read_metrics(RunRecord& run) {
  std::ifstream file(run.path / "metrics.jsonl");
  if (!file) return run.notes.push_back("there is no metrics.jsonl yet: no step was recorded");
  std::size_t number = 0, damaged = 0;
  std::string first_problem;
  for (std::string line; std::getline(file, line);) {
    ++number;
    try {
      add_record(run, line, fmt::format("metrics.jsonl:{}", number));
    } catch (const InputError& error) {
      if (file.eof()) continue;  // still being written
      if (damaged++ == 0) first_problem = error.what();
    }
  }
  if (number == 0) run.notes.push_back("metrics.jsonl is empty: no step was recorded");
  if (damaged > 0)
    run.notes.push_back(fmt::format("{} of {} lines of metrics.jsonl were left out; {}", damaged,
                                    number, first_problem));
}

void read_log(RunRecord& run) {
  std::ifstream file(run.path / "log.txt");
  std::deque<std::string> end, warnings;
  const auto keep = [](std::deque<std::string>& lines, const std::string& line, std::size_t most) {
    lines.push_back(line);
    if (lines.size() > most) lines.pop_front();
  };
  for (std::string line; std::getline(file, line);) {
    keep(end, line, log_lines);
    if (line.find(" warning: ") != line.npos) keep(warnings, line, max_warnings);
    if (line.find(" training ") != line.npos && line.find(" parameters on ") != line.npos) {
      run.stopped_early = false;  // it went on
      run.parameters = number_behind(line, " training ");
      if (!run.config.training.steps) run.total_steps = number_behind(line, ", to step ");
    }
    if (line.find(" stopped early: ") != line.npos) run.stopped_early = true;
  }
  run.log_end.assign(end.begin(), end.end());
  run.warnings.assign(warnings.begin(), warnings.end());
}

}  // namespace

std::string RunRecord::metric_name() const {
  if (!has_task(config)) return "loss";
  const auto metric = resolve_task(config.task).metric;
  return metric ? enum_name(*metric) : "loss";
}

bool RunRecord::higher_is_better() const { return metric_name() != "loss"; }

const EvaluationRecord* RunRecord::best() const {
  const EvaluationRecord* best = nullptr;
  const std::string metric = metric_name();
  for (const EvaluationRecord& evaluation : evaluations) {
    const auto found = evaluation.metrics.find(metric);
    if (found == evaluation.metrics.end() || !std::isfinite(found->second)) continue;
    const double before = best ? best->metrics.at(metric) : 0;
    if (!best || (higher_is_better() ? found->second > before : found->second < before))
      best = &evaluation;
  }
  return best;
}

RunRecord read_run(const fs::path& folder) {
  const std::string name = printable_path(folder);
  require_input(fs::exists(folder),
                "{}: no such folder; expected the run_dir of nystrom pretrain or finetune", name);
  require_input(fs::is_directory(folder),
                "{}: is no folder; expected the run_dir of nystrom pretrain or finetune", name);
  require_input(
      fs::exists(folder / "config.yaml"),
      "{}: holds no run (no config.yaml); expected the run_dir of nystrom pretrain or finetune",
      name);
  RunRecord run;
  run.path = folder;
  run.name = name;
  run.config = read_resolved_config((folder / "config.yaml").string());
  run.total_steps = run.config.training.steps;
  read_metrics(run);
  read_log(run);
  return run;
}

}  // namespace nystrom
