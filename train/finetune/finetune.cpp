#include "train/finetune/finetune.h"

#include "core/base/checksum.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/task_scorer.h"
#include "data/tokenizers/tokenizer_folder.h"
#include "train/checkpoint/model_folder.h"
#include "train/finetune/task_evaluation.h"
#include "train/finetune/task_loss.h"
#include "train/loop/run_checks.h"
#include "train/optim/schedule.h"
#include "train/pretrain/corpus.h"

namespace nystrom {
namespace {

/// A hash of everything that samples hold.
std::string checksum_of(const TaskDataset& dataset) {
  Checksum checksum;
  const auto add = [&](const auto& values) {
    checksum.update(values.data(), values.size() * sizeof(values[0]));
  };
  std::vector<float> features;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const EncodedSample& sample = dataset.sample(i);
    for (const WrappedIds& row : sample.rows) {
      add(row.ids);
      add(row.type_ids);
    }
    add(sample.word_labels);
    const double numbers[] = {static_cast<double>(sample.label), sample.value,
                              static_cast<double>(sample.start), static_cast<double>(sample.end)};
    checksum.update(numbers, sizeof(numbers));
    if (dataset.width() == 0) continue;
    features.resize(static_cast<std::size_t>(dataset.length(i) * dataset.width()));
    dataset.read_sample_features(i, features);
    add(features);
  }
  return checksum.hex();
}

class TaskObjective : public Objective {
 public:
  TaskObjective(const RunConfig& config, const TaskReader& reader,
                std::shared_ptr<const TaskDataset> train,
                std::shared_ptr<const TaskDataset> validation,
                std::shared_ptr<const Tokenizer> tokenizer, Communicator& communicator)
      : config_(config),
        communicator_(communicator),
        train_(std::move(train)),
        validation_(std::move(validation)),
        tokenizer_(std::move(tokenizer)) {
    options_.batch_size = config.training.batch_size;
    options_.micro_batch_size = config.training.micro_batch_size;
    options_.padding = reader.padding();
    options_.seed = static_cast<std::uint64_t>(config.seed);
    options_.rank = communicator.rank();
    options_.world_size = communicator.size();
  }

  DataIdentity identity() const override {
    return {tokenizer_ ? text_checksum(tokenizer_->definition()) : "", checksum_of(*train_),
            checksum_of(*validation_), "task.train", "task.validation"};
  }
  std::int64_t samples() const override { return train_->size(); }
  std::string metric_name() const override { return enum_name(*config_.task.metric); }
  bool higher_is_better() const override { return true; }
  std::vector<TokenizerFile> tokenizer_files() const override {
    return tokenizer_ ? tokenizer_->files(config_.data.sequence_length)
                      : std::vector<TokenizerFile>();
  }

  std::vector<int> micro_batch_ranks() const override {
    return nystrom::micro_batch_ranks(options_);
  }
  void start(std::int64_t batch) override {
    loader_ = std::make_unique<TaskLoader>(train_, options_, batch);
  }

  ObjectiveStep step(Model& model, Optimizer& optimizer, const StepOptions& options) override {
    const std::vector<Batch> batches = loader_->next();
    const auto targets = static_cast<double>(loader_->step_targets());
    ObjectiveStep done;
    std::vector<Tensor> sample_ids;
    for (const Batch& batch : batches) {
      done.tokens += batch.tokens;
      sample_ids.push_back(batch.sample_ids);
    }
    const auto loss = [&](std::size_t part, const RunContext& run) {
      return task_loss(model.config(), train_->target(), task_output(model, batches[part], run),
                       batches[part], targets);
    };
    done.result = optimizer_step(optimizer, sample_ids, loss, options);
    return done;
  }

  Score evaluate(const Model& model, const EvaluationProgress& progress) override {
    const TaskEvaluation evaluation = evaluate_task(
        model, validation_, options_.padding, options_.micro_batch_size, communicator_,
        [&](std::int64_t done) { progress(done, validation_->size()); });
    Score score{evaluation.scores.decisive, evaluation.scores.values, describe(evaluation.scores)};
    score.metrics.emplace_back("loss", evaluation.loss);
    score.text += fmt::format(", loss {:.4f}", evaluation.loss);
    return score;
  }

 private:
  RunConfig config_;
  Communicator& communicator_;
  std::shared_ptr<const TaskDataset> train_, validation_;
  std::shared_ptr<const Tokenizer> tokenizer_;  // null for features
  TaskLoaderOptions options_;
  std::unique_ptr<TaskLoader> loader_;
};

/// A built-in one, or that of a folder or file, or that of the model to start from.
std::unique_ptr<Tokenizer> tokenizer_of(const RunConfig& config, Log& log) {
  if (config.tokenizer.builtin) return make_builtin_tokenizer(*config.tokenizer.builtin);
  if (!config.tokenizer.path) return open_tokenizer(find_model(*config.start.from, log));
  const std::filesystem::path path = *config.tokenizer.path;
  return open_tokenizer(std::filesystem::is_directory(path / "checkpoints") ? find_model(path, log)
                                                                            : path);
}

}  // namespace

