#include "train/trainer.h"

#include <chrono>
#include <cmath>
#include <filesystem>

#include "core/check.h"
#include "core/checksum.h"
#include "core/cpu/parallel.h"
#include "core/file_io.h"
#include "core/kernels.h"
#include "data/loader.h"
#include "train/attention_monitor.h"
#include "train/checkpoint.h"
#include "train/config_io.h"
#include "train/hf_config.h"
#include "train/model_folder.h"
#include "train/progress.h"
#include "train/run_state.h"
#include "train/schedule.h"
#include "train/stop_signals.h"
#include "train/weight_average.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

static_assert(label_of_unchosen == ignored_label);

/// One run while it trains.
class Run {
 public:
  Run(const RunConfig& config, Objective& objective, Log& log, Device device);
  RunResult train();

 private:
  void start_weights();
  void resume();
  void step(Progress& progress);
  void report(const ObjectiveStep& done, double learning_rate, double seconds, Progress& progress);
  bool evaluation_due() const;
  bool evaluate(const StopSignals& stop);
  void save();
  std::vector<CheckpointFolder::File> checkpoint_files();

  RunConfig config_;
  Objective& objective_;
  Log& log_;
  Device device_;
  Model model_;
  std::optional<AdamW> optimizer_;
  std::optional<WeightAverage> average_;
  AttentionMonitor attention_;
  CheckpointFolder checkpoints_;
  std::optional<MetricsLog> metrics_;
  RunState state_;
  std::int64_t steps_, evaluation_interval_;
  std::string settings_;  // a hash of config_
  std::string saved_;     // the state in the newest checkpoint
};

Run::Run(const RunConfig& config, Objective& objective, Log& log, Device device)
    : config_(config),
      objective_(objective),
      log_(log),
      device_(device),
      model_(config.model),
      attention_(config, log),
      checkpoints_(fs::path(config.run_dir) / "checkpoints", config.checkpoint.keep),
      steps_(total_steps(config.training, objective.samples())),
      evaluation_interval_(evaluation_interval(config, objective.samples())),
      settings_(text_checksum(to_yaml(config))) {
  model_.parameters().allocate(config.training.dtype, StoreMode::training, device);
  optimizer_.emplace(model_.parameters(), config.optimizer);
  const DataIdentity identity = objective_.identity();
  state_.tokenizer = identity.tokenizer;
  state_.data = identity.data;
  checkpoints_.remove_leftovers();
  resume();
  metrics_.emplace(config.run_dir, state_.step, config.logging.tensorboard);
}

void Run::start_weights() {
  const auto seed = static_cast<std::uint64_t>(config_.seed);
  if (config_.start.from) {
    const ModelFolder folder = open_model_folder(*config_.start.from, {}, log_);
    log_.say(initialise_from(model_, folder, seed, config_.start.fresh_head).summary(folder.path));
  } else {
    model_.parameters().initialise(seed, config_.model.initializer_range);
  }
}

void Run::resume() {
  std::vector<std::string> passed_over;
  const auto newest = newest_checkpoint(fs::path(config_.run_dir) / "checkpoints", passed_over);
  for (const std::string& line : passed_over) log_.warn(line);
  if (!newest) {
    start_weights();
    if (config_.training.ema) average_.emplace(model_.parameters(), *config_.training.ema);
    return;
  }
  const fs::path folder = checkpoints_.path_of(*newest);
  const RunState saved = RunState::read(folder / "state.json");
  const bool same_tokenizer = saved.tokenizer == state_.tokenizer;
  require_input(same_tokenizer && saved.data == state_.data,
                "{}: its checkpoints come from {}; bring the files of {} back as they were, or choose another run_dir", config_.run_dir,
                same_tokenizer ? "other text" : "another tokenizer", objective_.identity().option);
  saved_ = saved.to_json();
  state_ = saved;
  const auto weights = SafetensorsFile::open(folder / "model.safetensors");
  const auto moments = SafetensorsFile::open(folder / "optimizer.safetensors");
  ParameterStore& store = model_.parameters();
  if (config_.training.ema) average_.emplace(store, *config_.training.ema);
  const WithAveragedWeights averaged(average_);  // model.safetensors holds them
  for (const Parameter& parameter : store.parameters()) {
    const std::string& name = parameter.name();
    store.set(name, weights.read(name));
    if (average_) kernels::copy(moments.read("weight." + name).to(device_), store.part_of(average_->slab(), name));
    kernels::copy(moments.read("moment1." + name).to(device_), store.part_of(optimizer_->moment1(), name));
    kernels::copy(moments.read("moment2." + name).to(device_), store.part_of(optimizer_->moment2(), name));
  }
  optimizer_->set_steps_taken(state_.updates);
  checkpoints_.remove_old(state_.step, state_.best());
  log_.say(fmt::format("resuming at step {}", state_.step));
}

