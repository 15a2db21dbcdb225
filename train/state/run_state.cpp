#include "train/state/run_state.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"

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
  if (!start.empty()) json["start"] = start;
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
  auto baseline = saved.at("baseline").get<std::vector<double>>();
  auto outliers = saved.at("outliers").get<std::vector<double>>();
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
  saved.at("validation").get_to(state.validation);
  if (saved.contains("teacher")) saved["teacher"].get_to(state.teacher);
  if (saved.contains("start")) saved["start"].get_to(state.start);
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
  return with_context(printable_path(path), [&] {
    try {
      return state_of(saved);
    } catch (const json::exception&) {
      throw InputError("is not the state of a run");
    }
  });
}

}  // namespace nystrom
