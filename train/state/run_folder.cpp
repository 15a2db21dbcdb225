#include "train/state/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>

#include "core/base/printable.h"
#include "core/check.h"
#include "train/config/config_io.h"
#include "train/optim/schedule.h"
#include "train/state/checkpoint.h"
#include "train/state/model_folder.h"
#include "train/state/model_weights.h"
#include "train/state/run_state.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr const char *lock_name = ".lock", *log_name = "log.txt";
constexpr fmt::format_string<std::string> in_use =
    "{}: another process trains in this run directory; wait for it, or choose another run_dir";
constexpr std::string_view mark = "nystrom run\n";

/// The first line of a file; "" without one.
std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

fs::path without_last_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

bool is_file(const fs::path& path) {
  return fs::symlink_status(path).type() == fs::file_type::regular;
}

/// Whether the entry at `path` is the lock of a process that is about to write its mark.
bool is_unmarked_lock(const fs::path& path) {
  return path.filename() == lock_name && is_file(path) && fs::file_size(path) == 0;
}

/// Whether the entry of a run's folder is of the cache there, or holds it.
bool is_of_cache(const fs::path& entry, const fs::path& cache) {
  if (cache.empty()) return false;
  const fs::path name = entry.filename();
  const auto [named, place] = places_of(cache);
  const auto [named_folder, folder] = places_of(entry.parent_path());
  if (place != folder)
    return *place.lexically_relative(folder).begin() == name ||
           *named.lexically_relative(named_folder).begin() == name;  // it may be a link
  return std::ranges::any_of(std::array{"tokens-", "tokenizer-", "rows-"},
                             [&](const char* kind) { return name.string().starts_with(kind); });
}

/// Whether the folder holds a checkpoint: a folder step-N with a manifest.
bool holds_checkpoint(const fs::path& run_dir) {
  const fs::path checkpoints = run_dir / "checkpoints";
  return std::ranges::any_of(checkpoint_steps(checkpoints), [&](std::int64_t step) {
    return holds_other_files(checkpoint_path(checkpoints, step)).has_value();
  });
}

/// Whether the folder is a run, or the copy of one without its lock.
bool is_run(const fs::path& folder) {
  const fs::path lock = folder / lock_name;
  return (is_file(lock) && first_line(lock) + "\n" == mark) || holds_checkpoint(folder);
}

fs::path settings_file(const fs::path& run_dir) { return run_dir / "config.yaml"; }

/// Takes over how `now` spells the places that both name, as runs/base/ for runs/base. Returns
/// whether as many others stand for some of them.
template <class T>
bool respell(T& old, const T& now) {
  bool moved = false;
  if constexpr (std::is_same_v<T, std::string>) {
    if (!old.empty() && !now.empty() && normal_place(old) == normal_place(now)) old = now;
    moved = old != now;
  } else if constexpr (std::is_same_v<T, TextSource>) {
    moved = respell(old.files, now.files);
  } else if constexpr (std::is_same_v<T, std::optional<std::string>>) {
    moved = old && now && respell(*old, *now);
  } else {
    for (std::size_t i = 0; i < std::min(old.size(), now.size()); ++i)
      moved |= respell(old[i], now[i]);
    moved = moved && old.size() == now.size();
  }
  return moved;
}

/// The contents of the directory, without the options.
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
      return read_resolved_config(file.string());
    } catch (const InputError&) {
      continue;  // a damaged checkpoint is passed over
    }
  }
  return std::nullopt;
}

/// Whether the model `from` has the weights with which the run began, by its newest checkpoint.
bool has_first_weights(const std::string& from, const fs::path& run_dir) {
  const fs::path checkpoints = run_dir / "checkpoints";
  Log muted;
  muted.mute();
  for (const std::int64_t step : checkpoint_steps(checkpoints)) {
    try {
      const RunState state = RunState::read(checkpoint_path(checkpoints, step) / "state.json");
      return !state.start.empty() &&
             ModelWeights::open(find_model(from, muted)).checksum() == state.start;
    } catch (const InputError&) {
      continue;  // a damaged checkpoint is passed over
    }
  }
  return false;
}

/// Makes the folder; returns whether it is new.
bool make_new(const fs::path& folder) {
  const bool made = !fs::exists(folder);
  make_folders(folder);
  return made;
}

/// Removes what killed processes left of the files that a run writes directly in its folder.
void remove_unfinished(const fs::path& run_dir) {
  constexpr std::string_view written[] = {"config.yaml", "metrics.jsonl", "fill-masks.jsonl",
                                          "summary.json", "test.json"};
  for (const fs::path& entry : leftover_files(run_dir, written)) {
    std::error_code error;
    fs::remove(entry, error);
    require_input(!error, "{}: cannot remove: {}", printable_path(entry), error.message());
  }
}

}  // namespace

RunLock::RunLock(const fs::path& run_dir)
    : path_(run_dir / lock_name),
      made_(make_new(run_dir)),
      descriptor_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)) {
  require_success(descriptor_.is_open(), path_, "cannot create");
  const bool locked = ::flock(descriptor_.get(), LOCK_EX | LOCK_NB) == 0;
  const bool marked = locked && (::lseek(descriptor_.get(), 0, SEEK_END) > 0 ||
                                 ::write(descriptor_.get(), mark.data(), mark.size()) ==
                                     static_cast<::ssize_t>(mark.size()));
  if (marked) {
    remove_unfinished(run_dir);
    return;
  }
  const int error = errno;
  require_success(!locked, path_, "cannot write");
  require_input(error == EWOULDBLOCK,
                "{}: cannot be locked: {}; choose a run_dir on a file system with locks (flock)",
                printable_path(path_), std::strerror(error));
  throw InputError(fmt::format(in_use, printable_path(run_dir)));
}

