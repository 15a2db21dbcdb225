#include "train/loop/trainer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/base/checksum.h"
#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/base/stop_signals.h"
#include "core/check.h"
#include "core/threads.h"
#include "train/config/config_io.h"
#include "train/loop/run_logger.h"
#include "train/loop/trained_model.h"
#include "train/optim/schedule.h"
#include "train/state/checkpoint.h"
#include "train/state/hf_config.h"
#include "train/state/run_state.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

/// The interval at which processes compare their weights; they also compare before each save.
constexpr std::int64_t steps_between_comparisons = 100;

std::string fault_at(std::int64_t step) {
  return fmt::format("at step {} the memory or the processor of one of them is at fault; ", step);
}

/// A hash of the weights of model.from; empty without them: a run that goes on does without.
std::string start_checksum(const RunSpec& spec) {
  return spec.start && spec.start->has_weights() ? spec.start->weights().checksum() : "";
}

/// Throws an InputError if a checkpoint belongs to others than these data and first weights.
void require_same(const RunSpec& spec, const RunData& data, const std::string& start,
                  const RunState& saved) {
  const auto require = [&](bool same, const char* what, const std::string& option) {
    require_input(same,
                  "{}: its checkpoints {}; bring the files of {} back as they were, or choose "
                  "another run_dir",
                  printable_path(spec.options.run_dir), what, option);
  };
  require(saved.tokenizer == data.tokenizer, "come from another tokenizer", tokenizer_option(spec));
  require(saved.data == data.data, "come from other data", training_option(spec));
  require(saved.validation == data.validation, "were evaluated on other data",
          validation_option(spec));
  require(saved.teacher == data.teacher, "had another teacher", "distillation.teacher");
  require(saved.start.empty() || start.empty() || saved.start == start,
          "started from other weights, those that log.txt names", "model.from");
}

/// The state of one run in training.
class Run {
 public:
  Run(const RunSession& session, const RunSpec& spec, Objective& objective, Device device,
      const RunObserver& observer);
  RunResult train();
  /// Whether more steps are done than the options ask for.
  bool is_longer() const { return state_.step > steps_; }
  /// The result of the run so far.
  RunResult result() const {
    return {state_.step, state_.best(), state_.best_value, data_.metric_name, false};
  }

 private:
  std::optional<std::int64_t> newest_of_first(
      std::int64_t last = std::numeric_limits<std::int64_t>::max());
  void resume();
  void restore_checkpoint(std::int64_t step);
  void warn_of_newer_files(const fs::path& state) const;
  void warn_of_raised_rate() const;
  void roll_back(const std::string& spike);
  void remove_old();
  void step(const StopSignals& stop);
  void judge(const StepResult& result);
  void begin_stage(const std::string& stage);
  void watch_loss(double loss);
  bool evaluation_due() const;
  bool evaluate(const StopSignals& stop);
  void save();
  void save_as_planned();

  const RunSession& session_;
  const RunSpec& spec_;
  const RunConfig& config_;
  Objective& objective_;
  const RunData& data_;
  Log& log_;
  Device device_;
  Communicator& communicator_;
  const RunObserver& observer_;
  TrainedModel trained_;
  CheckpointFolder checkpoints_;
  std::optional<RunLogger> report_;  // while it trains
  RunState state_;
  std::int64_t steps_, evaluation_interval_;
  std::string settings_;      // hash of config_
  std::string saved_;         // state in the newest checkpoint
  bool stop_wanted_ = false;  // by the observer
  bool stop_agreed_ = false;
};

