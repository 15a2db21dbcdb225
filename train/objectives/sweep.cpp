#include "train/objectives/sweep.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/checksum.h"
#include "core/base/distinct.h"
#include "core/base/file_io.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/task_scorer.h"
#include "train/config/config_docs.h"
#include "train/config/config_io.h"
#include "train/config/validation.h"
#include "train/objectives/finetune.h"
#include "train/state/checkpoint.h"
#include "train/state/run_folder.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The name of a point's folder: other characters become %XX, so that points differ in their
/// folders. The end of a name that is too long for a file system becomes a hash.
std::string as_file_name(const std::string& text) {
  constexpr std::size_t longest = 200;
  std::string name;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) ||
                       std::string_view("._=,+-").find(c) != std::string_view::npos;
    name += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  if (name.size() <= longest) return name;
  const std::string hash = "-" + text_checksum(text);
  return name.substr(0, longest - hash.size()) + hash;
}

/// All combinations of the axes' overrides. The last axis varies fastest.
std::vector<std::vector<std::string>> points_of(const std::vector<std::vector<std::string>>& grid) {
  std::vector<std::vector<std::string>> points = {{}};
  for (const auto& axis : grid) {
    std::vector<std::vector<std::string>> longer;
    for (const auto& point : points) {
      for (const std::string& choice : axis) {
        longer.push_back(point);
        longer.back().push_back(choice);
      }
    }
    points = std::move(longer);
  }
  return points;
}

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

/// The place of a run within its sweep.
std::string place_within_sweep(const fs::path& run_dir, const fs::path& sweep) {
  return run_dir.lexically_relative(sweep).string();
}

/// A run as JSON, with its folder relative to that of the sweep.
Json json_of(const SweepRun& run, const fs::path& sweep) {
  Json test = Json::object();
  for (const auto& [name, value] : run.test) test[name] = value;
  return {{"seed", run.seed},     {"fold", run.fold},
          {"test", test},         {"run_dir", place_within_sweep(run.folder, sweep)},
          {"steps", run.steps},   {"best_step", run.best_step},
          {"metric", run.metric}, {"value", run.value}};
}

/// The places of the runs that summary.json names and that are still there; none if it cannot be
/// read.
std::set<std::string> runs_in_summary(const fs::path& folder) {
  if (!fs::exists(folder / "summary.json")) return {};
  std::set<std::string> places;
  try {
    const nlohmann::json summary = read_json_file(folder / "summary.json");
    for (const auto& point : summary.at("points"))
      for (const auto& run : point.at("runs"))
        if (const auto place = run.at("run_dir").get<std::string>(); fs::exists(folder / place))
          places.insert(place);
  } catch (const std::exception&) {
    return {};
  }
  return places;
}

void write_summary(const fs::path& folder, const SweepResult& result) {
  Json points = Json::array();
  for (const SweepPoint& point : result.points) {
    if (point.runs.empty()) continue;
    Json runs = Json::array();
    for (const SweepRun& run : point.runs) runs.push_back(json_of(run, folder));
    Json test = Json::object();
    for (const std::string& name : point.test_names()) {
      const SweepPoint own = point.of_test(name);
      test[name] = {{"mean", own.mean()}, {"deviation", own.deviation()}};
    }
    points.push_back({{"options", point.overrides},
                      {"mean", point.mean()},
                      {"deviation", point.deviation()},
                      {"test", test},
                      {"runs", runs}});
  }
  write_text_file(folder / "summary.json",
                  Json{{"metric", result.metric}, {"points", points}}.dump(2) + "\n");
}

/// The end of the value that begins at `begin`: the next comma outside of brackets.
std::size_t end_of_value(const std::string& text, std::size_t begin) {
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == '{') ++depth;
    if (text[i] == ']' || text[i] == '}') --depth;
    if (text[i] == ',' && depth <= 0) return i;
  }
  return text.size();
}

