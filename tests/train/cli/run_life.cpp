#include "tests/train/cli/run_life.h"

#include <sys/resource.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "core/base/file_io.h"
#include "tests/support/mpirun.h"
#include "tests/support/start_defaults.h"
#include "tests/support/tiny_checkpoint.h"
#include "train/config/config_io.h"
#include "train/config/recipes.h"
#include "train/state/checkpoint.h"
#include "train/state/run_state.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;
using Kind = Event::Kind;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t last_step = 40;

void sleep_seconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// Limits the files of a process to `bytes`, like a full disk. The program ignores the signal for
/// it.
void limit_files(pid_t process, rlim_t bytes) {
  const rlimit limit{bytes, RLIM_INFINITY};
  ::prlimit(process, RLIMIT_FSIZE, &limit, nullptr);
}

/// The number N after `words` in a text.
std::optional<std::int64_t> number_behind(const std::string& text, const std::string& words) {
  const std::size_t at = text.find(words);
  return at == std::string::npos
             ? std::nullopt
             : std::optional<std::int64_t>(std::atoll(text.c_str() + at + words.size()));
}

/// A kind of events: most are stops, kills and full disks.
struct KindOfEvents {
  Kind kind;
  const char* name;
  std::size_t times;  ///< that it is drawn, of all
};
constexpr KindOfEvents kinds[] = {{Kind::stop, "stop", 3},
                                  {Kind::kill, "kill", 3},
                                  {Kind::full_disk, "full disk", 3},
                                  {Kind::damage_newest, "damage the newest", 1},
                                  {Kind::damage_best, "damage the best", 1},
                                  {Kind::damage_log, "damage the log", 1},
                                  {Kind::change_text, "change the text", 1},
                                  {Kind::change_held_out, "change the held-out text", 1},
                                  {Kind::change_settings, "change the settings", 1},
                                  {Kind::forget_cache, "forget the cache", 1},
                                  {Kind::two_processes, "two processes", 1},
                                  {Kind::evaluate, "evaluate", 2},
                                  {Kind::export_model, "export", 1},
                                  {Kind::train, "train", 1}};

}  // namespace

std::string name_of(const Event& event) {
  for (const auto& [kind, name, times] : kinds)
    if (kind == event.kind)
      return fmt::format("{}({:.3f}, {:.3f}, {})", name, event.moment, event.length, event.choice);
  return "";
}

std::vector<Event> random_events(std::mt19937& random, int count) {
  std::vector<Kind> drawn;
  for (const auto& [kind, name, times] : kinds) drawn.insert(drawn.end(), times, kind);
  const auto share = [&] { return std::uniform_real_distribution<double>()(random); };
  std::vector<Event> events;
  for (int i = 0; i < count; ++i)
    events.push_back(
        {drawn[random() % drawn.size()], share(), share(), static_cast<std::uint32_t>(random())});
  return events;
}

RunLife::RunLife() {
  write_tiny_tokenizer(folder_ / "tokenizer");
  write_lines(folder_ / "text.txt", tiny_lines(300, 1));
  write_lines(folder_ / "held-out.txt", tiny_lines(300, 2));
  // The recipe whose run takes a night, made small. Evaluations take much of the time.
  const std::vector<std::string> small = {"run_dir=run",
                                          "model.hidden_size=16",
                                          "model.num_hidden_layers=1",
                                          "model.num_attention_heads=2",
                                          "model.intermediate_size=32",
                                          "model.max_position_embeddings=24",
                                          "model.attention={num_landmarks: 4, conv_kernel_size: 5}",
                                          "tokenizer={path: tokenizer, train: {vocab_size: null}}",
                                          "data={train: [text.txt], validation: [held-out.txt], "
                                          "documents: lines, sequence_length: 24, cache: cache}",
                                          "schedule.warmup_share=0.1",
                                          "evaluation.every=8",
                                          "checkpoint.every=5",
                                          "logging={every: 1, tensorboard: false}",
                                          "training={batch_size: 8, micro_batch_size: 4, "
                                          "dtype: f32, deterministic: true, epochs: null}",
                                          fmt::format("training.steps={}", last_step)};
  const RunConfig config =
      parse_config(find_recipe("overnight").text, "overnight.yaml", start_defaults, small);
  write_bytes(folder_ / "run.yaml", to_yaml(config));
  const auto begin = Clock::now();
  const int code = outcome(start("", 1));
  seconds_ = std::chrono::duration<double>(Clock::now() - begin).count();
  if (code != 0)
    throw std::runtime_error("the undisturbed run ended with " + std::to_string(code) + ": " +
                             log());
  final_weights_ = file_checksum(checkpoint(last_step) + "/model.safetensors");
}

std::string RunLife::checkpoint(std::int64_t step) const {
  return checkpoint_path(folder_ / "run/checkpoints", step).string();
}

