#include "train/trainer.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/check.h"
#include "core/file_io.h"
#include "core/json.h"
#include "data/loader.h"
#include "train/checkpoint.h"
#include "train/config_io.h"
#include "train/corpus.h"
#include "train/hf_config.h"
#include "train/metrics.h"
#include "train/model_weights.h"
#include "train/progress.h"
#include "train/safetensors.h"
#include "train/schedule.h"
#include "train/train_step.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

static_assert(label_of_unchosen == ignored_label);

volatile std::sig_atomic_t stop_requested = 0;

/// Turns SIGINT and SIGTERM into a request to stop while alive.
class StopSignals {
 public:
  StopSignals() : interrupt_(std::signal(SIGINT, &request)), terminate_(std::signal(SIGTERM, &request)) { stop_requested = 0; }
  ~StopSignals() {
    std::signal(SIGINT, interrupt_);
    std::signal(SIGTERM, terminate_);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  using Handler = void (*)(int);
  static void request(int) { stop_requested = 1; }
  Handler interrupt_, terminate_;
};

/// What a resumed run needs beside weights and moments. Everything random comes from counters, so there is no random state.
struct RunState {
  std::int64_t step = 0;
  std::int64_t updates = 0;  ///< steps that changed the parameters
  std::int64_t skipped_in_a_row = 0;
  std::optional<double> best_loss;
  std::int64_t best_step = 0;
  std::int64_t evaluations_since_best = 0;

  std::string to_json() const {
    const nlohmann::ordered_json json = {{"step", step},
                                         {"updates", updates},
                                         {"skipped_in_a_row", skipped_in_a_row},
                                         {"best_loss", best_loss ? nlohmann::ordered_json(*best_loss) : nullptr},
                                         {"best_step", best_step},
                                         {"evaluations_since_best", evaluations_since_best}};
    return json.dump(2) + "\n";
  }
  static RunState read(const fs::path& path) {
    const nlohmann::json json = read_json_file(path);
    try {
      RunState state{json.at("step"), json.at("updates"), json.at("skipped_in_a_row"), {}, json.at("best_step"), json.at("evaluations_since_best")};
      if (!json.at("best_loss").is_null()) state.best_loss = json.at("best_loss").get<double>();
      return state;
    } catch (const nlohmann::json::exception&) {
      throw InputError(fmt::format("{}: is not the state of a run", path.string()));
    }
  }
};

/// Keys whose lines differ between two resolved configurations, by their paths.
std::vector<std::string> changed_keys(const std::string& before, const std::string& after) {
  const auto paths = [](const std::string& text) {
    std::map<std::string, std::string> values;
    std::vector<std::string> path;
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t end = text.find('\n', at);
      const std::string line = text.substr(at, end - at);
      at = end + 1;
      const std::size_t indent = line.find_first_not_of(' ');
      const std::size_t colon = line.find(':');
      path.resize(indent / 2);
      path.push_back(line.substr(indent, colon - indent));
      values[fmt::format("{}", fmt::join(path, "."))] = line.substr(colon + 1);
    }
    return values;
  };
  const auto old_values = paths(before), new_values = paths(after);
  std::vector<std::string> keys;
  for (const auto& [key, value] : new_values) {
    const auto found = old_values.find(key);
    if (found == old_values.end() || found->second != value) keys.push_back(key);
  }
  return keys;
}

/// Refuses a run directory that holds a run of other settings; writes the resolved configuration.
void settle_config(const RunConfig& config) {
  const fs::path path = fs::path(config.run_dir) / "config.yaml";
  if (fs::exists(path)) {
    RunConfig old = read_config(path.string());
    old.training.steps = config.training.steps;  // these may change
    old.evaluation = config.evaluation;
    old.checkpoint = config.checkpoint;
    old.logging = config.logging;
    const auto changed = changed_keys(to_yaml(old), to_yaml(config));
    require_input(changed.empty(), "{}: holds a run with other settings; changed: {}; choose another run_dir, or undo the changes", config.run_dir,
                  fmt::join(changed, ", "));
  }
  OutputFile file(path);
  file.write(to_yaml(config));
  file.commit();
}

ModelInput input_of(const Batch& batch) { return {batch.input_ids, {}, batch.attention_mask, {}}; }

/// One run while it trains.
class Run {
 public:
  Run(const RunConfig& config, Corpus corpus, bool quiet);
  PretrainResult train();

