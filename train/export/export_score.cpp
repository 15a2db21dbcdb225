#include "train/export/export_score.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "autograd/ops.h"
#include "core/base/interruption.h"
#include "core/base/progress.h"
#include "core/check.h"
#include "data/tasks/examples.h"
#include "data/tasks/task_metrics.h"
#include "data/tasks/task_scorer.h"
#include "data/tasks/task_statistics.h"
#include "data/text/match_files.h"
#include "train/config/validation.h"
#include "train/export/onnx_modules.h"
#include "train/loop/train_step.h"
#include "train/objectives/evaluation.h"
#include "train/objectives/task_evaluation.h"
#include "train/objectives/task_settings.h"
#include "train/state/hf_config.h"
#include "train/state/run_state.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t batch_size = 8, max_sequences = 64;

/// A model as one program runs it.
struct Runtime {
  const char* name;
  std::unique_ptr<Model> model;
  bool int8 = false;
};

/// The programs that run the export in different ways, nystrom first: see ExportScoring.
std::vector<Runtime> runtimes_of(const fs::path& path) {
  ModelFolder folder(path);
  folder.config.attention.semantics = Semantics::nystrom;
  std::vector<Runtime> runtimes;
  const auto add = [&](const char* name, const ModelFolder& as) -> Runtime& {
    return runtimes.emplace_back(Runtime{name, load_model(as, DType::f32, StoreMode::inference)});
  };
  add("nystrom", folder);
  if (names_transformers_class(*folder.config_json))
    add("transformers", as_in_transformers(folder));
  if (fs::exists(path / "onnx" / "model_int8.onnx")) {
    Runtime& rounded = add("ONNX int8", folder);
    round_to_int8(*rounded.model);
    rounded.int8 = true;
  }
  return runtimes;
}

/// The results at the masked tokens of a batch of texts.
MaskedLmOutput masked_lm_of(const Runtime& runtime, const Batch& batch) {
  if (!runtime.int8) return runtime.model->masked_lm(batch.input, batch.labels, 1, {});
  // A file in int8 rounds by the range of all rows, and by that of padding too.
  const auto& offsets = batch.input.offsets;
  std::vector<Var> logits;
  std::vector<std::int64_t> labels;
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    const auto own = [&](const Tensor& x) {
      return x.defined() ? x.slice(0, offsets[s], offsets[s + 1]).contiguous() : x;
    };
    const Tensor of_rows = own(batch.labels);
    std::vector<std::int64_t> masked;
    for (std::int64_t i = 0; i < of_rows.numel(); ++i) {
      const std::int64_t label = of_rows.data<std::int64_t>()[i];
      if (label == ignore_index) continue;
      masked.push_back(i);
      labels.push_back(label);
    }
    const ModelInput input{.input_ids = own(batch.input.input_ids),
                           .token_type_ids = own(batch.input.token_type_ids),
                           .offsets = {0, of_rows.numel()}};
    logits.push_back(
        gather_rows((*runtime.model)(input).logits, Tensor::from(masked, {std::ssize(masked)})));
  }
  const Shape targets{std::ssize(labels)};
  MaskedLmOutput out{
      {}, Tensor::empty(targets, DType::i64), Tensor::from(labels, targets), concat(logits, 0)};
  out.loss = cross_entropy(out.logits, out.labels, 1, out.predictions);
  return out;
}

/// Throws a DivergedError unless the loss of a runtime on `data` is finite.
void require_finite(double loss, const char* runtime, const std::string& data) {
  if (!std::isfinite(loss))
    throw DivergedError(fmt::format(
        "the loss of {} on {} is not finite: weights have grown beyond use; choose an earlier "
        "checkpoint of a run, or leave out --verify, --onnx int8 and --text",
        runtime, data));
}

/// Sums over the targets of one runtime.
struct Sums {
  double loss = 0, correct = 0, same = 0;
};

