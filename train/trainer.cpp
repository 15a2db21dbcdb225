#include "train/trainer.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>

#include "core/check.h"
#include "core/checksum.h"
#include "core/cpu/parallel.h"
#include "core/file_io.h"
#include "data/tokenizer_folder.h"
#include "train/checkpoint.h"
#include "train/config_io.h"
#include "train/corpus.h"
#include "train/hf_config.h"
#include "train/metrics.h"
#include "train/model_folder.h"
#include "train/progress.h"
#include "train/run_state.h"
#include "train/safetensors.h"
#include "train/schedule.h"
#include "train/stop_signals.h"
#include "train/train_step.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

static_assert(label_of_unchosen == ignored_label);

/// One run while it trains.
class Run {
 public:
  Run(const RunConfig& config, Corpus corpus, Log& log);
  PretrainResult train();

 private:
  void resume();
  void step(Loader& loader, Progress& progress);
  void report(const StepResult& result, double learning_rate, double tokens_per_second, Progress& progress);
  bool evaluation_due() const;
  bool evaluate(const StopSignals& stop);
  void save();
  std::vector<CheckpointFolder::File> checkpoint_files();

  RunConfig config_;
  Corpus corpus_;
  Log& log_;
  Model model_;
  std::optional<AdamW> optimizer_;
  CheckpointFolder checkpoints_;
  std::optional<MetricsLog> metrics_;
  RunState state_;
  std::string settings_;  // a hash of config_
  std::string saved_;     // the state in the newest checkpoint
  MaskedSamples validation_;
  Evaluation evaluation_;
};

Run::Run(const RunConfig& config, Corpus corpus, Log& log)
    : config_(config),
      corpus_(std::move(corpus)),
      log_(log),
      model_(config.model),
      checkpoints_(fs::path(config.run_dir) / "checkpoints", config.checkpoint.keep) {
  model_.parameters().allocate(config.training.dtype, StoreMode::training);
  optimizer_.emplace(model_.parameters(), config.optimizer);
  state_.tokenizer = corpus_.train->info().tokenizer;
  settings_ = text_checksum(to_yaml(config_));
  validation_ = masked_samples(corpus_.validation, *corpus_.tokenizer, config_);
  state_.text = file_checksum(corpus_.token_folder / "train" / "index.json");
  checkpoints_.remove_leftovers();
  resume();
  metrics_.emplace(config.run_dir, state_.step, config.logging.tensorboard);
}

void Run::resume() {
  std::vector<std::string> passed_over;
  const auto newest = newest_checkpoint(fs::path(config_.run_dir) / "checkpoints", passed_over);
  for (const std::string& line : passed_over) log_.warn(line);
  if (!newest) {
    model_.parameters().initialise(static_cast<std::uint64_t>(config_.seed), config_.model.initializer_range);
    return;
  }
  const fs::path folder = checkpoints_.path_of(*newest);
  const RunState saved = RunState::read(folder / "state.json");
  const bool same_tokenizer = saved.tokenizer == state_.tokenizer;
  require_input(same_tokenizer && saved.text == state_.text,
                "{}: its checkpoints come from {}; bring the files of data.train back as they were, or choose another run_dir",
                config_.run_dir, same_tokenizer ? "other text" : "another tokenizer");
  saved_ = saved.to_json();
  state_ = saved;
  const auto weights = SafetensorsFile::open(folder / "model.safetensors");
  const auto moments = SafetensorsFile::open(folder / "optimizer.safetensors");
  ParameterStore& store = model_.parameters();
  for (const Parameter& parameter : store.parameters()) {
    const std::string& name = parameter.name();
    store.set(name, weights.read(name));
    Tensor first = store.part_of(optimizer_->moment1(), name), second = store.part_of(optimizer_->moment2(), name);
    moments.read_into("moment1." + name, first);
    moments.read_into("moment2." + name, second);
  }
  optimizer_->set_steps_taken(state_.updates);
  checkpoints_.remove_old(state_.step, state_.best());
  log_.say(fmt::format("resuming at step {}", state_.step));
}