/// To be called while the model has its averaged weights.
std::vector<CheckpointFolder::File> Run::checkpoint_files() {
  const ParameterStore& store = model_.parameters();
  const std::vector<NamedTensor> weights = weight_tensors(model_);
  std::vector<NamedTensor> moments;
  for (const Parameter& parameter : store.parameters()) {
    const std::string& name = parameter.name();
    moments.push_back({"moment1." + name, store.part_of(optimizer_->moment1(), name).to(cpu_device)});
    moments.push_back({"moment2." + name, store.part_of(optimizer_->moment2(), name).to(cpu_device)});
    if (average_) moments.push_back({"weight." + name, store.part_of(average_->slab(), name).to(cpu_device)});
  }
  std::vector<CheckpointFolder::File> files = {
      {"model.safetensors", [weights](const fs::path& path) { return write_safetensors(path, weights); }},
      {"optimizer.safetensors", [moments](const fs::path& path) { return write_safetensors(path, moments); }},
      CheckpointFolder::text_file("state.json", state_.to_json()),
      CheckpointFolder::text_file("config.json", hf_config_text(config_.model)),
      CheckpointFolder::text_file("config.yaml", to_yaml(config_))};
  for (const TokenizerFile& file : objective_.tokenizer_files()) {
    files.push_back(CheckpointFolder::text_file(file.name, file.content));
  }
  return files;
}

void Run::save() {
  if (saved_ == state_.to_json()) return;
  const WithAveragedWeights averaged(average_);
  const std::int64_t bytes = (average_ ? 4 : 3) * model_.parameters().masters().bytes() + (std::int64_t{1} << 20);
  checkpoints_.save(state_.step, checkpoint_files(), bytes, state_.best());
  saved_ = state_.to_json();
}

bool Run::evaluation_due() const {
  const bool now = state_.step % evaluation_interval_ == 0 || state_.step == steps_;
  return now && state_.step > state_.evaluated_step;
}

/// Scores the model on the held-out data, and saves a checkpoint when it is the best so far. False, with nothing changed, when asked to
/// stop.
bool Run::evaluate(const StopSignals& stop) {
  struct Stopped {};
  Score score;
  try {
    const WithAveragedWeights averaged(average_);
    score = objective_.evaluate(model_, [&](std::int64_t done, std::int64_t total) {
      if (stop.requested()) throw Stopped();
      log_.draw(fmt::format("step {}: evaluating, {}/{}", state_.step, done, total));
    });
  } catch (const Stopped&) {
    return false;  // a resumed run evaluates before it goes on
  }
  Metrics recorded;
  for (const auto& [name, value] : score.metrics) recorded.emplace_back("validation_" + name, value);
  metrics_->write(state_.step, recorded);
  const auto& best = state_.best_value;
  const bool better = std::isfinite(score.value) && (!best || (objective_.higher_is_better() ? score.value > *best : score.value < *best));
  state_.evaluated_step = state_.step;
  state_.evaluations_since_best = better ? 0 : state_.evaluations_since_best + 1;
  if (better) {
    state_.best_value = score.value;
    state_.best_step = state_.step;
    save();  // so that the best is always on disk
  }
  log_.say(fmt::format("step {}: validation {}{}", state_.step, score.text, better ? " (best so far)" : ""));
  return true;
}