Run::Run(const RunSession& session, const RunSpec& spec, Objective& objective, Device device,
         const RunObserver& observer)
    : session_(session),
      spec_(spec),
      config_(spec.options),
      objective_(objective),
      data_(objective.data()),
      log_(session.log()),
      device_(device),
      communicator_(session.communicator()),
      observer_(observer),
      trained_(spec, data_.micro_batch_ranks, device, communicator_),
      checkpoints_(fs::path(config_.run_dir) / "checkpoints", config_.checkpoint.keep,
                   [this](const std::string& line) { log_.warn(line); }),
      steps_(total_steps(config_.training, data_.samples)),
      evaluation_interval_(evaluation_interval(config_, data_.samples)),
      settings_(text_checksum(to_yaml(config_))) {
  state_.tokenizer = data_.tokenizer;
  state_.data = data_.data;
  state_.validation = data_.validation;
  state_.teacher = data_.teacher;
  state_.start = start_checksum(spec);
  if (config_.training.dtype == DType::f16) state_.loss_scale.emplace();
  // Losses of tasks vary too much: in a nearly solved task, a single wrong answer is a spike.
  if (!has_task(config_)) state_.losses.emplace();
  communicator_.require_same_files(tokenizer_option(spec), data_.tokenizer);
  communicator_.require_same_files(training_option(spec),
                                   fmt::format("{} {}", data_.data, data_.samples));
  communicator_.require_same_files(validation_option(spec), data_.validation);
  communicator_.require_same_files("distillation.teacher", data_.teacher);
  if (communicator_.is_first()) checkpoints_.remove_leftovers();
  resume();
}

/// The newest intact checkpoint of step `last` or before, as rank 0 finds it.
std::optional<std::int64_t> Run::newest_of_first(std::int64_t last) {
  std::optional<std::int64_t> newest;
  std::vector<std::string> passed_over;
  if (communicator_.is_first())
    newest = newest_checkpoint(fs::path(config_.run_dir) / "checkpoints", passed_over, last);
  for (const std::string& line : passed_over) log_.warn(line);
  const auto step = static_cast<std::int64_t>(
      communicator_.sum(communicator_.is_first() ? static_cast<double>(newest.value_or(-1)) : 0));
  return step < 0 ? std::nullopt : std::optional(step);
}

void Run::resume() {
  const auto newest = newest_of_first();
  if (!newest) {
    communicator_.require_same_files("model.from", state_.start);
    std::error_code absent;
    if (communicator_.is_first() &&
        fs::file_size(fs::path(config_.run_dir) / "metrics.jsonl", absent) > 0 && !absent)
      log_.warn(
          fmt::format("{}: has no checkpoint to go on from; starting again at step 0, with "
                      "new records",
                      printable_path(config_.run_dir)));
    return trained_.initialise(log_, data_.first_value);
  }
  restore_checkpoint(*newest);
  warn_of_newer_files(checkpoints_.path_of(*newest) / "state.json");
  warn_of_raised_rate();
  if (!is_longer()) remove_old();  // a killed run may not have removed them
  log_.say(fmt::format("resuming at step {}", state_.step));
}

/// Restores the run's state from a checkpoint.
void Run::restore_checkpoint(std::int64_t step) {
  const fs::path folder = checkpoints_.path_of(step);
  const fs::path manifest = folder / checkpoint_manifest;
  communicator_.require_same_files(printable_path(folder),
                                   fs::exists(manifest) ? file_checksum(manifest) : "absent");
  RunState saved = RunState::read(folder / "state.json");
  require_same(spec_, data_, state_.start, saved);
  require_input(saved.loss_scale.has_value() == state_.loss_scale.has_value(),
                "{}: was not written by a run in training.dtype {}",
                printable_path(folder / "state.json"), config_.training.dtype);
  require_input(saved.losses.has_value() == state_.losses.has_value(),
                "{}: was not written by a run of {}", printable_path(folder / "state.json"),
                has_task(config_) ? "fine-tuning" : "pretraining");
  trained_.read(folder, saved.updates);
  saved_ = saved.to_json();
  if (saved.start.empty()) saved.start = state_.start;
  state_ = std::move(saved);
}

/// Warns of large files that were written after a checkpoint: other numbers in them may be unknown.
void Run::warn_of_newer_files(const fs::path& state) const {
  std::error_code error;
  const fs::file_time_type then = fs::last_write_time(state, error);
  std::vector<fs::path> newer;
  for (const fs::path& file : data_.large_files)
    if (fs::last_write_time(file, error) > then) newer.push_back(file);
  if (newer.empty()) return;
  log_.warn(
      fmt::format("{}: {} of {} large files of features, the first {}, were written after it, and "
                  "of such files 16 rows are compared; if others have changed, choose another "
                  "run_dir",
                  printable_path(state.parent_path()), newer.size(), data_.large_files.size(),
                  printable_path(newer[0])));
}

