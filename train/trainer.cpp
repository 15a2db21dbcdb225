#include "train/trainer.h"

#include <algorithm>
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
#include "train/mask_samples.h"
#include "train/model_folder.h"
#include "train/optimizer_files.h"
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
  Run(const RunConfig& config, Objective& objective, Log& log, Device device, Communicator& communicator);
  RunResult train();

 private:
  void start_weights();
  void start_average();
  void resume();
  void step(const StopSignals& stop, Progress& progress);
  void report(const ObjectiveStep& done, double learning_rate, double seconds, Progress& progress);
  std::optional<std::int64_t> newest_of_first();
  bool evaluation_due() const;
  bool evaluate(const StopSignals& stop);
  void save();
  void require_same_weights();
  void while_averaged(const std::function<void()>& f);
  std::vector<NamedSlab> optimizer_slabs() const;
  std::vector<CheckpointFolder::File> checkpoint_files(const Tensor& masters, std::vector<NamedTensor> optimizer_tensors);

  RunConfig config_;
  Objective& objective_;
  Log& log_;
  Device device_;
  Communicator& communicator_;
  bool sharded_;  // masters and moments are spread over the processes
  Model model_;
  std::optional<GradientSum> gradient_sum_;  // where there may be more than one process, or their number must not matter
  std::optional<Optimizer> optimizer_;
  std::optional<WeightAverage> average_;
  AttentionMonitor attention_;
  CheckpointFolder checkpoints_;
  std::optional<MetricsLog> metrics_;  // of the first process
  std::optional<RecordLog> samples_;   // once there are some
  RunState state_;
  std::int64_t steps_, evaluation_interval_;
  std::string settings_;  // a hash of config_
  std::string saved_;     // the state in the newest checkpoint
  bool stop_agreed_ = false;
  struct {
    double working = 0, waiting = 0;
  } communication_;  // seconds of the last step
};

