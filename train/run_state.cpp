#include "train/run_state.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/check.h"
#include "core/file_io.h"
#include "core/json.h"
#include "train/checkpoint.h"
#include "train/config_io.h"

namespace nystrom {

std::string RunState::to_json() const {
  const nlohmann::ordered_json json = {{"step", step},
                                       {"updates", updates},
                                       {"skipped_in_a_row", skipped_in_a_row},
                                       {"best_value", best_value ? nlohmann::ordered_json(*best_value) : nullptr},
                                       {"best_step", best_step},
                                       {"evaluations_since_best", evaluations_since_best},
                                       {"evaluated_step", evaluated_step},
                                       {"tokenizer", tokenizer},
                                       {"data", data},
                                       {"settings", settings},
                                       {"version", version}};
  return json.dump(2) + "\n";
}

RunState RunState::read(const std::filesystem::path& path) {
  const nlohmann::json json = read_json_file(path);
  try {
    RunState state;
    json.at("step").get_to(state.step);
    json.at("updates").get_to(state.updates);
    json.at("skipped_in_a_row").get_to(state.skipped_in_a_row);
    if (!json.at("best_value").is_null()) state.best_value = json.at("best_value").get<double>();
    json.at("best_step").get_to(state.best_step);
    json.at("evaluations_since_best").get_to(state.evaluations_since_best);
    json.at("evaluated_step").get_to(state.evaluated_step);
    json.at("tokenizer").get_to(state.tokenizer);
    json.at("data").get_to(state.data);
    json.at("settings").get_to(state.settings);
    json.at("version").get_to(state.version);
    return state;
  } catch (const nlohmann::json::exception&) {
    throw InputError(fmt::format("{}: is not the state of a run", path.string()));
  }
}

namespace {

/// Paths of options whose values differ.
std::vector<std::string> changed_keys(const RunConfig& before, const RunConfig& after) {
  const auto old_values = option_values(before);
  std::vector<std::string> keys;
  for (const auto& option : option_values(after)) {
    if (std::find(old_values.begin(), old_values.end(), option) == old_values.end()) keys.push_back(option.first);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::filesystem::path checkpoints_of(const RunConfig& config) { return std::filesystem::path(config.run_dir) / "checkpoints"; }

std::filesystem::path settings_file(const RunConfig& config) { return std::filesystem::path(config.run_dir) / "config.yaml"; }

}  // namespace

void check_run_place(const std::filesystem::path& run_dir) {
  const bool foreign = std::filesystem::is_directory(run_dir) && !std::filesystem::is_empty(run_dir) &&
                       !std::filesystem::exists(run_dir / ".lock") && !std::filesystem::exists(run_dir / "config.yaml");
  require_input(!foreign, "{}: is not empty and holds no run; choose another run_dir", run_dir.string());
}

void check_run_dir(const RunConfig& config) {
  check_run_place(config.run_dir);
  const std::filesystem::path path = settings_file(config);
  if (!std::filesystem::exists(path) || checkpoint_steps(checkpoints_of(config)).empty()) return;
  RunConfig old = read_resolved_config(path.string());
  old.run_dir = config.run_dir;
  old.data.cache = config.data.cache;
  old.training.steps = config.training.steps;  // these may change
  old.training.epochs = config.training.epochs;
  old.training.zero = config.training.zero;
  old.training.timeout = config.training.timeout;
  old.evaluation = config.evaluation;
  old.checkpoint = config.checkpoint;
  old.logging = config.logging;
  const auto changed = changed_keys(old, config);
  require_input(changed.empty(), "{}: holds a run with other settings; changed: {}; choose another run_dir, or undo the changes",
                config.run_dir, fmt::join(changed, ", "));
}

void settle_config(const RunConfig& config) {
  check_run_dir(config);
  write_text_file(settings_file(config), to_yaml(config));
}

}  // namespace nystrom