/// Warns where the options raise the learning rate of the next step above that of the saved run.
void Run::warn_of_raised_rate() const {
  const std::int64_t next = state_.step + 1;
  if (!spec_.saved.options || next > steps_) return;
  const auto rate = [&](const RunConfig& config) {
    const std::int64_t steps = total_steps(config.training, data_.samples);
    return learning_rate(config.optimizer.learning_rate, config.schedule, steps,
                         std::min(next, steps));
  };
  const double before = rate(*spec_.saved.options), now = rate(config_);
  if (now > 2 * before)
    log_.warn(fmt::format(
        "step {}: the learning rate rises to {:.3g}, where the run so far had {:.3g}, by another "
        "number of steps; a copy of a checkpoint from before the decay goes on without a jump",
        next, now, before));
}

/// Rolls back to the last checkpoint before the loss spike that ends with the last step. The data
/// continues behind the spike. Nothing is saved at once: if the run is killed before its next
/// checkpoint, the resumed run reaches the same spike.
void Run::roll_back(const std::string& spike) {
  constexpr std::ptrdiff_t limit = 3;
  const std::int64_t last = state_.step, next_batch = state_.next_batch();
  const auto target = state_.anchor > 0 ? newest_of_first(state_.anchor) : std::nullopt;
  if (!target)
    return log_.warn(
        fmt::format("step {}: {}; there is no checkpoint before it to roll back to", last, spike));
  auto skipped = state_.skipped_batches;
  std::erase_if(skipped, [&](const auto& each) { return each.step > *target; });
  if (std::count_if(skipped.begin(), skipped.end(),
                    [&](const auto& each) { return each.step == *target; }) == limit) {
    throw InputError(
        fmt::format("step {}: {}, for the fourth time after the checkpoint of step {}; lower "
                    "optimizer.learning_rate or raise "
                    "schedule.warmup_steps, in a new run_dir",
                    last, spike, *target));
  }
  session_.require_own_folder();
  if (communicator_.is_first()) checkpoints_.roll_back(*target);
  restore_checkpoint(*target);
  trained_.require_same_in_all(fault_at(*target) + "a new start goes on from the last checkpoint");
  state_.skipped_batches = std::move(skipped);
  const std::int64_t batches = next_batch - state_.next_batch();
  // The checkpoint's losses may be those of an earlier stage.
  if (state_.losses && !objective_.are_comparable(state_.next_batch() - 1, next_batch))
    state_.losses.emplace();
  state_.skipped_batches.push_back({*target, batches});
  saved_ = state_.to_json();
  report_->roll_back(*target);
  log_.warn(fmt::format("step {}: {}; rolling back to step {}, skipping the {} batches since then",
                        last, spike, *target, batches));
}

/// Removes nothing while the loss is an outlier, because a rollback needs the older checkpoints.
void Run::remove_old() {
  if (!communicator_.is_first() || (state_.losses && !state_.losses->outliers().empty())) return;
  std::vector<std::int64_t> wanted = {state_.anchor};
  if (state_.best()) wanted.push_back(*state_.best());
  checkpoints_.remove_old(state_.step, wanted);
}

/// Saves a checkpoint that the configuration schedules, in contrast to one for an interruption.
void Run::save_as_planned() {
  if (state_.losses && state_.losses->outliers().empty()) state_.anchor = state_.step;
  save();
}