/// Throws an InputError if `run` goes on from one of another length or with other evaluations,
/// which a run alone may change: a sweep compares the best of equally many.
void require_same_extent(const RunSpec& run) {
  if (!run.saved.has_checkpoints || !run.saved.options) return;
  RunConfig now = *run.saved.options;
  now.training.steps = run.options.training.steps;
  now.training.epochs = run.options.training.epochs;
  now.evaluation = run.options.evaluation;
  const auto changed = changed_options(*run.saved.options, now);
  require_input(changed.empty(),
                "{}: holds a run of another length or with other evaluations than the sweep; "
                "changed: {}; choose another run_dir, or undo the changes",
                printable_path(run.options.run_dir), fmt::join(changed, ", "));
}

/// Throws an InputError if the scores of two runs of a sweep are of different kinds or examples.
/// With `folds` the runs of a point differ in the fold, and each point has all.
void require_comparable(const RunConfig& first, const RunConfig& other, bool folds) {
  const auto changed = changed_options(scored_by(first, folds), scored_by(other, folds));
  require_input(changed.empty(),
                "--grid: the runs differ in what their scores mean: {}; start a sweep for each",
                fmt::join(changed, ", "));
}

/// A run of a sweep, and the index of its point.
struct PlannedRun {
  std::size_t point;
  RunSpec spec;  // its options; resolved when it begins
};

/// The runs of a sweep, all of whose options are checked before the first begins. Appends to
/// `points`.
std::vector<PlannedRun> plan_of(const ConfigText& yaml, const std::vector<std::string>& overrides,
                                const SweepOptions& options, const RunConfig& base,
                                std::vector<SweepPoint>& points) {
  std::vector<std::string> varied;
  for (const auto& axis : options.grid) varied.push_back(axis[0].substr(0, axis[0].find('=')));
  require_distinct("--grid", varied);
  require_input(!options.folds || std::ranges::find(varied, "task.fold") == varied.end(),
                "--grid: --folds trains every fold; leave task.fold out");
  std::map<std::string, std::string> seen;
  std::vector<PlannedRun> plan;
  for (const auto& choice : points_of(options.grid)) {
    std::vector<std::string> all = overrides;
    all.insert(all.end(), choice.begin(), choice.end());
    points.push_back({choice, {}});
    RunSpec spec = read_run(yaml, all);
    RunConfig& config = spec.options;
    require_none(validate_finetuning(config));
    const auto [same, fresh] = seen.emplace(to_yaml(config), points.back().name());
    require_input(fresh, "--grid: {} and {} are the same settings; leave one out", same->second,
                  points.back().name());
    const fs::path folder = fs::path(base.run_dir) / as_file_name(points.back().name());
    const std::int64_t folds = config.task.folds.value_or(std::ssize(config.task.splits));
    require_input(!options.folds || folds > 0, "--folds all: there are no folds; {}",
                  config.task.kind == TaskKind::features
                      ? "give task.folds or task.splits"
                      : "they are for tables of feature files: give --seeds and "
                        "task.validation_fraction");
    for (std::int64_t i = 0; i < (options.folds ? folds : options.seeds); ++i) {
      if (options.folds)
        config.task.fold = i;
      else
        config.seed = base.seed + i;
      config.run_dir = (folder / (options.folds ? fmt::format("fold-{}", i)
                                                : fmt::format("seed-{}", config.seed)))
                           .string();
      plan.push_back({points.size() - 1, spec});
    }
  }
  for (const PlannedRun& each : plan)
    require_comparable(plan[0].spec.options, each.spec.options, options.folds);
  return plan;
}

/// Throws an InputError if `places`, those of a summary, are not all in `plan`: it would be
/// replaced by one without them, and another run would stand for the sweep.
void require_all_again(std::set<std::string> places, const std::vector<PlannedRun>& plan,
                       const fs::path& sweep) {
  for (const PlannedRun& each : plan)
    places.erase(place_within_sweep(each.spec.options.run_dir, sweep));
  if (places.empty()) return;
  throw InputError(fmt::format(
      "{}: compares runs that this sweep leaves out, such as {}; add them, or choose another "
      "run_dir",
      printable_path(sweep / "summary.json"), printable_path(*places.begin())));
}