std::vector<CheckpointFolder::File> Run::checkpoint_files() {
  const ParameterStore& store = model_.parameters();
  const std::vector<NamedTensor> weights = weight_tensors(model_);
  std::vector<NamedTensor> moments;
  for (const Parameter& parameter : store.parameters()) {
    const std::string& name = parameter.name();
    moments.push_back({"moment1." + name, store.part_of(optimizer_->moment1(), name)});
    moments.push_back({"moment2." + name, store.part_of(optimizer_->moment2(), name)});
  }
  std::vector<CheckpointFolder::File> files = {
      {"model.safetensors", [weights](const fs::path& path) { return write_safetensors(path, weights); }},
      {"optimizer.safetensors", [moments](const fs::path& path) { return write_safetensors(path, moments); }},
      CheckpointFolder::text_file("state.json", state_.to_json()),
      CheckpointFolder::text_file("config.json", hf_config_text(config_.model)),
      CheckpointFolder::text_file("config.yaml", to_yaml(config_))};
  for (const TokenizerFile& file : corpus_.tokenizer->files(config_.data.sequence_length)) {
    files.push_back(CheckpointFolder::text_file(file.name, file.content));
  }
  return files;
}

void Run::save() {
  if (saved_ == state_.to_json()) return;
  const std::int64_t bytes = 3 * model_.parameters().masters().bytes() + (std::int64_t{1} << 20);
  checkpoints_.save(state_.step, checkpoint_files(), bytes, state_.best());
  saved_ = state_.to_json();
}

bool Run::evaluation_due() const {
  const bool now = state_.step % config_.evaluation.every == 0 || state_.step == config_.training.steps;
  return now && state_.step > state_.evaluated_step;
}

/// Measures the validation loss, and saves a checkpoint when it is the best so far. False, with nothing changed, when asked to stop.
bool Run::evaluate(const StopSignals& stop) {
  struct Stopped {};
  const std::int64_t total = validation_.packing->size();
  try {
    evaluation_ = evaluate_masked_lm(model_, validation_, config_.training.micro_batch_size, [&](std::int64_t done) {
      if (stop.requested()) throw Stopped();
      log_.draw(fmt::format("step {}: evaluating, sequence {}/{}", state_.step, done, total));
    });
  } catch (const Stopped&) {
    return false;  // a resumed run evaluates before it goes on
  }
  metrics_->write(state_.step, {{"validation_loss", evaluation_.loss}, {"validation_accuracy", evaluation_.accuracy}});
  const bool better = std::isfinite(evaluation_.loss) && (!state_.best_loss || evaluation_.loss < *state_.best_loss);
  state_.evaluated_step = state_.step;
  state_.evaluations_since_best = better ? 0 : state_.evaluations_since_best + 1;
  if (better) {
    state_.best_loss = evaluation_.loss;
    state_.best_step = state_.step;
    save();  // so that the best is always on disk
  }
  log_.say(fmt::format("step {}: validation loss {:.4f}, accuracy {:.1f} %{}", state_.step, evaluation_.loss, 100 * evaluation_.accuracy,
                       better ? " (best so far)" : ""));
  return true;
}