RunLife::Known RunLife::look() const {
  Known known;
  for (const std::int64_t step : checkpoint_steps(folder_ / "run/checkpoints")) {
    if (!checkpoint_problem(checkpoint(step)).empty())
      known.damaged.push_back(step);
    else if (known.newest == 0)
      known.newest = step;
  }
  if (known.newest == 0) return known;
  known.best = RunState::read(checkpoint(known.newest) + "/state.json").best();
  known.best_is_whole = known.best && checkpoint_problem(checkpoint(*known.best)).empty();
  return known;
}

pid_t RunLife::start(const std::string& more, int processes) const {
  fs::remove(folder_ / "log");  // a process that is killed at once writes no log
  const std::string launcher =
      processes == 1 ? "" : mpirun + "-np " + std::to_string(processes) + " ";
  return start_shell(folder_, "trap '' XFSZ; exec " + launcher + program_word() +
                                  "pretrain run.yaml --threads 1 " + more +
                                  " >log 2>&1 </dev/null");
}

std::string RunLife::live(const std::vector<Event>& events) {
  for (const char* name : {"run", "cache", "out"}) fs::remove_all(folder_ / name);
  for (const Event& event : events) {
    ++counts_[name_of(event).substr(0, name_of(event).find('('))];
    const std::string problem = happens(event);
    if (!problem.empty()) return fmt::format("{}: {}\n{}", name_of(event), problem, log());
  }
  const std::string problem = ended();
  return problem.empty() ? "" : "at the end: " + problem + "\n" + log();
}

std::string RunLife::happens(const Event& event) {
  const Known now = look();
  switch (event.kind) {
    case Kind::train:
    case Kind::stop:
    case Kind::kill:
    case Kind::full_disk:
    case Kind::two_processes: return go(event);
    case Kind::damage_newest: return damage(now.newest, event.choice);
    case Kind::damage_best: return damage(now.best_is_whole ? *now.best : 0, event.choice);
    case Kind::damage_log:
      if (const fs::path path = folder_ / "run/metrics.jsonl"; fs::exists(path))
        fs::resize_file(path, static_cast<std::uintmax_t>(
                                  event.moment * static_cast<double>(fs::file_size(path))));
      return "";
    case Kind::change_text:
      return refused("text.txt", "",
                     "its checkpoints come from other data; bring the files of data.train back");
    case Kind::change_held_out:
      return refused(
          "held-out.txt", "",
          "its checkpoints were evaluated on other data; bring the files of data.validation back");
    case Kind::change_settings:
      return refused("", "--set optimizer.learning_rate=1.0e-3",
                     "holds a run with other settings; changed: optimizer.learning_rate (");
    case Kind::forget_cache: fs::remove_all(folder_ / "cache"); return "";
    case Kind::evaluate: return evaluated();
    case Kind::export_model: return exported();
  }
  return "";
}

/// Starts the program, disturbs it, and checks the result.
std::string RunLife::go(const Event& event) {
  const Known before = look();
  const pid_t process = start("", event.kind == Kind::two_processes ? 2 : 1);
  // Open MPI may hang after a signal while its processes connect.
  if (event.kind == Kind::two_processes)
    for (int i = 0; i < 3000 && log().find(" parameters on ") == std::string::npos; ++i)
      sleep_seconds(0.01);
  sleep_seconds(event.moment * seconds_);
  if (event.kind == Kind::stop) ::kill(process, SIGTERM);
  if (event.kind == Kind::two_processes) ::kill(process, SIGUSR1);  // mpirun forwards it
  if (event.kind == Kind::kill) ::kill(process, SIGKILL);
  if (event.kind == Kind::full_disk) {
    limit_files(process, event.choice % 32768);
    if (event.length < 0.8) {  // otherwise the disk stays full
      sleep_seconds(event.length * seconds_);
      limit_files(process, RLIM_INFINITY);
    }
  }
  return trained(event, before, outcome(process));
}

std::string RunLife::trained(const Event& event, const Known& before, int code) {
  const std::string text = log();
  const Known after = look();
  const bool stopped = event.kind == Kind::stop || event.kind == Kind::two_processes,
             full = event.kind == Kind::full_disk;
  if (code == -SIGTERM && stopped && text.empty()) return "";  // before the first line of main
  // mpirun has no handler any more when its processes have ended.
  const bool late = code == -SIGUSR1 && event.kind == Kind::two_processes;
  const bool expected = code == 0 || (code == 130 && stopped) || late ||
                        (code == -SIGKILL && event.kind == Kind::kill) || (code == 2 && full);
  if (!expected) return fmt::format("ended with {}", code);
  const bool training = text.find(" parameters on ") != std::string::npos;
  const auto resumed = number_behind(text, "resuming at step ");
  if (training && resumed.value_or(0) < before.newest)
    return fmt::format("step {} was saved, resumed at {}", before.newest, resumed.value_or(0));
  counts_["resumed"] += resumed.has_value();
  if (after.newest < before.newest)
    return fmt::format("step {} was saved, the newest is now {}", before.newest, after.newest);
  const auto said = number_behind(text, "stopped after step ");
  if (said && after.newest < *said)
    return fmt::format("stopped after step {}, the newest is {}", *said, after.newest);
  if (before.best_is_whole && after.best == before.best && !after.best_is_whole)
    return "the best checkpoint is gone";
  for (const std::int64_t step : before.damaged) {
    if (training && step > before.newest &&
        text.find(checkpoint_name(step) + ": passed over: ") == std::string::npos)
      return fmt::format("nothing is said of the damaged step {}", step);
  }
  // A log that cannot be written does not end a run. Only errors before the first step, or with a
  // checkpoint, do.
  if (code == 2 && training && text.rfind("nystrom: ") != std::string::npos &&
      text.find("/checkpoints/", text.rfind("nystrom: ")) == std::string::npos &&
      text.find("no space", text.rfind("nystrom: ")) == std::string::npos)
    return "ended for something that is no checkpoint";
  return code == 0 ? ended() : "";
}