 private:
  MaskedSamples samples(std::shared_ptr<const TokenDataset> dataset) const;
  void resume();
  void step(Loader& loader, Progress& progress);
  double evaluate();
  void save();
  std::vector<CheckpointFolder::File> checkpoint_files();

  RunConfig config_;
  Corpus corpus_;
  bool quiet_;
  Model model_;
  std::optional<AdamW> optimizer_;
  CheckpointFolder checkpoints_;
  std::optional<MetricsLog> metrics_;
  RunState state_;
  std::int64_t saved_step_ = -1;
  double validation_loss_ = 0;
};

Run::Run(const RunConfig& config, Corpus corpus, bool quiet)
    : config_(config),
      corpus_(std::move(corpus)),
      quiet_(quiet),
      model_(config.model),
      checkpoints_(fs::path(config.run_dir) / "checkpoints", config.checkpoint.keep) {
  model_.parameters().allocate(config.training.dtype, StoreMode::training);
  optimizer_.emplace(model_.parameters(), config.optimizer);
  checkpoints_.remove_leftovers();
  resume();
  metrics_.emplace(config.run_dir, state_.step, config.logging.tensorboard);
}

void Run::resume() {
  std::vector<std::string> passed_over;
  const auto newest = checkpoints_.newest(passed_over);
  for (const std::string& line : passed_over) fmt::print(stderr, "warning: {}\n", line);
  if (!newest) {
    model_.parameters().initialise(static_cast<std::uint64_t>(config_.seed), config_.model.initializer_range);
    return;
  }
  const fs::path folder = checkpoints_.path_of(*newest);
  state_ = RunState::read(folder / "state.json");
  saved_step_ = state_.step;
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
  if (!quiet_) fmt::print(stderr, "resuming at step {}\n", state_.step);
}

std::vector<CheckpointFolder::File> Run::checkpoint_files() {
  const auto text = [](const std::string& name, const std::string& content) {
    return CheckpointFolder::File{name, [content](const fs::path& path) {
                                    OutputFile file(path);
                                    file.write(content);
                                    const std::string checksum = file.checksum();
                                    file.commit();
                                    return checksum;
                                  }};
  };
  const ParameterStore& store = model_.parameters();
  std::vector<NamedTensor> weights, moments;
  for (const Parameter& parameter : store.parameters()) {
    const std::string& name = parameter.name();
    weights.push_back({name, store.master(name)});
    moments.push_back({"moment1." + name, store.part_of(optimizer_->moment1(), name)});
    moments.push_back({"moment2." + name, store.part_of(optimizer_->moment2(), name)});
  }
  std::vector<CheckpointFolder::File> files = {
      {"model.safetensors", [weights](const fs::path& path) { return write_safetensors(path, weights); }},
      {"optimizer.safetensors", [moments](const fs::path& path) { return write_safetensors(path, moments); }},
      text("state.json", state_.to_json()),
      text("config.json", hf_config_text(config_.model)),
      text("config.yaml", to_yaml(config_))};
  constexpr std::int64_t largest_tokenizer_file = std::int64_t{64} << 20;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "spiece.model"}) {
    const fs::path source = corpus_.tokenizer_folder / name;
    if (fs::exists(source)) files.push_back(text(name, read_text_file(source, largest_tokenizer_file)));
  }
  return files;
}

void Run::save() {
  if (saved_step_ == state_.step) return;
  const std::int64_t bytes = 3 * model_.parameters().masters().bytes() + (std::int64_t{1} << 20);
  const auto best = state_.best_loss ? std::optional(state_.best_step) : std::nullopt;
  checkpoints_.save(state_.step, checkpoint_files(), bytes, best);
  saved_step_ = state_.step;
}

MaskedSamples Run::samples(std::shared_ptr<const TokenDataset> dataset) const {
  const TokenSetInfo& info = dataset->info();
  std::vector<std::uint8_t> starts;
  for (std::int64_t id = 0; id < info.vocab_size; ++id) starts.push_back(corpus_.tokenizer->starts_word(static_cast<std::int32_t>(id)));
  MaskedSamples result;
  result.packing = std::make_shared<Packing>(std::move(dataset), PackingOptions{config_.data.sequence_length, config_.data.cross_documents});
  result.table = std::make_shared<MaskingTable>(info.vocab_size, info.special.mask, ids_of(info.special), starts);
  const MaskingConfig& masking = config_.masking;
  result.masking = {masking.probability, masking.mask, masking.random, masking.whole_word};
  result.seed = static_cast<std::uint64_t>(config_.seed);
  return result;
}