/// A run of a sweep. One that diverges has no score, and the sweep goes on. All processes see it in
/// the same place, for they judge the same sums and weights.
FinetuneResult finetune_or_diverge(const RunSpec& run, Log& log, Device device,
                                   Communicator& communicator, bool describe_data) {
  try {
    return with_context(printable_path(run.options.run_dir),
                        [&] { return finetune(run, log, device, communicator, describe_data); });
  } catch (const DivergedError& error) {
    log.warn(error.what());
    FinetuneResult diverged;
    // The run has written it, also where its data decided it.
    const auto own = read_saved_run(run.options.run_dir, run.options.data.cache).options;
    if (own && own->task.metric) diverged.metric_name = enum_name(*own->task.metric);
    return diverged;
  }
}

std::string with_deviation(const SweepPoint& point) {
  return metric_text(point.mean()) +
         (point.runs.size() < 2 ? "" : " ± " + metric_text(point.deviation()));
}

}  // namespace

RunConfig scored_by(const RunConfig& config, bool folds) {
  RunConfig scored;
  const TaskConfig& task = config.task;
  if (!has_task(config)) {
    scored.pretraining = config.pretraining;
    scored.masking = config.masking;
    scored.masking.probability = config.masking.probability.last();
    scored.data.sequence_length = config.data.sequence_length;
    scored.data.documents = config.data.documents;
    scored.data.cross_documents = config.data.cross_documents;
    scored.data.packing = config.data.packing;
    scored.tokenizer = config.tokenizer;
    scored.data.validation = config.data.validation;
    scored.data.validation_fraction = config.data.validation_fraction;
    if (config.data.validation.empty()) scored.data.train = config.data.train;
  }
  TaskConfig& own = scored.task;
  own.recipe = task.recipe;
  own.kind = task.kind;
  own.metric = task.metric;
  own.validation = task.validation;
  own.validation_fraction = task.validation_fraction;
  own.splits = task.splits;
  own.folds = task.folds;
  own.columns.label = task.columns.label;
  own.columns.labels = task.columns.labels;
  own.columns.value = task.columns.value;
  own.labels = task.labels;
  own.multi_label = task.multi_label;
  own.label_separator = task.label_separator;
  if (!folds) own.fold = task.fold;
  if (task.bad_rows == BadRows::skip) {  // which rows these are
    own.columns = task.columns;
    own.no_answer = task.no_answer;
  }
  if (task.metric == TaskMetric::loss && task.windows != TaskWindows::first) {  // of each window
    own.windows = task.windows;
    own.stride = task.stride;
    scored.data.sequence_length = config.data.sequence_length;
  }
  if (!task.validation.empty()) return scored;
  own.train = task.train;
  // The inputs decide which examples are held out.
  if (task.validation_fraction || task.folds) {
    own.columns = task.columns;
    own.features_folder = task.features_folder;
  }
  return scored;
}

std::vector<std::string> parse_grid_axis(const std::string& text) {
  const std::size_t equals = text.find('=');
  require_input(equals != text.npos && equals > 0 && equals + 1 < text.size(),
                "--grid {}: expected option=value,value, such as learning_rate=2e-5,3e-5",
                printable(text, 80));
  const std::string option =
      with_context("--grid", [&] { return option_path(text.substr(0, equals)); });
  std::vector<std::string> values, axis;
  std::size_t begin = equals + 1;
  while (begin <= text.size()) {
    const std::size_t end = end_of_value(text, begin);
    require_input(end > begin, "--grid {}: a value is empty", printable(text, 80));
    values.push_back(text.substr(begin, end - begin));
    axis.push_back(option + "=" + values.back());
    begin = end + 1;
  }
  require_distinct("--grid " + printable(text, 80), values);
  for (const char* own : {"run_dir", "seed"}) {
    require_input(option != own,
                  "--grid {}: {} is chosen for each run; --seeds N gives several seeds",
                  printable(text, 80), own);
  }
  return axis;
}