std::vector<std::string> describe(const TaskReport& report, const RunConfig& config) {
  std::vector<std::string> lines;
  const char* unit = config.task.kind == TaskKind::features ? "steps" : "tokens";
  for (const auto& [name, set] :
       {std::pair("training", &report.train), std::pair("validation", &report.validation)}) {
    const EncodingCounts& counts = set->encoding;
    std::string line = fmt::format("{}: {} examples", name, counts.examples);
    if (counts.samples != counts.examples) line += fmt::format(" in {} windows", counts.samples);
    line += fmt::format(", median {} {}, longest {}", set->median_length, unit, counts.longest);
    const std::string cut = describe_cut(*config.task.kind, counts, config.data.sequence_length);
    if (!cut.empty()) line += "; " + cut;
    lines.push_back(line);
    constexpr std::size_t max_labels = 30;
    std::vector<std::string> labels;
    for (const auto& [label, count] : set->labels) {
      if (labels.size() < max_labels)
        labels.push_back(fmt::format("{} {}", printable(label), count));
    }
    const std::size_t more = set->labels.size() - labels.size();
    if (!labels.empty())
      lines.push_back(fmt::format("  labels: {}{}", fmt::join(labels, ", "),
                                  more > 0 ? fmt::format(" and {} more", more) : ""));
  }
  if (report.majority > 0)
    lines.push_back(
        fmt::format("always the most frequent label: accuracy {:.4f}", report.majority));
  return lines;
}

std::shared_ptr<const Tokenizer> fit_model_to_task(RunConfig& config, Log& log) {
  config.task = resolve_task(config.task);
  if (config.task.kind == TaskKind::features) return nullptr;
  std::shared_ptr<const Tokenizer> tokenizer = tokenizer_of(config, log);
  config = fit_model_to_tokenizer(std::move(config), *tokenizer);
  TaskEncoder(config.task, {}, *tokenizer,
              config.data.sequence_length);  // refuses lengths and tokenizers that no text fits
  return tokenizer;
}

PreparedTask prepare_task(RunConfig config, Log& log) {
  PreparedTask run;
  run.tokenizer = fit_model_to_task(config, log);
  const LabelSet given = config.task.kind == TaskKind::features ? LabelSet(config.task.labels)
                                                                : task_labels(config.task);
  const auto reader = [&](const LabelSet& labels) {
    return std::make_unique<TaskReader>(config.task, labels, run.tokenizer, config.model,
                                        config.data.sequence_length);
  };
  run.train = reader(given)->read(config.task.train, Labelled::required);
  require_input(run.train->target() != TaskTarget::none,
                "task.train: its files hold neither labels nor values; there is nothing to learn");
  require_warmup_within_run(config, run.train->size());
  config.task.metric = deciding_metric(
      *run.train);  // of features the files decide whether they are classes or numbers
  run.reader = reader(run.train->labels());
  run.validation = run.reader->read(config.task.validation, Labelled::required);
  const auto held = [](const TaskDataset& dataset) {
    return dataset.target() == TaskTarget::value ? "values" : "labels";
  };
  require_input(run.validation->target() == run.train->target(),
                "task.validation: its files hold {}, those of task.train {}; give both the same",
                held(*run.validation), held(*run.train));
  const auto choices = [](const TaskDataset& dataset) { return dataset.sample(0).rows.size(); };
  require_input(
      run.train->target() != TaskTarget::choice || choices(*run.validation) == choices(*run.train),
      "task.validation: its examples have {} choices, those of task.train {}; all need as many",
      choices(*run.validation), choices(*run.train));
  if (run.train->labels().size() > 0) config.task.labels = run.train->labels().names();
  config.model.labels = output_names(*run.train);
  run.config = std::move(config);
  return run;
}

RunResult finetune(const RunConfig& config, Log& log, Device device, Communicator& communicator) {
  const auto wrong = messages_of(validate_finetuning(config));
  require_input(wrong.empty(), "{}", fmt::join(wrong, "\n"));
  require_computable(config, device);
  const PreparedTask run = prepare_task(config, log);  // before anything is written
  check_run(run.config);
  const auto prepare = [&]() -> PreparedRun {
    const TaskReport report = report_task(*run.train, *run.validation);
    for (const std::string& line : describe(report, run.config)) log.say(line);
    for (const std::string& line : task_warnings(report)) log.warn(line);
    return {run.config,
            std::make_unique<TaskObjective>(run.config, *run.reader, run.train, run.validation,
                                            run.tokenizer, communicator)};
  };
  return train_run(config, prepare, log, device, communicator);
}

}  // namespace nystrom