void Run::step(Loader& loader, Progress& progress) {
  const auto start = Clock::now();
  std::vector<MicroBatch> batches;
  std::int64_t tokens = 0;
  for (const Batch& batch : loader.next()) {
    tokens += batch.tokens;
    batches.push_back({input_of(batch), batch.labels, batch.sample_ids});
  }
  const std::int64_t number = state_.step + 1;
  StepOptions options;
  options.learning_rate = learning_rate(config_.optimizer.learning_rate, config_.schedule, config_.training.steps, number);
  options.clip_norm = config_.optimizer.clip_norm;
  options.seed = static_cast<std::uint64_t>(config_.seed);
  options.step = static_cast<std::uint64_t>(number);
  options.activation_checkpointing = config_.training.activation_checkpointing;
  const StepResult result = train_step(model_, *optimizer_, batches, options);
  state_.step = number;
  state_.settings = settings_;
  state_.version = NYSTROM_VERSION;
  state_.updates = optimizer_->steps_taken();
  state_.skipped_in_a_row = result.skipped ? state_.skipped_in_a_row + 1 : 0;
  if (result.skipped) log_.warn(fmt::format("step {} skipped: its gradient is not finite", number));
  if (state_.skipped_in_a_row == 3) {
    throw InputError(
        fmt::format("steps {} to {} had no finite gradient; lower optimizer.learning_rate or lengthen the warm-up, in a new run_dir",
                    number - 2, number));
  }
  report(result, options.learning_rate, static_cast<double>(tokens) / std::chrono::duration<double>(Clock::now() - start).count(),
         progress);
}

void Run::report(const StepResult& result, double learning_rate, double tokens_per_second, Progress& progress) {
  const bool record = state_.step % config_.logging.every == 0 || state_.step == config_.training.steps;
  if (record) {
    metrics_->write(state_.step, {{"loss", result.loss},
                                  {"accuracy", result.accuracy},
                                  {"learning_rate", learning_rate},
                                  {"grad_norm", result.gradient_norm},
                                  {"tokens_per_second", tokens_per_second}});
  }
  const auto memory = static_cast<double>(Arena::of(cpu_device).statistics().peak_in_use_bytes);
  progress.update(state_.step,
                  fmt::format("loss {:.4f}, accuracy {:.1f} %, {:.0f} tokens/s, {:.2f} GB", result.loss, 100 * result.accuracy,
                              tokens_per_second, memory / 1e9),
                  record);
}

PretrainResult Run::train() {
  const StopSignals stop;
  const std::int64_t steps = config_.training.steps;
  Loader loader(masked_samples(corpus_.train, *corpus_.tokenizer, config_),
                {config_.training.batch_size, config_.training.micro_batch_size}, state_.step);
  Progress progress("step", state_.step, steps, log_);
  log_.say(fmt::format("training {} parameters on {} threads in {}, to step {}", model_.parameters().count(), num_threads(),
                       config_.run_dir, steps));
  const auto patience = config_.evaluation.early_stop_patience;
  const auto stalled = [&] { return patience && state_.evaluations_since_best >= *patience; };
  for (;;) {
    if (evaluation_due() && !evaluate(stop)) break;
    if (state_.step > 0 && state_.step % config_.checkpoint.every == 0) save();
    if (state_.step >= steps || stop.requested() || stalled()) break;
    step(loader, progress);
  }
  save();
  if (stalled()) log_.say(fmt::format("stopped early: {} evaluations without a better loss than step {}'s", *patience, state_.best_step));
  return {state_.step, evaluation_, state_.best(), !stalled() && (state_.step < steps || evaluation_due())};
}

}  // namespace

PretrainResult pretrain(const RunConfig& given, Log& log) {
  RunConfig config = given;
  const auto wrong = validate_pretraining(config);
  require_input(wrong.empty(), "{}", fmt::join(wrong, "\n"));
  // What can be refused at once is, before the text is turned into tokens and before anything is written.
  match_files(config.data.train);
  if (!config.data.validation.empty()) match_files(config.data.validation);
  if (config.tokenizer.path) fit_model_to_tokenizer(config, *open_tokenizer(*config.tokenizer.path));
  check_run_dir(config);
  fs::create_directories(config.run_dir);
  const RunLock lock(config.run_dir);
  log.append_to(fs::path(config.run_dir) / "log.txt");
  try {
    Corpus corpus = prepare_corpus(config, log);
    fit_model_to_tokenizer(config, *corpus.tokenizer);
    settle_config(config);
    return Run(config, std::move(corpus), log).train();
  } catch (const Error& error) {
    log.record(fmt::format("error: {}", error.what()));
    throw;
  }
}

}  // namespace nystrom