void RunLock::require_held() const {
  struct stat own {
  }, there{};
  const bool held = ::fstat(descriptor_.get(), &own) == 0 && ::lstat(path_.c_str(), &there) == 0 &&
                    own.st_dev == there.st_dev && own.st_ino == there.st_ino;
  require_input(held,
                "{}: was removed or replaced while this run trained, or the program has another "
                "current folder now; nothing more is saved there",
                printable_path(path_.parent_path()));
}

RunLock::~RunLock() {
  if (!made_) return;
  constexpr const char* own[] = {log_name, lock_name};
  const fs::path folder = path_.parent_path();
  std::error_code error;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error))
    if (std::ranges::count(own, i->path().filename()) == 0) return;
  for (const char* name : own) fs::remove(folder / name, error);
  fs::remove(folder, error);
}

fs::path normal_place(const fs::path& path) {
  std::error_code nameless;  // the file of a pipe
  const fs::path place = fs::weakly_canonical(fs::absolute(path), nameless);
  return without_last_slash(nameless ? fs::absolute(path).lexically_normal() : place);
}

std::array<fs::path, 2> places_of(const fs::path& folder) {
  return {without_last_slash(fs::absolute(folder).lexically_normal()), normal_place(folder)};
}

void check_run_place(const fs::path& run_dir, const fs::path& cache) {
  if (nearest_folder(run_dir) != run_dir) return;
  const bool unused = std::ranges::all_of(folder_entries(run_dir), [&](const fs::path& entry) {
    const bool no_checkpoint = entry.filename() == "checkpoints" && !fs::is_symlink(entry) &&
                               fs::is_directory(entry) && fs::is_empty(entry);
    return no_checkpoint || is_unmarked_lock(entry) || is_of_cache(entry, cache);
  });
  require_input(unused || is_run(run_dir),
                "{}: is not empty and holds no run; choose another run_dir",
                printable_path(run_dir));
  require_no_link(run_dir / "checkpoints");
}

void require_startable(const fs::path& run_dir) {
  const fs::path place = nearest_folder(run_dir);
  require_success(::access(place.c_str(), W_OK | X_OK) == 0, place, "cannot write in it");
  const Descriptor lock(
      ::open((run_dir / lock_name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  const bool locked = lock.is_open() && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0;
  require_input(!locked || errno != EWOULDBLOCK, in_use, printable_path(run_dir));
}

fs::path place_in_sweep(const fs::path& sweep, bool options, const fs::path& run_dir) {
  const fs::path seed = run_dir.filename(),
                 point = options ? run_dir.parent_path().filename() : fs::path(),
                 place = point / seed;
  const std::string name = seed.string();
  const bool named = (name.starts_with("seed-") || name.starts_with("fold-")) &&
                     (!options || (!point.empty() && point != "." && point != ".."));
  if (named && options) require_no_link(sweep / point);
  if (named) require_no_link(sweep / place);
  require_input(named && fs::is_directory(sweep / place),
                "{}: names the run {}, which is not in this folder; give the folder of one of its "
                "runs",
                printable_path(sweep / "summary.json"), printable_path(run_dir));
  return place;
}

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

SavedRun read_saved_run(const fs::path& run_dir, const fs::path& cache) {
  check_run_place(run_dir, cache);
  SavedRun saved = look_at(run_dir);
  try {
    if (saved.text) {
      saved.options = parse_resolved_config(*saved.text, printable_path(settings_file(run_dir)));
      saved.written = to_yaml(*saved.options);
    }
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
  bool moved = respell(old.start.from, config.start.from);
  if (moved && has_first_weights(*config.start.from, config.run_dir)) {
    old.start.from = config.start.from;  // as a run's checkpoint for the run, which has gone on
    moved = false;
  }
  moved |= respell(old.distillation.teacher, config.distillation.teacher);
  moved |= respell(old.tokenizer.path, config.tokenizer.path);
  moved |= respell(old.data.train, config.data.train);
  moved |= respell(old.data.validation, config.data.validation);
  moved |= respell(old.task.features_folder, config.task.features_folder);
  moved |= respell(old.task.splits, config.task.splits);
  moved |= respell(old.task.train, config.task.train);
  moved |= respell(old.task.validation, config.task.validation);
  // Of a tokenizer that is not trained it says nothing.
  if (config.start.from || config.tokenizer.path || config.tokenizer.builtin)
    old.tokenizer.train.vocab_size = config.tokenizer.train.vocab_size;
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
                "the changes{}",
                printable_path(config.run_dir), fmt::join(changed, ", "),
                moved ? " (where files have moved, by a link at their old place)" : "");
}

void write_settings(const RunConfig& config, const SavedRun& saved) {
  const SavedRun now = look_at(config.run_dir);
  require_input(now.text == saved.text && now.has_checkpoints == saved.has_checkpoints,
                "{}: another process has trained in this run directory in the meantime; start "
                "again",
                printable_path(config.run_dir));
  require_same_settings(config, saved);
  if (const std::string text = to_yaml(config); saved.written != text)
    write_text_file(settings_file(config.run_dir), text);
}

}  // namespace nystrom