bool is_worse(const std::string& metric, double a, double b) {
  return better(b, a, metric != enum_name(TaskMetric::loss));
}

std::string SweepPoint::name() const {
  std::vector<std::string> parts;
  for (const std::string& each : overrides) {
    const std::size_t equals = std::min(each.find('='), each.size());
    parts.push_back(option_name(each.substr(0, equals)) + each.substr(equals));
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

double SweepPoint::mean() const {
  double sum = 0;
  for (const SweepRun& run : runs) sum += run.value;
  return sum / static_cast<double>(runs.size());
}

double SweepPoint::deviation() const {
  if (std::isnan(mean()) || runs.size() < 2) return undefined;
  double squares = 0;
  for (const SweepRun& run : runs) squares += (run.value - mean()) * (run.value - mean());
  return std::sqrt(squares / static_cast<double>(runs.size() - 1));
}

std::vector<std::string> SweepPoint::test_names() const {
  std::vector<std::string> names;
  for (const SweepRun& run : runs)
    if (names.empty())
      for (const auto& [name, value] : run.test) names.push_back(name);
  return names;
}

SweepPoint SweepPoint::of_test(const std::string& name) const {
  SweepPoint point = *this;
  for (SweepRun& run : point.runs) {
    run.value = undefined;
    for (const auto& [own, value] : run.test)
      if (own == name) run.value = value;
  }
  return point;
}

const SweepPoint& SweepResult::best() const {
  return *std::max_element(points.begin(), points.end(), [&](const auto& a, const auto& b) {
    return is_worse(metric, a.mean(), b.mean());
  });
}

SweepResult run_sweep(const std::string& path, const std::vector<std::string>& overrides,
                      const SweepOptions& options, Log& log, Device device,
                      Communicator& communicator) {
  SweepResult result;
  const ConfigText yaml = config_file(path);
  const RunConfig base = read_run(yaml, overrides).options;
  require_input(base.seed <= std::numeric_limits<std::int64_t>::max() - options.seeds,
                "seed {} is too large to count {} seeds up from it", base.seed, options.seeds);
  const std::vector<PlannedRun> plan = plan_of(yaml, overrides, options, base, result.points);
  std::string same = fmt::format("{} {} {}", to_yaml(base), options.seeds, options.folds);
  for (const auto& axis : options.grid) same += fmt::format("\n{}", fmt::join(axis, " "));
  communicator.require_same_options(same);
  std::optional<RunLock> lock;
  std::set<std::string> summarised;  // runs of an earlier summary that this one lacks yet
  if (communicator.is_first()) {
    check_run_place(base.run_dir, base.data.cache);
    if (!checkpoint_steps(fs::path(base.run_dir) / "checkpoints").empty())
      log.warn(
          fmt::format("{0}: holds a run too, which {0} means for predict and others; name the "
                      "folder of a run of the sweep for that one",
                      printable_path(base.run_dir)));
    for (const PlannedRun& each : plan) {
      const fs::path folder = each.spec.options.run_dir;
      require_no_link(folder);
      if (!result.points[each.point].overrides.empty()) require_no_link(folder.parent_path());
    }
    lock.emplace(base.run_dir);
    summarised = runs_in_summary(base.run_dir);
    require_all_again(summarised, plan, base.run_dir);
  }
  bool describe_data = true;  // all runs have the same
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const auto& [point, spec] = plan[i];
    const RunConfig& config = spec.options;
    if (lock) lock->require_held();
    log.say(fmt::format("run {} of {}: {}", i + 1, plan.size(), printable_path(config.run_dir)));
    Log of_run(log.quiet());
    if (!communicator.is_first()) of_run.mute();
    ResolutionErrors thrown;
    const RunSpec complete = resolve(spec, RunKind::finetuning, thrown);
    require_same_extent(complete);
    // A finished run does no step; whether its data are still the same is compared again.
    const FinetuneResult outcome = finetune_or_diverge(complete, of_run, device, communicator,
                                                       std::exchange(describe_data, false));
    result.interrupted = outcome.interrupted;
    if (outcome.interrupted) break;
    SweepRun run{config.seed,         config.run_dir,
                 outcome.steps,       outcome.best.value_or(outcome.steps),
                 outcome.metric_name, outcome.best_value.value_or(undefined),
                 config.task.fold};
    if (outcome.test) {
      run.test = outcome.test->scores.values;
      run.test.emplace_back("loss", outcome.test->loss);
    }
    if (!run.metric.empty()) result.metric = run.metric;  // the data of a diverged one name it
    result.points[point].runs.push_back(run);
    summarised.erase(place_within_sweep(config.run_dir, base.run_dir));
    if (!lock || !summarised.empty()) continue;
    lock->require_held();
    write_summary(base.run_dir, result);
  }
  std::erase_if(result.points, [](const SweepPoint& point) { return point.runs.empty(); });
  return result;
}

std::string sweep_table(const SweepResult& result) {
  std::size_t width = 7;
  for (const SweepPoint& point : result.points) width = std::max(width, point.name().size());
  const bool tested = std::ranges::any_of(
      result.points, [](const SweepPoint& point) { return !point.test_names().empty(); });
  std::string text =
      fmt::format("{:<{}}  runs  {:>10}  deviation        best{}\n", "options", width,
                  result.metric, tested ? "            on the test part" : "");
  const auto worse = [&](const SweepRun& a, const SweepRun& b) {
    return is_worse(result.metric, a.value, b.value);
  };
  for (const SweepPoint& point : result.points) {
    const SweepRun& top = *std::max_element(point.runs.begin(), point.runs.end(), worse);
    text += fmt::format("{:<{}}  {:>4}  {:>10}  {:>9}  {:>10}  (seed {}){}\n",
                        point.name().empty() ? "-" : point.name(), width, point.runs.size(),
                        metric_text(point.mean()),
                        point.runs.size() < 2 ? "-" : metric_text(point.deviation()),
                        metric_text(top.value), top.seed,
                        tested ? "  " + with_deviation(point.of_test(result.metric)) : "");
  }
  const SweepPoint& best = result.best();
  if (std::isnan(best.mean()))
    return text +
           fmt::format("best: none, for {} is undefined in a run of every line\n", result.metric);
  const SweepRun& top = *std::max_element(best.runs.begin(), best.runs.end(), worse);
  return text + fmt::format("best: {}{} {}; its best run is {}\n", best.name(),
                            best.name().empty() ? result.metric : ":", with_deviation(best),
                            printable_path(top.folder));
}

std::string fold_table(const SweepResult& result) {
  std::string text;
  for (const SweepPoint& point : result.points) {
    if (!point.name().empty()) text += point.name() + "\n";
    std::vector<std::string> names = point.test_names();
    std::vector<SweepPoint> columns;
    for (const std::string& name : names) columns.push_back(point.of_test(name));
    if (columns.empty()) {
      names = {result.metric};
      columns = {point};
    }
    const auto line = [&](const std::string& head, const auto& cell) {
      text += fmt::format("{:<9}", head);
      for (std::size_t i = 0; i < columns.size(); ++i)
        text += fmt::format("  {:>{}}", cell(i), std::max<std::size_t>(9, names[i].size()));
      text += "\n";
    };
    line("fold", [&](std::size_t i) { return names[i]; });
    for (std::size_t row = 0; row < point.runs.size(); ++row)
      line(std::to_string(point.runs[row].fold),
           [&](std::size_t i) { return metric_text(columns[i].runs[row].value); });
    line("mean", [&](std::size_t i) { return metric_text(columns[i].mean()); });
    if (point.runs.size() > 1)
      line("deviation", [&](std::size_t i) { return metric_text(columns[i].deviation()); });
  }
  return text;
}

}  // namespace nystrom
