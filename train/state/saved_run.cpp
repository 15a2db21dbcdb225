#include "train/state/saved_run.h"

#include <algorithm>
#include <map>
#include <vector>

#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "train/config/config_io.h"
#include "train/optim/schedule.h"
#include "train/state/checkpoint.h"
#include "train/state/run_folder.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

fs::path settings_file(const fs::path& run_dir) { return run_dir / "config.yaml"; }

/// Takes over how `now` spells the places that both name, as runs/base/ for runs/base.
template <class T>
void respell(T& old, const T& now) {
  if constexpr (std::is_same_v<T, std::string>) {
    if (!old.empty() && !now.empty() && normal_place(old) == normal_place(now)) old = now;
  } else if constexpr (std::is_same_v<T, TextSource>) {
    respell(old.files, now.files);
  } else if constexpr (std::is_same_v<T, std::optional<std::string>>) {
    if (old && now) respell(*old, *now);
  } else {
    for (std::size_t i = 0; i < std::min(old.size(), now.size()); ++i) respell(old[i], now[i]);
  }
}

/// What the directory holds, without the options.
SavedRun look_at(const fs::path& run_dir) {
  SavedRun found;
  found.has_checkpoints = !checkpoint_steps(run_dir / "checkpoints").empty();
  try {
    const fs::path file = settings_file(run_dir);
    if (fs::exists(file)) found.text = config_file(file.string()).text;
  } catch (const InputError&) {
    if (found.has_checkpoints) throw;
  }
  return found;
}

/// The options of the newest checkpoint that has them; nothing without one.
std::optional<RunConfig> options_of_checkpoints(const fs::path& run_dir) {
  const fs::path checkpoints = run_dir / "checkpoints";
  for (const std::int64_t step : checkpoint_steps(checkpoints)) {
    try {
      const fs::path file = settings_file(checkpoint_path(checkpoints, step));
      return parse_resolved_config(config_file(file.string()).text, printable_path(file));
    } catch (const InputError&) {
      continue;  // a damaged checkpoint is passed over
    }
  }
  return std::nullopt;
}

}  // namespace

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

SavedRun read_saved_run(const fs::path& run_dir) {
  check_run_place(run_dir);
  SavedRun saved = look_at(run_dir);
  try {
    if (saved.text)
      saved.options = parse_resolved_config(*saved.text, printable_path(settings_file(run_dir)));
  } catch (const InputError&) {
    if (saved.has_checkpoints) throw;
  }
  // A user may have removed or changed the file; the checkpoints tell how they came about.
  if (auto of_checkpoints = options_of_checkpoints(run_dir)) saved.options = of_checkpoints;
  return saved;
}

void require_same_kind(const RunConfig& config, const SavedRun& saved) {
  if (!saved.options || !saved.has_checkpoints) return;
  const auto kind = [](const RunConfig& run) {
    return has_task(run) ? "fine-tuning" : "pretraining";
  };
  require_input(has_task(*saved.options) == has_task(config),
                "{}: holds a run of {}, and this is {}; choose another run_dir",
                printable_path(config.run_dir), kind(*saved.options), kind(config));
}

void require_same_settings(const RunConfig& config, const SavedRun& saved) {
  require_same_kind(config, saved);
  if (!saved.options || !saved.has_checkpoints) return;
  RunConfig old = *saved.options;
  old.run_dir = config.run_dir;  // these options may change
  old.data.cache = config.data.cache;
  old.data.max_unreadable = config.data.max_unreadable;
  old.training.steps = config.training.steps;
  old.training.epochs = config.training.epochs;
  old.training.zero = config.training.zero;
  old.training.timeout = config.training.timeout;
  old.training.on_loss_spike = config.training.on_loss_spike;
  old.evaluation = config.evaluation;
  old.checkpoint = config.checkpoint;
  old.logging = config.logging;
  respell(old.start.from, config.start.from);
  respell(old.distillation.teacher, config.distillation.teacher);
  respell(old.tokenizer.path, config.tokenizer.path);
  respell(old.data.train, config.data.train);
  respell(old.data.validation, config.data.validation);
  respell(old.task.features_folder, config.task.features_folder);
  respell(old.task.splits, config.task.splits);
  respell(old.task.train, config.task.train);
  respell(old.task.validation, config.task.validation);
  // The text decides how many pieces its tokenizer has.
  if (!config.tokenizer.path && !config.tokenizer.train.vocab_size &&
      config.vocab_size_from_tokenizer)
    old.model.vocab_size = config.model.vocab_size;
  // The same warm-up in other words is no change.
  const auto steps = config.training.steps;
  if (steps && warmup_of(old.schedule, *steps) == warmup_of(config.schedule, *steps)) {
    old.schedule.warmup_steps = config.schedule.warmup_steps;
    old.schedule.warmup_share = config.schedule.warmup_share;
  }
  const auto changed = changed_options(old, config);
  require_input(changed.empty(),
                "{}: holds a run with other settings; changed: {}; choose another run_dir, or undo "
                "the changes",
                printable_path(config.run_dir), fmt::join(changed, ", "));
}

void write_settings(const RunConfig& config, const SavedRun& saved) {
  const SavedRun now = look_at(config.run_dir);
  require_input(now.text == saved.text && now.has_checkpoints == saved.has_checkpoints,
                "{}: another process has trained in this run directory in the meantime; start "
                "again",
                printable_path(config.run_dir));
  require_same_settings(config, saved);
  const std::string text = to_yaml(config);
  const auto holds_same = [&] {
    const auto options = parse_resolved_config(*saved.text, settings_file(config.run_dir).string());
    return to_yaml(options) == text;
  };
  if (!saved.text || !saved.options || !holds_same())
    write_text_file(settings_file(config.run_dir), text);
}

}  // namespace nystrom
