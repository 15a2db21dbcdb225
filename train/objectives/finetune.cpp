#include "train/objectives/finetune.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/file_io.h"
#include "core/base/long_list.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/examples.h"
#include "data/tasks/task_scorer.h"
#include "train/config/validation.h"
#include "train/loop/run_memory.h"
#include "train/objectives/embedding_objective.h"
#include "train/objectives/task_evaluation.h"
#include "train/optim/schedule.h"
#include "train/state/hf_config.h"
#include "train/state/model_folder.h"
#include "train/state/run_state.h"

namespace nystrom {
namespace {

/// Whether a word that the tokenizer knows is the same with a capital letter.
bool lowers_case(const Tokenizer& tokenizer) {
  const std::vector<std::int32_t> ids = tokenizer.encode(" Paris");
  return ids == tokenizer.encode(" paris") &&
         std::ranges::find(ids, tokenizer.special().unk) == ids.end();
}

/// The training objective of a downstream task.
class TaskObjective : public Objective {
 public:
  /// `run` must outlive it.
  TaskObjective(const PreparedTask& run, const TaskStatistics& report, Communicator& communicator)
      : config_(run.spec.options),
        communicator_(communicator),
        train_(run.train),
        validation_(run.validation),
        baseline_(report.baseline.decisive),
        baseline_text_(fmt::format("always {}: {} {:.4f}", report.baseline_prediction,
                                   report.baseline.metric, baseline_)) {
    options_ = loader_options(config_, communicator);
    run_data_ = run_data(run);
    run_data_.samples = train_->size();
    run_data_.first_value = mean_value(*train_);
    run_data_.metric_name = enum_name(*config_.task.metric);
    run_data_.higher_is_better = !by_loss();
    run_data_.micro_batch_ranks = micro_batch_ranks(options_);
    run_data_.large_files = large_files({train_, validation_});
    if (const auto& tokenizer = run.spec.tokenizer)
      run_data_.tokenizer_files = tokenizer->files(config_.data.sequence_length);
  }

  void start(std::int64_t batch) override {
    loader_ = std::make_unique<TaskLoader>(train_, options_, batch);
  }

  StepResult step(Model& model, Optimizer& optimizer, const StepOptions& options) override {
    const std::vector<Batch> batches = loader_->next();
    const auto targets = static_cast<double>(loader_->step_targets());
    if (targets == 0) return step_without_targets();
    const auto loss = [&](std::size_t part, RunContext run) {
      run.logits_only = true;
      const Batch batch = loader_->whole(batches[part]);
      return task_loss(model.config(), train_->target(), task_output(model, batch, run), batch,
                       targets);
    };
    return optimizer_step(optimizer, batches, loss, options);
  }

  Score evaluate(const Model& model, const EvaluationProgress& progress) override {
    const TaskEvaluation evaluation =
        evaluate_task(model, validation_, options_.micro_batch_size, communicator_,
                      [&](std::int64_t done) { progress(done, validation_->size()); });
    if (!best_ || better(evaluation.scores.decisive, *best_, !by_loss())) {
      best_ = evaluation.scores.decisive;
      mse_ = evaluation.scores.value("mse");
    }
    Score score{evaluation.scores.decisive, evaluation.scores.values, describe(evaluation.scores)};
    score.metrics.emplace_back("loss", evaluation.loss);
    score.metrics.emplace_back("baseline", baseline_);
    if (!by_loss()) score.text += fmt::format(", loss {:.4f}", evaluation.loss);
    score.text += "; " + baseline_text_;
    return score;
  }

  /// A warning if the values of a regression are far off in the run's `best` evaluation, which
  /// their correlation does not tell; empty otherwise, and if that was before this start.
  std::string scale_warning(const TaskScores& constant, std::optional<double> best) const {
    const auto of_mean = constant.value("mse");
    if (best_ != best || !mse_ || !of_mean || !(*mse_ > *of_mean)) return "";
    return fmt::format(
        "mse {:.4g} is worse than that of always the mean, {:.4g}: the values are learned too "
        "slowly; subtract their mean and divide them so that they spread over about 1, or raise "
        "optimizer.learning_rate",
        *mse_, *of_mean);
  }