void Run::save() {
  if (saved_ == state_.to_json()) return;
  session_.require_own_folder();
  trained_.require_same_in_all(fault_at(state_.step) + "nothing is saved");
  const std::string broken = trained_.model().parameters().not_finite();
  if (!broken.empty())
    throw DivergedError(
        fmt::format("step {}: {} is not finite; lower optimizer.learning_rate. Nothing is saved, "
                    "and the checkpoints before stay",
                    state_.step, broken));
  std::vector<CheckpointFolder::File> files = {
      CheckpointFolder::text_file("state.json", state_.to_json()),
      CheckpointFolder::text_file("config.json", hf_config_text(config_.model)),
      CheckpointFolder::text_file("config.yaml", to_yaml(config_))};
  for (const TokenizerFile& file : data_.tokenizer_files)
    files.push_back(CheckpointFolder::text_file(file.name, file.content));
  trained_.save(checkpoints_, state_.step, files);
  remove_old();
  saved_ = state_.to_json();
}

bool Run::evaluation_due() const {
  const bool now = state_.step % evaluation_interval_ == 0 || state_.step == steps_;
  return now && state_.step > state_.evaluated_step;
}

/// Evaluates the model on the held-out data, and saves a checkpoint if it is the best so far. When
/// a stop is requested, returns false and changes nothing; several processes finish the evaluation
/// first.
bool Run::evaluate(const StopSignals& stop) {
  struct Stopped {};
  Score score;
  std::string samples;
  try {
    trained_.with_ema_weights([&] {
      score = objective_.evaluate(trained_.model(), [&](std::int64_t done, std::int64_t total) {
        if (communicator_.size() == 1 && stop.requested()) throw Stopped();
        log_.draw(fmt::format("step {}: evaluating, {}/{}", state_.step, done, total));
      });
      if (communicator_.is_first()) samples = objective_.samples(trained_.model(), state_.step);
    });
  } catch (const Stopped&) {
    return false;  // a resumed run evaluates before its next step
  } catch (const DivergedError& error) {
    throw DivergedError(fmt::format(
        "step {}: {}; lower optimizer.learning_rate or lengthen the warm-up, in a new run_dir",
        state_.step, error.what()));
  }
  session_.require_own_folder();
  const Metrics metrics = report_->evaluation(state_.step, score, samples);
  const auto& best = state_.best_value;
  const bool better =
      std::isfinite(score.value) &&
      (!best || (data_.higher_is_better ? score.value > *best : score.value < *best));
  state_.evaluated_step = state_.step;
  state_.evaluations_since_best = better ? 0 : state_.evaluations_since_best + 1;
  if (better) {
    state_.best_value = score.value;
    state_.best_step = state_.step;
    save_as_planned();  // keeps the best model on disk
  }
  log_.say(fmt::format("step {}: validation {}{}", state_.step, score.text,
                       better ? " (best so far)" : ""));
  if (observer_.on_evaluation && communicator_.is_first())
    stop_wanted_ |= !observer_.on_evaluation(state_.step, metrics);
  return true;
}

void Run::step(const StopSignals& stop) {
  const std::int64_t number = state_.step + 1;
  StepOptions options;
  options.learning_rate =
      learning_rate(config_.optimizer.learning_rate, config_.schedule, steps_, number);
  options.clip_norm = config_.optimizer.clip_norm;
  if (state_.loss_scale) options.loss_scale = state_.loss_scale->value();
  options.seed = static_cast<std::uint64_t>(config_.seed);
  options.step = static_cast<std::uint64_t>(number);
  options.activation_checkpointing = config_.training.activation_checkpointing;
  options.z_loss = config_.training.z_loss;
  options.gradient_sum = trained_.gradient_sum();
  report_->begin_step(number, options);
  StepResult done = objective_.step(trained_.model(), trained_.optimizer(), options);
  const std::vector<double> of_all = communicator_.sum(
      {static_cast<double>(done.tokens), stop.requested() || stop_wanted_ ? 1.0 : 0.0});
  done.tokens = static_cast<std::int64_t>(of_all[0]);
  stop_agreed_ = of_all[1] > 0;
  state_.step = number;
  state_.settings = settings_;
  state_.version = NYSTROM_VERSION;
  state_.updates = trained_.optimizer().steps_taken();
  if (!done.skipped) trained_.update_average();
  if (!done.new_stage.empty()) begin_stage(done.new_stage);
  judge(done);
  const double tokens_per_second = report_->end_step(done, options);
  if (observer_.on_step && communicator_.is_first()) {
    stop_wanted_ |= !observer_.on_step({.step = state_.step,
                                        .steps = steps_,
                                        .loss = done.loss,
                                        .accuracy = done.accuracy,
                                        .learning_rate = options.learning_rate,
                                        .gradient_norm = done.gradient_norm,
                                        .tokens_per_second = tokens_per_second});
  }
  watch_loss(done.loss);
}