double Run::evaluate() {
  EvaluationLoader loader(samples(corpus_.validation), {config_.training.batch_size, config_.training.micro_batch_size});
  double loss = 0;
  std::int64_t chosen = 0, correct = 0;
  while (const auto batch = loader.next()) {
    const MaskedLmOutput out = model_.masked_lm(input_of(*batch), batch->labels, 1, {});
    loss += out.loss.value().item();
    correct += count_equal(out.predictions, out.labels);
    chosen += batch->chosen;
  }
  require_input(chosen > 0, "the validation data holds no token to predict");
  const auto count = static_cast<double>(chosen);
  metrics_->write(state_.step, {{"validation_loss", loss / count}, {"validation_accuracy", static_cast<double>(correct) / count}});
  return loss / count;
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
  state_.updates = optimizer_->steps_taken();
  state_.skipped_in_a_row = result.skipped ? state_.skipped_in_a_row + 1 : 0;
  if (result.skipped) progress.say(fmt::format("warning: step {} skipped: its gradient is not finite", number));
  if (state_.skipped_in_a_row == 3) {
    throw Error(fmt::format("steps {} to {} had no finite gradient; lower optimizer.learning_rate, and resume from the last checkpoint", number - 2,
                            number));
  }
  const double rate = static_cast<double>(tokens) / std::chrono::duration<double>(Clock::now() - start).count();
  const bool log = number % config_.logging.every == 0 || number == config_.training.steps;
  if (log) {
    metrics_->write(number, {{"loss", result.loss},
                             {"accuracy", result.accuracy},
                             {"learning_rate", options.learning_rate},
                             {"grad_norm", result.gradient_norm},
                             {"tokens_per_second", rate}});
  }
  const auto memory = Arena::of(cpu_device).statistics().peak_in_use_bytes;
  progress.update(number, fmt::format("loss {:.4f}, accuracy {:.1f} %, {:.0f} tokens/s, {:.2f} GB", result.loss, 100 * result.accuracy, rate,
                                      static_cast<double>(memory) / 1e9), log);
}

PretrainResult Run::train() {
  const StopSignals signals;
  const std::int64_t steps = config_.training.steps;
  Loader loader(samples(corpus_.train), {config_.training.batch_size, config_.training.micro_batch_size}, state_.step);
  Progress progress("step", state_.step, steps, quiet_);
  const auto patience = config_.evaluation.early_stop_patience;
  bool stopped_early = patience && state_.evaluations_since_best >= *patience;
  while (state_.step < steps && !stop_requested && !stopped_early) {
    step(loader, progress);
    if (state_.step % config_.evaluation.every == 0 || state_.step == steps) {
      validation_loss_ = evaluate();
      const bool better = !state_.best_loss || validation_loss_ < *state_.best_loss;
      state_.evaluations_since_best = better ? 0 : state_.evaluations_since_best + 1;
      if (better) {
        state_.best_loss = validation_loss_;
        state_.best_step = state_.step;
        save();  // so that the best is always on disk
      }
      progress.say(fmt::format("step {}: validation loss {:.4f}{}", state_.step, validation_loss_, better ? " (best)" : ""));
      stopped_early = patience && state_.evaluations_since_best >= *patience;
    }
    if (state_.step % config_.checkpoint.every == 0) save();
  }
  save();
  return {state_.step, validation_loss_, state_.step < steps && !stopped_early};
}

}  // namespace

PretrainResult pretrain(const RunConfig& given, bool quiet) {
  RunConfig config = given;
  const auto wrong = validate_pretraining(config);
  require_input(wrong.empty(), "{}", fmt::join(wrong, "\n"));
  fs::create_directories(config.run_dir);
  const RunLock lock(config.run_dir);
  Corpus corpus = prepare_corpus(config, quiet);
  if (config.vocab_size_from_tokenizer) config.model.vocab_size = corpus.tokenizer->vocab_size();
  require_input(config.model.vocab_size >= corpus.tokenizer->vocab_size(),
                "model.vocab_size {} is below the tokenizer's {} pieces; raise it, or leave it out", config.model.vocab_size,
                corpus.tokenizer->vocab_size());
  config.model.pad_token_id = corpus.tokenizer->special().pad;
  settle_config(config);
  Run run(config, std::move(corpus), quiet);
  return run.train();
}

}  // namespace nystrom