 private:
  bool by_loss() const { return config_.task.metric == TaskMetric::loss; }

  static std::optional<double> mean_value(const TaskDataset& train) {
    if (train.target() != TaskTarget::value) return std::nullopt;
    double sum = 0, weights = 0;
    for (std::int64_t i = 0; i < train.size(); ++i) {
      sum += train.weight(i) * train.sample(i).value;
      weights += train.weight(i);
    }
    return sum / weights;
  }

  const RunConfig& config_;
  Communicator& communicator_;
  std::shared_ptr<const TaskDataset> train_, validation_;
  double baseline_;
  std::string baseline_text_;
  std::optional<double> best_, mse_;  // of the best evaluation of this start
  TaskLoaderOptions options_;
  std::unique_ptr<TaskLoader> loader_;
};

/// The scores of the best checkpoint on the test part.
std::filesystem::path test_file(const RunConfig& options) {
  return std::filesystem::path(options.run_dir) / "test.json";
}

/// Evaluates the best checkpoint of a finished run on the test part.
TaskEvaluation evaluate_test(const PreparedTask& run, Log& log, Device device,
                             Communicator& communicator) {
  const RunConfig& options = run.spec.options;
  Log quiet(true);
  const ModelFolder folder = open_model(options.run_dir, {}, quiet);
  const auto model = load_model(folder, DType::f32, StoreMode::inference, device);
  TaskEvaluation result =
      evaluate_task(*model, run.test, options.training.micro_batch_size, communicator);
  const bool by_loss = result.scores.metric == "loss";
  log.say(fmt::format("test: {} examples, {}{}", run.test->examples(), describe(result.scores),
                      by_loss ? "" : fmt::format(", loss {:.4f}", result.loss)));
  if (communicator.is_first()) {
    auto json = evaluation_json(*run.test, result);
    json["step"] = RunState::read(folder.path / "state.json").step;
    for (std::int64_t i = 0; i < run.test->size(); ++i)
      json["bags"].push_back(run.test->sample_name(i));
    write_text_file(test_file(options), results_text(json) + "\n");
  }
  return result;
}

/// The remedy where a run has learned nothing: the learning rate if it is far from the default
/// of the model's width, which is the best of most measured runs.
std::string advice_for(const RunConfig& options) {
  const double rate = options.optimizer.learning_rate,
               usual = finetuning_rate(options.model.hidden_size);
  if (rate > 1.5 * usual || rate < usual / 1.5)
    return fmt::format("optimizer.learning_rate={:.2g}, the default of a model of this width",
                       usual);
  return fmt::format("more training.epochs, or optimizer.learning_rate={:.1g}", rate / 3);
}

RunResult finetune_embeddings(const RunSpec& spec, Log& log, Device device,
                              Communicator& communicator, bool describe_data,
                              const RunObserver& observer) {
  RunSpec complete = spec;
  EmbeddingData data = read_embedding_data(complete.options, spec.tokenizer);
  require_schedules_within_run(complete.options, std::ssize(data.train->content().samples));
  require_same_run(complete);
  const RunSession session(spec, log, communicator);
  if (describe_data) {
    for (const std::string& line : describe(data)) log.say(line);
    for (const std::string& line : embedding_warnings(data)) log.warn(line);
  }
  return with_recorded_errors(log, [&] {
    const auto objective =
        make_embedding_objective(complete.options, std::move(data), communicator);
    return train_run(session, complete, *objective, device, observer);
  });
}

}  // namespace

RunData run_data(const PreparedTask& run) {
  const auto& tokenizer = run.spec.tokenizer;
  return {.tokenizer = tokenizer ? text_checksum(tokenizer->definition()) : "",
          .data = content_checksum(*run.train),
          .validation = content_checksum(*run.validation)};
}

std::vector<std::string> describe(const TaskStatistics& report, const RunConfig& config) {
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
    std::vector<std::string> labels;
    for (const auto& [label, count] : set->labels)
      labels.push_back(fmt::format("{} {}", printable(label), count));
    if (!labels.empty())
      lines.push_back(fmt::format(
          "  labels: {}{}", long_list(labels, 30),
          set->without_label > 0 ? fmt::format("; without any {}", set->without_label) : ""));
  }
  lines.push_back(
      fmt::format("always {}: {}", report.baseline_prediction, describe(report.baseline)));
  return lines;
}