/// Ends the run after failing steps. Steps that the loss scale explains, and those without targets,
/// do not count.
void Run::judge(const StepResult& result) {
  if (!result.has_targets)
    return log_.say(fmt::format("step {} skipped: {}", state_.step,
                                has_task(config_) ? "none of its words has a token"
                                                  : "none of its tokens can be masked, as all are "
                                                    "unknown to the tokenizer"));
  auto& scale = state_.loss_scale;
  const bool overflow = result.skipped && scale && scale->explains_skip(result.loss);
  if (scale && std::isfinite(result.loss)) scale->update(!result.skipped);
  if (overflow) {
    log_.say(
        fmt::format("step {} skipped: its gradient overflows in f16; loss scale {:g} from here on",
                    state_.step, scale->value()));
    return;
  }
  state_.skipped_in_a_row = result.skipped ? state_.skipped_in_a_row + 1 : 0;
  if (result.skipped)
    log_.warn(fmt::format("step {} skipped: its gradient is not finite", state_.step));
  if (state_.skipped_in_a_row == 3)
    throw DivergedError(
        fmt::format("steps {} to {} had no finite gradient; lower optimizer.learning_rate or "
                    "lengthen the warm-up, in a new run_dir",
                    state_.step - 2, state_.step));
}

/// Forgets the losses and the speed of the steps before the last one.
void Run::begin_stage(const std::string& stage) {
  log_.say(fmt::format("step {}: {}", state_.step, stage));
  if (state_.losses) state_.losses.emplace();
  report_->begin_stage();
}

void Run::watch_loss(double loss) {
  const auto spike = state_.losses ? state_.losses->update(loss) : std::nullopt;
  if (!spike) return;
  if (config_.training.on_loss_spike == OnLossSpike::roll_back) return roll_back(*spike);
  log_.warn(fmt::format(
      "step {}: {}; if it stays there, lower optimizer.learning_rate or raise "
      "schedule.warmup_steps in a new run_dir, or roll back before it as the FAQ describes",
      state_.step, *spike));
}

RunResult Run::train() {
  const StopSignals stop;
  trained_.require_same_in_all("give all processes the same files to start from");
  objective_.start(state_.next_batch());
  report_.emplace(config_, device_, communicator_, log_, state_.step, steps_);
  std::string place = device_.is_cpu() ? fmt::format("{} threads", num_threads()) : device_.name();
  if (communicator_.size() > 1)
    place += fmt::format(" in each of {} processes", communicator_.size());
  const ParameterStore& parameters = trained_.model().parameters();
  std::string trained = fmt::format("{}", parameters.trained_count());
  if (parameters.trained_count() < parameters.count())
    trained += fmt::format(" of {}", parameters.count());
  log_.say(fmt::format("training {} parameters on {} in {}, to step {}; learning rate {:g}",
                       trained, place, printable_path(config_.run_dir), steps_,
                       config_.optimizer.learning_rate));
  const auto patience = config_.evaluation.early_stop_patience;
  const auto stalled = [&] { return patience && state_.evaluations_since_best >= *patience; };
  const auto asked_to_stop = [&] {
    return communicator_.size() == 1 ? stop.requested() || stop_wanted_ : stop_agreed_;
  };
  for (bool stepped = false;; stepped = true) {
    if (evaluation_due() && (asked_to_stop() || !evaluate(stop))) break;
    if (state_.step > 0 && state_.step % config_.checkpoint.every == 0)
      save_as_planned();  // also compares the processes' weights
    else if (stepped && state_.step % steps_between_comparisons == 0)
      trained_.require_same_in_all(fault_at(state_.step) +
                                   "a new start goes on from the last checkpoint");
    if (state_.step >= steps_ || asked_to_stop() || stalled()) break;
    step(stop);
  }
  save();
  communicator_.barrier();
  if (stalled())
    log_.say(fmt::format("stopped early: {} evaluations {}", *patience,
                         state_.best() ? fmt::format("without a better {} than step {}'s",
                                                     data_.metric_name, state_.best_step)
                                       : "in which " + data_.metric_name + " is undefined"));
  RunResult reached = result();
  reached.interrupted = !stalled() && (state_.step < steps_ || evaluation_due());
  return reached;
}

}  // namespace