ExportScores score_text(const fs::path& folder, const MaskedSamples& samples,
                        const std::vector<std::string>& files, Log& log) {
  const std::vector<Runtime> runtimes = runtimes_of(folder);
  Prefetcher batches = evaluation_batches(samples, {batch_size, batch_size});
  std::vector<Sums> sums(runtimes.size());
  ExportScores scores;
  Progress progress("sequence", 0, max_sequences, log);
  for (std::int64_t done = 0; done < max_sequences; done += batch_size) {
    check_interruption();
    const auto batch = batches.next();
    if (!batch) break;
    scores.targets += batch->targets;
    Tensor ours;
    for (std::size_t i = 0; i < runtimes.size(); ++i) {
      const MaskedLmOutput out = masked_lm_of(runtimes[i], *batch);
      if (i == 0) ours = out.predictions;
      sums[i].loss += out.loss.value().item();
      sums[i].correct += static_cast<double>(count_equal(out.predictions, out.labels));
      sums[i].same += static_cast<double>(count_equal(out.predictions, ours));
    }
    progress.update(done + batch_size, "", false);
  }
  require_input(scores.targets > 0, "--text: the text holds no token to predict");
  const auto n = static_cast<double>(scores.targets);
  scores.data = fmt::format("{} masked tokens of {}", scores.targets, fmt::join(files, ", "));
  for (std::size_t i = 0; i < runtimes.size(); ++i) {
    require_finite(sums[i].loss, runtimes[i].name, scores.data);
    scores.runtimes.push_back(
        {runtimes[i].name, sums[i].loss / n, "accuracy", sums[i].correct / n, sums[i].same / n});
  }
  return scores;
}

// ---- Tasks --------------------------------------------------------------------------------------

/// The top predictions for the targets of a sample; none for numbers.
std::vector<std::int64_t> top_predictions(const TaskDataset& data, const SampleOutputs& outputs) {
  const auto place = [](std::span<const double> scores) {
    return std::ranges::max_element(scores) - scores.begin();
  };
  std::vector<std::int64_t> top;
  switch (data.target()) {
    case TaskTarget::classes:
    case TaskTarget::choice: return {place(outputs.first)};
    case TaskTarget::span: return {place(outputs.first), place(outputs.last)};
    case TaskTarget::label_set:
      for (const double logit : outputs.first)
        top.push_back(sigmoid(logit) >= threshold_of(data.task()));
      break;
    case TaskTarget::word_classes:
      for (const WordLabel& word :
           word_labels(data.sample(outputs.sample), outputs.first, data.labels().size()))
        if (word.label >= 0) top.push_back(word.label);
      break;
    case TaskTarget::value:
    case TaskTarget::none: break;
  }
  return top;
}

/// Examples for the model's task.
struct TaskData {
  TaskModel task;  // without its model
  std::vector<std::string> patterns;
  std::shared_ptr<const TaskDataset> examples;

  TaskData(const ModelFolder& source, const ExampleSource& files,
           const std::vector<std::string>& overrides)
      : task(open_task(source, settings_of(source, std::nullopt, overrides))),
        patterns(files.patterns) {
    require_none(problems(task.settings.task));  // data.text_column may name that of the labels
    examples = task.reader->read(files, Labelled::required);
  }
};

ExportScores score_task(const fs::path& folder, const TaskData& task, Log& log) {
  const std::shared_ptr<const TaskDataset>& data = task.examples;
  for (const std::string& line : warnings_of(data->skipped())) log.warn(line);
  warn_of_losses(data->kind(), data->counts(), task.task.settings.data.sequence_length, log);
  const std::vector<Runtime> runtimes = runtimes_of(folder);
  TaskLoaderOptions options;
  // A file in int8 rounds by the range of all rows of a batch, those of padding too.
  options.micro_batch_size = std::ranges::any_of(runtimes, &Runtime::int8) ? 1 : batch_size;
  TaskEvaluationLoader loader(data, options);
  std::deque<TaskScorer> scorers;
  for (std::size_t i = 0; i < runtimes.size(); ++i) scorers.emplace_back(data);
  std::vector<Sums> sums(runtimes.size());
  double targets = 0, compared = 0;
  std::int64_t done = 0;
  Progress progress("sample", 0, data->size(), log);
  while (const auto batch = loader.next()) {
    check_interruption();
    std::vector<std::int64_t> ours;
    for (std::size_t i = 0; i < runtimes.size(); ++i) {
      const ModelOutput out =
          task_output(*runtimes[i].model, *batch, {.logits_only = !runtimes[i].int8});
      sums[i].loss +=
          task_loss(runtimes[i].model->config(), data->target(), out, *batch, 1).value().item();
      std::vector<std::int64_t> top;
      for (SampleOutputs& outputs : sample_outputs(*data, batch->samples, out)) {
        const std::vector<std::int64_t> own = top_predictions(*data, outputs);
        top.insert(top.end(), own.begin(), own.end());
        scorers[i].add(std::move(outputs));
      }
      if (i == 0) ours = top;
      for (std::size_t k = 0; k < top.size(); ++k) sums[i].same += top[k] == ours[k];
    }
    compared += static_cast<double>(ours.size());
    targets += static_cast<double>(batch->targets);
    progress.update(done += std::ssize(batch->samples), "", false);
  }
  ExportScores scores{
      fmt::format("{} examples of {}", data->examples(), fmt::join(task.patterns, ", ")),
      data->examples(),
      {}};
  for (std::size_t i = 0; i < runtimes.size(); ++i) {
    const double loss = sums[i].loss / targets;
    require_finite(loss, runtimes[i].name, scores.data);
    const TaskScores found = scorers[i].scores(loss);
    const std::string& metric = found.metric == "loss" ? found.values[0].first : found.metric;
    scores.runtimes.push_back(
        {runtimes[i].name, loss, metric, *found.value(metric),
         compared > 0 ? std::optional(sums[i].same / compared) : std::nullopt});
  }
  return scores;
}