/// Flips a bit in a file of a checkpoint.
std::string RunLife::damage(std::int64_t step, std::uint32_t choice) {
  if (step == 0) return "";
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(checkpoint(step))) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  const fs::path& file = files[choice % files.size()];
  /// The last line end of a manifest has no meaning.
  std::string bytes = read_bytes(file);
  const std::size_t at = choice / files.size() % (bytes.size() - 1);
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  write_bytes(file, bytes);
  return checkpoint_problem(checkpoint(step)).empty()
             ? "damage to " + file.string() + " is not found"
             : "";
}

/// Starts the program while a file has an additional line, or with more options. It must refuse and
/// change nothing.
std::string RunLife::refused(const std::string& file, const std::string& more,
                             const std::string& cause) {
  const Known before = look();
  if (before.newest == 0) return "";
  std::string bytes;
  fs::file_time_type time;
  if (!file.empty()) {
    bytes = read_bytes(folder_ / file);
    time = fs::last_write_time(folder_ / file);
    write_bytes(folder_ / file, bytes + "the sea was calm\n");
  }
  const int code = outcome(start(more, 1));
  if (!file.empty()) {
    write_bytes(folder_ / file, bytes);
    fs::last_write_time(folder_ / file, time);
  }
  if (code != 2) return fmt::format("ended with {}, not with 2", code);
  if (log().find("nystrom: run: " + cause) == std::string::npos)
    return "the cause is not named: " + cause;
  return look().newest == before.newest ? "" : "another checkpoint is the newest now";
}

/// Evaluates the best checkpoint. A damaged one is skipped with a warning.
std::string RunLife::evaluated() const {
  const Known now = look();
  const Outcome outcome =
      run_program(folder_, "evaluate run --text held-out.txt --json --threads 1");
  if (now.newest == 0)
    return outcome.code == 2 ? "" : fmt::format("evaluate of nothing ended with {}", outcome.code);
  if (outcome.code != 0) return "evaluate: " + outcome.err;
  const bool passed_over = outcome.err.find("passed over") != std::string::npos;
  if (now.best && !now.best_is_whole && !passed_over)
    return "evaluate took another checkpoint in the place of the damaged best one without a word";
  return "";
}

std::string RunLife::exported() const {
  if (look().newest == 0) return "";
  const Outcome outcome = run_program(folder_, "export run out --attention softmax --threads 1");
  fs::remove_all(folder_ / "out");
  if (outcome.code != 0) return "export: " + outcome.err;
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    if (entry.path().filename().string().starts_with("out"))
      return "left behind: " + entry.path().string();
  return "";
}

/// Trains the run to its end, which must equal the undisturbed run. A new run then begins.
std::string RunLife::ended() {
  const int code = outcome(start("", 1));
  if (code != 0) return fmt::format("ended with {}", code);
  const std::string weights = checkpoint(last_step) + "/model.safetensors";
  if (!fs::exists(weights)) return "the last step was not saved";
  if (file_checksum(weights) != final_weights_)
    return "other weights than those of the undisturbed run";
  std::ifstream records(folder_ / "run/metrics.jsonl");
  for (std::string line; std::getline(records, line);)
    if (!nlohmann::json::accept(line)) return "metrics.jsonl has a line that is no record: " + line;
  const std::string left = leftovers();
  fs::remove_all(folder_ / "run");
  return left;
}

/// The next start removes leftovers of a crash that are not needed any more.
std::string RunLife::leftovers() const {
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
    const std::string name = entry.path().filename().string();
    const bool trash = name.find(".tmp-") != std::string::npos || name.starts_with(".trash-") ||
                       name.ends_with(replaced_suffix);
    if (trash) return "left behind: " + entry.path().string();
  }
  return "";
}

std::vector<Event> RunLife::fewest(std::vector<Event> events) {
  for (std::size_t i = events.size(); i-- > 0;) {
    std::vector<Event> without = events;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    if (!live(without).empty()) events = without;
  }
  return events;
}

}  // namespace nystrom::testing
