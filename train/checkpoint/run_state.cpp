#include "train/checkpoint/run_state.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/file_io.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_folder.h"
#include "train/config/config_io.h"
#include "train/optim/schedule.h"

namespace nystrom {

std::int64_t RunState::next_batch() const {
  std::int64_t batch = step;
  for (const SkippedBatches& each : skipped_batches) batch += each.batches;
  return batch;
}

std::string RunState::to_json() const {
  nlohmann::ordered_json json = {
      {"step", step},
      {"updates", updates},
      {"skipped_in_a_row", skipped_in_a_row},
      {"best_value", best_value ? nlohmann::ordered_json(*best_value) : nullptr},
      {"best_step", best_step},
      {"evaluations_since_best", evaluations_since_best},
      {"evaluated_step", evaluated_step},
      {"tokenizer", tokenizer},
      {"data", data},
      {"validation", validation},
      {"settings", settings},
      {"version", version}};
  if (!teacher.empty()) json["teacher"] = teacher;
  if (loss_scale)
    json["loss_scale"] = {{"value", loss_scale->value()},
                          {"finite_steps", loss_scale->finite_steps()}};
  if (losses) {
    json["losses"] = {{"baseline", losses->baseline()}, {"outliers", losses->outliers()}};
    json["anchor"] = anchor;
  }
  if (!skipped_batches.empty()) {
    json["skipped_batches"] = nlohmann::ordered_json::array();
    for (const SkippedBatches& each : skipped_batches)
      json["skipped_batches"].push_back({{"step", each.step}, {"batches", each.batches}});
  }
  return json.dump(2) + "\n";
}

namespace {

using nlohmann::json;

LossScale read_loss_scale(const json& saved) {
  const auto value = saved.at("value").get<double>();
  int exponent = 0;
  require_input(value >= LossScale::least && std::frexp(value, &exponent) == 0.5,
                "loss_scale.value is {}, expected a power of two from {} on", value,
                LossScale::least);
  return {value, json_count(saved.at("finite_steps"), "loss_scale.finite_steps")};
}

LossWatch read_losses(const json& saved) {
  // Older versions called them usual and far.
  const bool old = saved.contains("usual");
  auto baseline = saved.at(old ? "usual" : "baseline").get<std::vector<double>>();
  auto outliers = saved.at(old ? "far" : "outliers").get<std::vector<double>>();
  require_input(
      baseline.size() <= LossWatch::window && outliers.size() < LossWatch::in_a_row,
      "losses has {} in its baseline and {} outliers; expected at most {} and fewer than {}",
      baseline.size(), outliers.size(), LossWatch::window, LossWatch::in_a_row);
  return {std::move(baseline), std::move(outliers)};
}

std::vector<RunState::SkippedBatches> read_skipped_batches(const json& saved,
                                                           std::int64_t last_step) {
  std::int64_t total = 0;
  std::vector<RunState::SkippedBatches> list;
  for (const json& each : saved) {
    list.push_back({json_count(each.at("step"), "skipped_batches.step"),
                    json_count(each.at("batches"), "skipped_batches.batches")});
    const std::int64_t before = list.size() > 1 ? list[list.size() - 2].step : 0,
                       step = list.back().step;
    require_input(before <= step && step <= last_step,
                  "skipped_batches.step is {}, expected one from {} to {}", step, before,
                  last_step);
    total += list.back().batches;
    require_input(total <= max_json_count, "skipped_batches are {} in all, expected at most {}",
                  total, max_json_count);
  }
  return list;
}

RunState state_of(const json& saved) {
  const auto count = [&](const char* key) { return json_count(saved.at(key), key); };
  RunState state;
  state.step = count("step");
  state.updates = count("updates");
  state.skipped_in_a_row = count("skipped_in_a_row");
  if (!saved.at("best_value").is_null()) state.best_value = saved.at("best_value").get<double>();
  state.best_step = count("best_step");
  state.evaluations_since_best = count("evaluations_since_best");
  state.evaluated_step = count("evaluated_step");
  saved.at("tokenizer").get_to(state.tokenizer);
  saved.at("data").get_to(state.data);
  if (saved.contains("validation")) saved["validation"].get_to(state.validation);
  if (saved.contains("teacher")) saved["teacher"].get_to(state.teacher);
  saved.at("settings").get_to(state.settings);
  saved.at("version").get_to(state.version);
  if (saved.contains("loss_scale")) state.loss_scale = read_loss_scale(saved["loss_scale"]);
  if (saved.contains("losses")) state.losses = read_losses(saved["losses"]);
  if (saved.contains("anchor")) state.anchor = count("anchor");
  if (saved.contains("skipped_batches"))
    state.skipped_batches = read_skipped_batches(saved["skipped_batches"], state.step);
  return state;
}

}  // namespace

RunState RunState::read(const std::filesystem::path& path) {
  const json saved = read_json_file(path);
  return with_context(path.string(), [&] {
    try {
      return state_of(saved);
    } catch (const json::exception&) {
      throw InputError("is not the state of a run");
    }
  });
}

namespace {

/// The options whose values differ, with both values: "seed (42, now 1)". Sorted.
std::vector<std::string> changed_options(const RunConfig& before, const RunConfig& after) {
  constexpr std::size_t max_value = 60;
  std::map<std::string, std::string> old_values;
  for (const auto& [path, value] : option_values(before)) old_values[path] = value;
  std::vector<std::string> changes;
  for (const auto& [path, value] : option_values(after)) {
    const std::string& old = old_values[path];
    if (old != value)
      changes.push_back(fmt::format("{} ({}, now {})", path, printable(old, max_value),
                                    printable(value, max_value)));
  }
  std::sort(changes.begin(), changes.end());
  return changes;
}

std::filesystem::path checkpoints_of(const RunConfig& config) {
  return std::filesystem::path(config.run_dir) / "checkpoints";
}

std::filesystem::path settings_file(const RunConfig& config) {
  return std::filesystem::path(config.run_dir) / "config.yaml";
}

}  // namespace

void check_run_kind(const RunConfig& config) {
  check_run_place(config.run_dir);
  const std::filesystem::path path = settings_file(config);
  if (!std::filesystem::exists(path) || checkpoint_steps(checkpoints_of(config)).empty()) return;
  const bool task = has_task(read_resolved_config(path.string()));
  const auto kind = [](bool is_task) { return is_task ? "fine-tuning" : "pretraining"; };
  require_input(task == has_task(config),
                "{}: holds a run of {}, and this is {}; choose another run_dir", config.run_dir,
                kind(task), kind(has_task(config)));
}

void check_run_dir(const RunConfig& config) {
  check_run_kind(config);
  const std::filesystem::path path = settings_file(config);
  if (!std::filesystem::exists(path) || checkpoint_steps(checkpoints_of(config)).empty()) return;
  RunConfig old = read_resolved_config(path.string());
  old.run_dir = config.run_dir;
  old.data.cache = config.data.cache;
  old.data.max_unreadable = config.data.max_unreadable;
  if (!old.task.word_cut) old.task.word_cut = config.task.word_cut;  // older versions had none
  old.training.steps = config.training.steps;                        // these options may change
  old.training.epochs = config.training.epochs;
  old.training.zero = config.training.zero;
  old.training.timeout = config.training.timeout;
  old.training.on_loss_spike = config.training.on_loss_spike;
  old.evaluation = config.evaluation;
  old.checkpoint = config.checkpoint;
  old.logging = config.logging;
  // Older versions stored a default of 10000 steps; now the default depends on the number of steps.
  // Equal results are no change.
  const auto steps = config.training.steps;
  if (steps && warmup_of(old.schedule, *steps) == warmup_of(config.schedule, *steps)) {
    old.schedule.warmup_steps = config.schedule.warmup_steps;
    old.schedule.warmup_share = config.schedule.warmup_share;
  }
  const auto changed = changed_options(old, config);
  require_input(changed.empty(),
                "{}: holds a run with other settings; changed: {}; choose another run_dir, or undo "
                "the changes",
                config.run_dir, fmt::join(changed, ", "));
}

void write_resolved_config(const RunConfig& config) {
  check_run_dir(config);
  const std::filesystem::path path = settings_file(config);
  const std::string text = to_yaml(config);
  try {
    if (std::filesystem::exists(path) && to_yaml(read_resolved_config(path.string())) == text)
      return;
  } catch (const InputError&) {
    // It is of another version, or damaged.
  }
  write_text_file(path, text);
}

}  // namespace nystrom