void require_apart(std::initializer_list<const TaskDataset*> parts) {
  std::map<Digest, std::pair<std::string, const TaskDataset*>> first;
  for (const TaskDataset* data : parts) {
    for (std::int64_t i = 0; data && i < data->size(); ++i) {
      const std::string name = printable_path(data->bag(i).path());
      const auto& [other, part] =
          first.try_emplace(data->digests()[static_cast<std::size_t>(i)], name, data).first->second;
      require_input(part == data,
                    "{} and {} have the same features, and are in different parts of the data: the "
                    "model would be evaluated on what it is trained on; leave one of them out",
                    other, name);
    }
  }
}

std::vector<std::string> training_warnings(const TrainingConfig& training,
                                           const TaskDataset& data) {
  std::vector<std::string> lines;
  if (data.size() < training.batch_size)
    lines.push_back(fmt::format(
        "training.batch_size {} exceeds the {} training samples, and the run has {} steps in all; "
        "lower it for more",
        training.batch_size, data.size(), total_steps(training, data.size())));
  if (const std::string coarse = coarse_columns(data, training.dtype); !coarse.empty())
    lines.push_back(coarse);
  return lines;
}

PreparedTask prepare_task(const RunSpec& spec) {
  PreparedTask run;
  run.spec = spec;
  RunConfig& config = run.spec.options;
  const bool features = config.task.kind == TaskKind::features;
  std::optional<BagParts> bags;
  if (features && are_bag_tables(config.task, config.task.train))
    bags = part_bags(config.task, config.seed);
  LabelSet given = bags       ? bag_labels(config.task, *bags)
                   : features ? LabelSet(config.task.labels)
                              : task_labels(config.task);
  // A head that is kept has an order of its own of the same labels.
  const bool kept = spec.start && !config.start.fresh_head && config.task.labels.empty() &&
                    spec.start->config.head == config.model.head;
  if (kept && std::ranges::is_permutation(spec.start->config.labels, given.names()))
    given = LabelSet(spec.start->config.labels);
  const auto reader = [&](const LabelSet& labels) {
    return std::make_unique<TaskReader>(config.task, labels, spec.tokenizer, config.model,
                                        config.data.sequence_length);
  };
  std::optional<TaskSources> sources;
  if (!bags) sources = task_sources(config.task, config.seed);
  run.train = bags ? reader(given)->open(bags->train, Labelled::required, bags->notes)
                   : reader(given)->read(sources->train, Labelled::required);
  require_input(run.train->target() != TaskTarget::none,
                "task.train: its files hold neither labels nor values; there is nothing to learn");
  require_schedules_within_run(config, run.train->size());
  // With features, the files decide whether the targets are classes or values.
  config.task.metric = deciding_metric(*run.train);
  run.reader = reader(run.train->labels());
  run.validation = bags ? run.reader->open(bags->validation, Labelled::required)
                        : run.reader->read(sources->validation, Labelled::required);
  if (bags && !bags->test.empty()) run.test = run.reader->open(bags->test, Labelled::required);
  if (bags) require_apart({run.train.get(), run.validation.get(), run.test.get()});
  const auto held = [](const TaskDataset& dataset) {
    return dataset.target() == TaskTarget::value ? "values" : "labels";
  };
  require_input(run.validation->target() == run.train->target(),
                "task.validation: its files hold {}, those of task.train {}; give both the same",
                held(*run.validation), held(*run.train));
  const auto choices = [](const TaskDataset& dataset) { return dataset.sample(0).rows.size(); };
  require_targets(*run.train, "the training data");
  require_targets(*run.validation, "the validation data");
  require_decidable(*run.validation, *config.task.metric, "validation");
  require_fine_values(*run.train, config.training.dtype);
  require_input(
      run.train->target() != TaskTarget::choice || choices(*run.validation) == choices(*run.train),
      "task.validation: its examples have {} choices, those of task.train {}; all need as many",
      choices(*run.validation), choices(*run.train));
  if (config.task.kind == TaskKind::tokens && !config.task.word_cut)
    config.task.word_cut = run.train->word_cut();
  config.model.labels = output_names(*run.train);
  config.model.multi_label = run.train->target() == TaskTarget::label_set;
  const std::size_t bytes = hf_config_text(config.model).size();
  require_input(bytes <= max_config_bytes,
                "{}: its labels make a config.json of {} bytes; at most {} are read: shorten them",
                fmt::join(config.task.train, ", "), bytes, max_config_bytes);
  require_same_run(run.spec);
  return run;
}

