#include "train/loop/run_checks.h"

#include <filesystem>
#include <set>
#include <span>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/text/match_files.h"
#include "data/text/text.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/model_folder.h"
#include "train/checkpoint/run_state.h"
#include "train/config/config_io.h"

namespace nystrom {

namespace fs = std::filesystem;

void check_run(const RunConfig& config) {
  check_run_dir(config);
  check_run_start(config);
}

void check_run_start(const RunConfig& config) {
  if (!config.start.from || !checkpoint_steps(fs::path(config.run_dir) / "checkpoints").empty())
    return;
  Log quiet(true);
  check_start(config.model, open_start_folder(*config.start.from, quiet), config.start.fresh_head);
}

namespace {

/// The canonical paths of files that patterns match, and of folders that they name.
std::set<fs::path> canonical_paths(const std::vector<std::string>& patterns) {
  std::set<fs::path> paths;
  const auto insert = [&](const fs::path& given) {
    std::error_code nameless;  // the file of a pipe
    const fs::path path = fs::canonical(given, nameless);
    paths.insert(nameless ? given : path);
  };
  for (const std::string& pattern : patterns) {
    if (fs::is_directory(pattern)) {
      insert(pattern);
      continue;
    }
    try {
      for (const fs::path& file : match_files(std::span(&pattern, 1))) insert(file);
    } catch (const InputError&) {
      continue;  // no such file
    }
  }
  return paths;
}

}  // namespace

std::vector<std::string> shared_file_warnings(const RunConfig& config) {
  const bool task = has_task(config);
  const std::set<fs::path> train = canonical_paths(task ? config.task.train : config.data.train);
  std::vector<std::string> lines;
  for (const fs::path& path :
       canonical_paths(task ? config.task.validation : config.data.validation)) {
    if (!train.contains(path)) continue;
    lines.push_back(
        fmt::format("{} is matched by both {}: the model would be evaluated on its training data; "
                    "name different files",
                    printable_path(path),
                    task ? "task.train and task.validation" : "data.train and data.validation"));
  }
  return lines;
}

void require_same_config(const RunConfig& config, Communicator& communicator) {
  const auto found = communicator.find_divergent_rank(to_yaml(config));
  if (!found) return;
  throw InputError(fmt::format(
      "{} has another configuration than {}: give all processes the same file and options",
      communicator.name_of(found->rank), communicator.name_of(found->majority)));
}

void require_work_for_all(const TrainingConfig& training, bool task, int processes) {
  const std::int64_t batch = training.batch_size, micro = training.micro_batch_size,
                     parts = (batch + micro - 1) / micro;
  require_input(batch >= processes,
                "training.batch_size {} leaves some of {} processes without a sequence; raise it, "
                "or start fewer",
                batch, processes);
  // Tasks divide a step by length into whole micro-batches.
  require_input(!task || parts >= processes,
                "training.batch_size {} makes {} micro-batches of training.micro_batch_size {}, "
                "too few for {} processes; set "
                "training.micro_batch_size to {} or less",
                batch, parts, micro, processes, batch / processes);
  require_input(task || !training.deterministic || batch % (micro * processes) == 0,
                "training.deterministic with {} processes needs a batch_size that is divisible by "
                "{} x micro_batch_size {}; got {}",
                processes, processes, micro, batch);
}

}  // namespace nystrom