void Run::step(Progress& progress) {
  const auto start = Clock::now();
  const std::int64_t number = state_.step + 1;
  StepOptions options;
  options.learning_rate = learning_rate(config_.optimizer.learning_rate, config_.schedule, steps_, number);
  options.clip_norm = config_.optimizer.clip_norm;
  options.seed = static_cast<std::uint64_t>(config_.seed);
  options.step = static_cast<std::uint64_t>(number);
  options.activation_checkpointing = config_.training.activation_checkpointing;
  attention_.begin(number, options);
  const ObjectiveStep done = objective_.step(model_, *optimizer_, options);
  state_.step = number;
  state_.settings = settings_;
  state_.version = NYSTROM_VERSION;
  state_.updates = optimizer_->steps_taken();
  if (average_ && !done.result.skipped) average_->update();
  state_.skipped_in_a_row = done.result.skipped ? state_.skipped_in_a_row + 1 : 0;
  if (done.result.skipped) log_.warn(fmt::format("step {} skipped: its gradient is not finite", number));
  if (state_.skipped_in_a_row == 3) {
    throw InputError(
        fmt::format("steps {} to {} had no finite gradient; lower optimizer.learning_rate or lengthen the warm-up, in a new run_dir",
                    number - 2, number));
  }
  report(done, options.learning_rate, std::chrono::duration<double>(Clock::now() - start).count(), progress);
}

void Run::report(const ObjectiveStep& done, double learning_rate, double seconds, Progress& progress) {
  const Metrics of_attention = attention_.end();
  const bool record = state_.step % config_.logging.every == 0 || state_.step == steps_ || !of_attention.empty();
  const StepResult& result = done.result;
  const double tokens_per_second = static_cast<double>(done.tokens) / seconds;
  const auto memory = static_cast<double>(Arena::of(device_).statistics().peak_in_use_bytes);
  if (record) {
    Metrics metrics = {{"loss", result.loss}};
    if (result.accuracy) metrics.emplace_back("accuracy", *result.accuracy);
    if (result.order_accuracy) metrics.emplace_back("sentence_order_accuracy", *result.order_accuracy);
    metrics.insert(metrics.end(), {{"learning_rate", learning_rate},
                                   {"grad_norm", result.gradient_norm},
                                   {"tokens_per_second", tokens_per_second},
                                   {"peak_memory_bytes", memory}});
    metrics.insert(metrics.end(), of_attention.begin(), of_attention.end());
    metrics_->write(state_.step, metrics);
  }
  const std::string accuracy = result.accuracy ? fmt::format(", accuracy {:.1f} %", 100 * *result.accuracy) : "";
  progress.update(state_.step,
                  fmt::format("loss {:.4f}{}, {:.0f} tokens/s, {:.2f} GB", result.loss, accuracy, tokens_per_second, memory / 1e9), record);
}

RunResult Run::train() {
  const StopSignals stop;
  objective_.start(state_.step);
  Progress progress("step", state_.step, steps_, log_);
  const std::string place = device_.is_cpu() ? fmt::format("{} threads", num_threads()) : device_.name();
  log_.say(fmt::format("training {} parameters on {} in {}, to step {}", model_.parameters().count(), place, config_.run_dir, steps_));
  const auto patience = config_.evaluation.early_stop_patience;
  const auto stalled = [&] { return patience && state_.evaluations_since_best >= *patience; };
  for (;;) {
    if (evaluation_due() && !evaluate(stop)) break;
    if (state_.step > 0 && state_.step % config_.checkpoint.every == 0) save();
    if (state_.step >= steps_ || stop.requested() || stalled()) break;
    step(progress);
  }
  save();
  if (stalled()) {
    log_.say(fmt::format("stopped early: {} evaluations without a better {} than step {}'s", *patience, objective_.judged_by(),
                         state_.best_step));
  }
  return {state_.step, state_.best(), state_.best_value, objective_.judged_by(), !stalled() && (state_.step < steps_ || evaluation_due())};
}

}  // namespace

void check_run(const RunConfig& config) {
  check_run_dir(config);
  if (!config.start.from || !checkpoint_steps(fs::path(config.run_dir) / "checkpoints").empty()) return;
  Log quiet(true);
  check_start(config.model, open_model_folder(*config.start.from, {}, quiet), config.start.fresh_head);
}

RunResult train_run(RunConfig config, const MakeObjective& make, Log& log, Device device) {
  check_run_place(config.run_dir);
  fs::create_directories(config.run_dir);
  const RunLock lock(config.run_dir);
  log.append_to(fs::path(config.run_dir) / "log.txt");
  try {
    const std::unique_ptr<Objective> objective = make(config);
    settle_config(config);
    return Run(config, *objective, log, device).train();
  } catch (const Error& error) {
    log.record(fmt::format("error: {}", error.what()));
    throw;
  }
}

}  // namespace nystrom