void require_work_for_all(const RunConfig& config, int processes) {
  const TrainingConfig& training = config.training;
  const bool task = has_task(config) || reads_features(config);
  const std::int64_t batch = training.batch_size, micro = training.micro_batch_size,
                     parts = batch / micro;
  require_input(batch >= processes,
                "training.batch_size {} leaves some of {} processes without a sequence; raise it, "
                "or start fewer",
                batch, processes);
  std::int64_t share = batch / processes;
  while (batch % share != 0) --share;  // a micro-batch divides the batch
  // Tasks divide a step by length into whole micro-batches.
  require_input(!task || parts >= processes,
                "training.batch_size {} makes {} micro-batches of training.micro_batch_size {}, "
                "too few for {} processes; set "
                "training.micro_batch_size to {} or less",
                batch, parts, micro, processes, share);
  const bool grows = processes > 1 && !training.batch_schedule.empty();
  require_input(
      task || !(training.deterministic || grows) || batch % (micro * processes) == 0,
      "{} with {} processes needs a batch_size that is divisible by {} x micro_batch_size {}; "
      "got {}",
      grows ? "training.batch_schedule" : "training.deterministic", processes, processes, micro,
      batch);
}

void require_same_data(const RunSpec& spec, const RunData& data) {
  const fs::path checkpoints = fs::path(spec.options.run_dir) / "checkpoints";
  std::vector<std::string> passed_over;  // the run tells of them
  if (const auto newest = newest_checkpoint(checkpoints, passed_over))
    require_same(spec, data, start_checksum(spec),
                 RunState::read(checkpoint_path(checkpoints, *newest) / "state.json"));
}

RunSession::RunSession(const RunSpec& spec, Log& log, Communicator& communicator)
    : log_(log), communicator_(communicator) {
  const RunConfig& options = spec.options;
  communicator.require_same_options(to_yaml(options));
  require_work_for_all(options, communicator.size());
  if (!communicator.is_first()) return;
  check_run_place(options.run_dir, options.data.cache);
  const fs::path folder = options.run_dir;
  if (fs::exists(folder / "summary.json") && checkpoint_steps(folder / "checkpoints").empty())
    log.warn(
        fmt::format("{0}: holds a sweep (--seeds, --folds or --grid); for predict and others "
                    "{0} means this run from now on, and no longer the best of the sweep",
                    printable_path(options.run_dir)));
  lock_.emplace(folder);
  log.append_to(folder / "log.txt");
  // From now on patterns may match the log.
  ResolutionErrors thrown;
  match_inputs_of_run(spec, thrown);
}

void RunSession::require_own_folder() const {
  if (lock_) lock_->require_held();
}

void require_finished(const RunResult& result, Log& log) {
  if (!result.interrupted) return;
  const std::string message =
      fmt::format("stopped after step {}; the same command goes on from there", result.steps);
  log.record(message);
  throw Interrupted(message);
}

RunResult train_run(const RunSession& session, const RunSpec& spec, Objective& objective,
                    Device device, const RunObserver& observer) {
  Communicator& communicator = session.communicator();
  const Communicator::TimeLimit limit(communicator, fs::path(spec.options.run_dir) / ".waiting",
                                      spec.options.training.timeout);
  Run run(session, spec, objective, device, observer);
  if (run.is_longer()) {
    session.log().say("the run has done more steps than it is to have; it stays as it is");
    return run.result();
  }
  if (communicator.is_first()) write_settings(spec.options, spec.saved);
  return run.train();
}

}  // namespace nystrom