Run::Run(const RunConfig& config, Objective& objective, Log& log, Device device, Communicator& communicator)
    : config_(config),
      objective_(objective),
      log_(log),
      device_(device),
      communicator_(communicator),
      sharded_(communicator.is_connected() && config.training.zero > 0),
      model_(config.model),
      attention_(config, log),
      checkpoints_(fs::path(config.run_dir) / "checkpoints", config.checkpoint.keep),
      steps_(total_steps(config.training, objective.samples())),
      evaluation_interval_(evaluation_interval(config, objective.samples())),
      settings_(text_checksum(to_yaml(config))) {
  if (communicator.is_connected() || config.training.deterministic)
    gradient_sum_.emplace(model_.parameters(), communicator, objective.micro_batch_ranks(),
                          GradientSumOptions{config.training.deterministic, sharded_, config.training.reduction == Reduction::bf16});
  const auto own_range = sharded_ ? std::optional(gradient_sum_->own_range()) : std::nullopt;
  model_.parameters().allocate(config.training.dtype, StoreMode::training, device, own_range);
  optimizer_.emplace(model_.parameters(), config.optimizer, own_range);
  const DataIdentity identity = objective_.identity();
  state_.tokenizer = identity.tokenizer;
  state_.data = identity.data;
  communicator.require_same_files(identity.option, fmt::format("{} {} {}", identity.tokenizer, identity.data, objective.samples()));
  if (communicator.is_first()) checkpoints_.remove_leftovers();
  resume();
  if (communicator.is_first()) metrics_.emplace(config.run_dir, state_.step, config.logging.tensorboard);
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

/// The newest whole checkpoint, as the first process finds it.
std::optional<std::int64_t> Run::newest_of_first() {
  std::optional<std::int64_t> newest;
  std::vector<std::string> passed_over;
  if (communicator_.is_first()) newest = newest_checkpoint(fs::path(config_.run_dir) / "checkpoints", passed_over);
  for (const std::string& line : passed_over) log_.warn(line);
  const auto step = static_cast<std::int64_t>(communicator_.sum(communicator_.is_first() ? static_cast<double>(newest.value_or(-1)) : 0));
  return step < 0 ? std::nullopt : std::optional(step);
}

void Run::start_average() {
  if (!config_.training.ema) return;
  average_.emplace(model_.parameters(), *config_.training.ema, optimizer_->range(), [this] {
    if (gradient_sum_) gradient_sum_->share_parameters();
  });
}

/// Runs f while the model has its averaged weights, if there are any.
void Run::while_averaged(const std::function<void()>& f) {
  if (average_)
    average_->while_exchanged(f);
  else
    f();
}

void Run::resume() {
  const auto newest = newest_of_first();
  if (!newest) {
    start_weights();
    start_average();
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
  const OptimizerFiles rest(folder);
  ParameterStore& store = model_.parameters();
  start_average();
  while_averaged([&] {  // model.safetensors holds the average
    for (const Parameter& parameter : store.parameters()) store.set(parameter.name(), weights.read(parameter.name()));
    for (const NamedSlab& slab : optimizer_slabs()) rest.read(store, optimizer_->range(), slab);
  });
  optimizer_->set_steps_taken(state_.updates);
  if (communicator_.is_first()) checkpoints_.remove_old(state_.step, state_.best());
  log_.say(fmt::format("resuming at step {}", state_.step));
}

/// While the model has its averaged weights, the average is what is trained.
std::vector<NamedSlab> Run::optimizer_slabs() const {
  std::vector<NamedSlab> slabs = {{"moment1", optimizer_->moment1()}, {"moment2", optimizer_->moment2()}};
  if (average_) slabs.push_back({"weight", average_->slab()});
  return slabs;
}

std::vector<CheckpointFolder::File> Run::checkpoint_files(const Tensor& masters, std::vector<NamedTensor> optimizer_tensors) {
  const std::vector<NamedTensor> weights = weight_tensors(model_, masters);
  std::vector<CheckpointFolder::File> files = optimizer_files(std::move(optimizer_tensors), sharded_, communicator_);
  files.push_back({"model.safetensors", [weights](const fs::path& path) { return write_safetensors(path, weights); }});
  files.push_back(CheckpointFolder::text_file("state.json", state_.to_json()));
  files.push_back(CheckpointFolder::text_file("config.json", hf_config_text(config_.model)));
  files.push_back(CheckpointFolder::text_file("config.yaml", to_yaml(config_)));
  for (const TokenizerFile& file : objective_.tokenizer_files()) {
    files.push_back(CheckpointFolder::text_file(file.name, file.content));
  }
  return files;
}

/// A fault of one machine must not get into a checkpoint, nor go on unseen.
void Run::require_same_weights() {
  if (communicator_.size() == 1) return;
  const ParameterStore& store = model_.parameters();
  const Tensor weights = (sharded_ ? store.values() : store.masters()).to(cpu_device);
  Checksum checksum;
  checksum.update(CView(weights).data, static_cast<std::size_t>(weights.bytes()));
  const auto other = communicator_.first_to_differ(checksum.hex());
  if (!other) return;
  throw Error(
      fmt::format("step {}: {} has other weights than {}: the memory or the processor of one of them is at fault; nothing was saved",
                  state_.step, communicator_.name_of(*other), communicator_.name_of(0)));
}

void Run::save() {
  if (saved_ == state_.to_json()) return;
  require_same_weights();
  const ParameterStore& store = model_.parameters();
  while_averaged([&] {
    const Tensor masters = gradient_sum_ ? gradient_sum_->masters_for_first() : store.masters();
    if (!communicator_.is_first() && !sharded_) return;
    std::vector<NamedTensor> tensors = tensors_of(store, optimizer_->range(), optimizer_slabs());
    if (communicator_.is_first()) {
      const std::int64_t bytes = (average_ ? 4 : 3) * masters.bytes() + (std::int64_t{1} << 20);
      checkpoints_.save(state_.step, checkpoint_files(masters, std::move(tensors)), bytes, state_.best());
      if (sharded_) end_optimizer_files(communicator_);
    } else {
      write_own_optimizer_files(tensors, communicator_);
    }
  });
  saved_ = state_.to_json();
}

bool Run::evaluation_due() const {
  const bool now = state_.step % evaluation_interval_ == 0 || state_.step == steps_;
  return now && state_.step > state_.evaluated_step;
}

/// Scores the model on the held-out data, and saves a checkpoint when it is the best so far. False, with nothing changed, when asked to
/// stop; several processes come to an end first.
bool Run::evaluate(const StopSignals& stop) {
  struct Stopped {};
  Score score;
  std::string samples;
  try {
    while_averaged([&] {
      score = objective_.evaluate(model_, [&](std::int64_t done, std::int64_t total) {
        if (communicator_.size() == 1 && stop.requested()) throw Stopped();
        log_.draw(fmt::format("step {}: evaluating, {}/{}", state_.step, done, total));
      });
      if (communicator_.is_first()) samples = objective_.samples(model_, state_.step);
    });
  } catch (const Stopped&) {
    return false;  // a resumed run evaluates before it goes on
  }
  Metrics recorded;
  for (const auto& [name, value] : score.metrics) recorded.emplace_back("validation_" + name, value);
  if (metrics_) metrics_->write(state_.step, recorded);
  if (!samples.empty()) {
    if (!samples_) samples_.emplace(fs::path(config_.run_dir) / mask_samples_file, state_.step - 1);
    samples_->write(samples);
  }
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

void Run::step(const StopSignals& stop, Progress& progress) {
  const auto start = Clock::now();
  communication_ = {-communicator_.working_seconds(), -communicator_.waiting_seconds()};
  const std::int64_t number = state_.step + 1;
  StepOptions options;
  options.learning_rate = learning_rate(config_.optimizer.learning_rate, config_.schedule, steps_, number);
  options.clip_norm = config_.optimizer.clip_norm;
  options.seed = static_cast<std::uint64_t>(config_.seed);
  options.step = static_cast<std::uint64_t>(number);
  options.activation_checkpointing = config_.training.activation_checkpointing;
  if (communicator_.is_first()) attention_.begin(number, options);
  options.gradient_sum = gradient_sum_ ? &*gradient_sum_ : nullptr;
  ObjectiveStep done = objective_.step(model_, *optimizer_, options);
  const std::vector<double> of_all = communicator_.sum({static_cast<double>(done.tokens), stop.requested() ? 1.0 : 0.0});
  done.tokens = static_cast<std::int64_t>(of_all[0]);
  stop_agreed_ = of_all[1] > 0;
  communication_.working += communicator_.working_seconds();
  communication_.waiting += communicator_.waiting_seconds();
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
    if (communicator_.is_connected())
      metrics.insert(metrics.end(), {{"communication_seconds", communication_.working}, {"waiting_seconds", communication_.waiting}});
    if (metrics_) metrics_->write(state_.step, metrics);
  }
  const std::string accuracy = result.accuracy ? fmt::format(", accuracy {:.1f} %", 100 * *result.accuracy) : "";
  progress.update(state_.step,
                  fmt::format("loss {:.4f}{}, {:.0f} tokens/s, {:.2f} GB", result.loss, accuracy, tokens_per_second, memory / 1e9), record);
}

RunResult Run::train() {
  const StopSignals stop;
  objective_.start(state_.step);
  Progress progress("step", state_.step, steps_, log_);
  std::string place = device_.is_cpu() ? fmt::format("{} threads", num_threads()) : device_.name();
  if (communicator_.size() > 1) place += fmt::format(" in each of {} processes", communicator_.size());
  log_.say(fmt::format("training {} parameters on {} in {}, to step {}", model_.parameters().count(), place, config_.run_dir, steps_));
  const auto patience = config_.evaluation.early_stop_patience;
  const auto stalled = [&] { return patience && state_.evaluations_since_best >= *patience; };
  const auto asked_to_stop = [&] { return communicator_.size() == 1 ? stop.requested() : stop_agreed_; };
  for (;;) {
    if (evaluation_due() && (asked_to_stop() || !evaluate(stop))) break;
    if (state_.step > 0 && state_.step % config_.checkpoint.every == 0) save();
    if (state_.step >= steps_ || asked_to_stop() || stalled()) break;
    step(stop, progress);
  }
  save();
  communicator_.barrier();
  if (stalled()) {
    log_.say(fmt::format("stopped early: {} evaluations without a better {} than step {}'s", *patience, objective_.judged_by(),
                         state_.best_step));
  }
  return {state_.step, state_.best(), state_.best_value, objective_.judged_by(), !stalled() && (state_.step < steps_ || evaluation_due())};
}

}  // namespace

void check_run(const RunConfig& config) {
  check_run_dir(config);
  check_run_start(config);
}

void check_run_start(const RunConfig& config) {
  if (!config.start.from || !checkpoint_steps(fs::path(config.run_dir) / "checkpoints").empty()) return;
  Log quiet(true);
  check_start(config.model, open_model_folder(*config.start.from, {}, quiet), config.start.fresh_head);
}

namespace {

/// All processes were given the same.
void require_same_config(const RunConfig& config, Communicator& communicator) {
  const auto other = communicator.first_to_differ(text_checksum(to_yaml(config)));
  if (!other) return;
  throw InputError(fmt::format("{} has another configuration than {}: give all processes the same file and options",
                               communicator.name_of(*other), communicator.name_of(0)));
}

/// A batch that is large enough for all processes.
void require_work_for_all(const TrainingConfig& training, bool task, int processes) {
  const std::int64_t batch = training.batch_size, micro = training.micro_batch_size, parts = (batch + micro - 1) / micro;
  require_input(batch >= processes, "training.batch_size {} leaves some of {} processes without a sequence; raise it, or start fewer",
                batch, processes);
  // Tasks divide a step by length, in whole micro-batches.
  require_input(!task || parts >= processes,
                "training.batch_size {} makes {} micro-batches of training.micro_batch_size {}, too few for {} processes; set "
                "training.micro_batch_size to {} or less",
                batch, parts, micro, processes, batch / processes);
  require_input(task || !training.deterministic || batch % (micro * processes) == 0,
                "training.deterministic with {} processes needs a batch_size that is divisible by {} x micro_batch_size {}; got {}",
                processes, processes, micro, batch);
}

}  // namespace

RunResult train_run(RunConfig config, const MakeObjective& make, Log& log, Device device, Communicator& communicator) {
  require_same_config(config, communicator);
  require_work_for_all(config.training, has_task(config), communicator.size());
  std::optional<RunLock> lock;
  if (communicator.is_first()) {
    check_run_place(config.run_dir);
    make_folders(config.run_dir);
    lock.emplace(config.run_dir);
    log.append_to(fs::path(config.run_dir) / "log.txt");
  }
  try {
    const std::unique_ptr<Objective> objective = make(config);
    const Communicator::TimeLimit limit(communicator, fs::path(config.run_dir) / ".waiting", config.training.timeout);
    if (communicator.is_first()) settle_config(config);
    return Run(config, *objective, log, device, communicator).train();
  } catch (const Error& error) {
    log.record(fmt::format("error: {}", error.what()));
    throw;
  }
}

}  // namespace nystrom
