#include "train/loop/run_session.h"

#include <filesystem>

#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "train/state/checkpoint.h"

namespace nystrom {
namespace {

/// Throws an InputError unless a step's batch is large enough for `processes` processes. With
/// `task` (or features), batches are sorted by length and divided into whole micro-batches.
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
  const bool grows = processes > 1 && !training.batch_schedule.empty();
  require_input(
      task || !(training.deterministic || grows) || batch % (micro * processes) == 0,
      "{} with {} processes needs a batch_size that is divisible by {} x micro_batch_size {}; "
      "got {}",
      grows ? "training.batch_schedule" : "training.deterministic", processes, processes, micro,
      batch);
}

}  // namespace

RunSession::RunSession(const RunSpec& spec, Log& log, Communicator& communicator)
    : log_(log), communicator_(communicator) {
  const RunConfig& options = spec.options;
  communicator.require_same_options(to_yaml(options));
  require_work_for_all(options.training, has_task(options) || reads_features(options),
                       communicator.size());
  if (!communicator.is_first()) return;
  check_run_place(options.run_dir);
  const std::filesystem::path folder = options.run_dir;
  if (std::filesystem::exists(folder / "summary.json") &&
      checkpoint_steps(folder / "checkpoints").empty())
    log.warn(
        fmt::format("{0}: holds a sweep (--seeds, --folds or --grid); for predict and others "
                    "{0} means this run from now on, and no longer the best of the sweep",
                    printable_path(options.run_dir)));
  make_folders(options.run_dir);
  lock_.emplace(options.run_dir);
  remove_unfinished(options.run_dir);
  log.append_to(std::filesystem::path(options.run_dir) / "log.txt");
}

void RunSession::require_own_folder() const {
  if (lock_) lock_->require_held();
}

}  // namespace nystrom