std::vector<std::string> run_warnings(const PreparedTask& run, const TaskStatistics& report) {
  const RunConfig& options = run.spec.options;
  std::vector<std::string> lines = task_warnings(report);
  if (options.task.kind == TaskKind::tokens && lowers_case(*run.spec.tokenizer))
    lines.emplace_back(
        "the tokenizer makes all text lower case, and names begin with capital letters; a model "
        "pretrained with tokenizer.train.lower_case: false finds more of them");
  std::ranges::copy(training_warnings(options.training, *run.train), std::back_inserter(lines));
  return lines;
}

FinetuneResult finetune(const RunSpec& spec, Log& log, Device device, Communicator& communicator,
                        bool describe_data, const RunObserver& observer) {
  require_computable(spec.options, device);
  require_memory(spec.options, device, communicator.size());
  if (spec.options.task.kind == TaskKind::embeddings)
    return {finetune_embeddings(spec, log, device, communicator, describe_data, observer), {}};
  const PreparedTask run = prepare_task(spec);  // reports errors before any file is written
  const RunConfig& options = run.spec.options;
  const TaskStatistics report = task_statistics(*run.train, *run.validation);
  const RunSession session(spec, log, communicator);
  if (describe_data) {
    for (const std::string& line : describe(report, options)) log.say(line);
    for (const std::string& line : run_warnings(run, report)) log.warn(line);
  }
  return with_recorded_errors(log, [&] {
    TaskObjective objective(run, report, communicator);
    bool tested = run.test && communicator.is_first();  // perhaps, by an earlier start
    RunObserver watching = observer;
    watching.on_step = [&](const StepRecord& step) {
      if (std::exchange(tested, false)) std::filesystem::remove(test_file(options));
      return !observer.on_step || observer.on_step(step);
    };
    FinetuneResult result{train_run(session, run.spec, objective, device, watching), {}};
    const bool useless = result.best_value && !better(*result.best_value, report.baseline.decisive,
                                                      objective.data().higher_is_better);
    if (!result.interrupted && useless)
      log.warn(fmt::format("{} {:.4f} is no better than always {} ({:.4f}); try {}",
                           result.metric_name, *result.best_value, report.baseline_prediction,
                           report.baseline.decisive, advice_for(options)));
    const std::string scale = objective.scale_warning(report.baseline, result.best_value);
    if (!result.interrupted && !scale.empty()) log.warn(scale);
    if (run.test && !result.interrupted) {
      session.require_own_folder();
      result.test = evaluate_test(run, log, device, communicator);
    }
    return result;
  });
}

}  // namespace nystrom