/// Throws an InputError for sequences that are longer than the rows of transformers' own class.
void require_fitting_rows(const RunConfig& config, const ModelConfig& source,
                          const ExportOptions& options) {
  ModelConfig theirs = source;
  theirs.attention.semantics = Semantics::transformers;
  const auto fixed = theirs.fixed_length();
  if (options.format != ExportFormat::transformers || options.softmax || !fixed) return;
  const std::int64_t given = config.data.sequence_length,
                     length = std::min(given, source.longest_sequence().value_or(given));
  require_input(length <= *fixed,
                "data.sequence_length {} is more than the {} tokens (segment_means_seq_len) of a "
                "row in transformers, where --format transformers is measured; give --text with "
                "--set data.sequence_length={}",
                length, *fixed, *fixed);
}

}  // namespace

ExportScoring export_scoring(const ModelFolder& source, const ExportOptions& options,
                             const std::vector<std::string>& text,
                             const std::vector<std::string>& overrides, Log& log) {
  const bool masked_lm = source.config.head == Head::masked_lm;
  if (source.config.head == Head::none || source.config.embed_dim) return {};
  ExampleSource examples = text;
  if (text.empty()) {
    if (!fs::exists(source.path / "config.yaml")) return {};
    const RunConfig config = settings_of(source, std::nullopt, {});
    const bool held_out = config.task.validation_fraction.has_value();
    const std::vector<std::string> patterns = masked_lm  ? patterns_of(config.data.validation)
                                              : held_out ? config.task.train
                                                         : config.task.validation;
    const auto missing = [](const std::string& pattern) {
      try {
        return !fs::is_directory(pattern) && match_files(std::span(&pattern, 1)).empty();
      } catch (const InputError&) {
        return true;  // the run's files may be on another machine
      }
    };
    if (patterns.empty() || std::ranges::any_of(patterns, missing)) return {};
    examples =
        masked_lm ? patterns : task_sources(resolve_task(config.task), config.seed).validation;
  }
  if (masked_lm) {
    const auto data = std::make_shared<TextSamples>(source, examples.patterns, overrides);
    require_fitting_rows(data->config, source.config, options);
    // More text than max_sequences hold: a token stands for a few bytes.
    const std::int64_t enough = 32 * max_sequences * data->config.data.sequence_length;
    std::int64_t bytes = 0;
    data->tokenize(log, [&](const TextPiece& piece) {
      return std::exchange(bytes, bytes + std::ssize(piece.text)) < enough;
    });
    return [data, files = examples.patterns](const fs::path& folder, Log& later) {
      return score_text(folder, data->samples, files, later);
    };
  }
  const auto data = std::make_shared<const TaskData>(source, examples, overrides);
  require_fitting_rows(data->task.settings, source.config, options);
  if (const fs::path state = source.path / "state.json"; text.empty() && fs::exists(state)) {
    const auto trained =
        overrides.empty() ? data->examples : TaskData(source, examples, {}).examples;
    require_input(RunState::read(state).validation == content_checksum(*trained),
                  "--verify: the validation data have changed since the training; name others by "
                  "--text");
  }
  return [data](const fs::path& folder, Log& later) { return score_task(folder, *data, later); };
}

}  // namespace nystrom
