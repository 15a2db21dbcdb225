#include "train/objectives/task_evaluation.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/interruption.h"
#include "core/check.h"
#include "data/tasks/task_metrics.h"

namespace nystrom {
namespace {

/// Adds outputs to numbers that processes exchange: for each sample its index, and two counts of
/// numbers with the numbers.
void pack(const std::vector<SampleOutputs>& outputs, std::vector<double>& numbers) {
  for (const SampleOutputs& each : outputs) {
    numbers.push_back(static_cast<double>(each.sample));
    for (const std::vector<double>* part : {&each.first, &each.last}) {
      numbers.push_back(static_cast<double>(part->size()));
      numbers.insert(numbers.end(), part->begin(), part->end());
    }
  }
}

/// Unpacks the numbers of pack() and adds the outputs to `scorer`.
void score_outputs(std::span<const double> numbers, TaskScorer& scorer) {
  for (auto next = numbers.begin(); next != numbers.end();) {
    SampleOutputs outputs;
    outputs.sample = static_cast<std::int64_t>(*next++);
    for (std::vector<double>* part : {&outputs.first, &outputs.last}) {
      const auto count = static_cast<std::ptrdiff_t>(*next++);
      part->assign(next, next + count);
      next += count;
      require_finite(*part);
    }
    scorer.add(std::move(outputs));
  }
}

/// The penalty that excludes a position from a softmax: its exp is 0 in every dtype.
constexpr double excluded = -1e9;

/// Logits [b, n] of sequences with these offsets, without the positions behind their tokens.
Var of_tokens(const Var& logits, const std::vector<std::int64_t>& offsets) {
  const auto length = static_cast<std::size_t>(logits.dim(1));
  std::vector<double> penalties;
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    penalties.resize(penalties.size() + static_cast<std::size_t>(offsets[i] - offsets[i - 1]));
    penalties.resize(i * length, excluded);
  }
  const Tensor penalty = Tensor::from(penalties, logits.shape()).cast(logits.dtype());
  return logits + Var(penalty.to(logits.value().device()));
}

/// The labels whose samples have the factor `weight`; ignore_index for the others.
Tensor labels_of_weight(const Batch& batch, double weight) {
  Tensor labels = batch.labels.clone();
  for (std::size_t i = 0; i < batch.weights.size(); ++i)
    if (batch.weights[i] != weight) labels.data<std::int64_t>()[i] = ignore_index;
  return labels;
}

/// Σ weight · cross-entropy / normaliser: the few different weights, one by one.
Var weighted_classification_loss(const Var& logits, const Batch& batch, double normaliser) {
  Var loss;
  for (const double weight : std::set<double>(batch.weights.begin(), batch.weights.end())) {
    const Var own =
        weight * classification_loss(logits, labels_of_weight(batch, weight), normaliser);
    loss = loss.defined() ? loss + own : own;
  }
  return loss;
}

/// Σ weight · (output − value)² / normaliser.
Var squared_error(const Var& outputs, const Batch& batch, double normaliser) {
  const std::int64_t rows = batch.labels.numel();
  Tensor values = batch.labels;
  Var x = reshape(outputs, {rows});
  if (!batch.weights.empty()) {
    std::vector<double> roots;
    for (const double weight : batch.weights) roots.push_back(std::sqrt(weight));
    const Tensor factors = Tensor::from(roots, {rows});
    x = x * Var(factors.cast(x.dtype()).to(x.value().device()));
    values = (Var(values.cast(DType::f64)) * Var(factors)).value().cast(values.dtype());
  }
  return mean_squared_error(x, values.to(x.value().device())) *
         (static_cast<double>(rows) / normaliser);
}

}  // namespace

TaskEvaluation evaluate_task(const Model& model, const std::shared_ptr<const TaskDataset>& dataset,
                             std::int64_t batch_size, Communicator& communicator,
                             const std::function<void(std::int64_t)>& progress) {
  TaskScorer scorer(dataset);
  TaskLoaderOptions options;
  options.micro_batch_size = batch_size;
  options.rank = communicator.rank();
  options.world_size = communicator.size();
  TaskEvaluationLoader loader(dataset, options);
  TaskEvaluation result;
  double targets = 0;
  const auto compute = [&](std::int64_t) {
    check_interruption();
    const Batch batch = *loader.next();
    const ModelOutput out = task_output(model, batch);
    std::vector<double> numbers = {
        task_loss(model.config(), dataset->target(), out, batch, 1).value().item(),
        static_cast<double>(batch.targets)};
    pack(sample_outputs(*dataset, batch.samples, out), numbers);
    return numbers;
  };
  const std::int64_t batches = loader.batches();
  communicator.share(batches, compute, [&](std::int64_t batch, std::span<const double> numbers) {
    result.loss += numbers[0];
    targets += numbers[1];
    score_outputs(numbers.subspan(2), scorer);
    if (progress) progress((batch + 1) * dataset->size() / batches);
  });
  result.loss /= targets;
  require_finite(std::span(&result.loss, 1));
  result.scores = scorer.scores(result.loss);
  return result;
}

std::string describe(const TaskScores& scores) {
  const auto shown = [](const std::string& name, double value) {
    if (std::isnan(value)) return name + " undefined";
    const bool tiny = value != 0 && std::abs(value) < 1e-3;  // of small numbers to learn
    return name + " " + fmt::format(fmt::runtime(tiny ? "{:.2e}" : "{:.4f}"), value);
  };
  std::string text = shown(scores.metric, scores.decisive);
  for (const auto& [name, value] : scores.values)
    if (name != scores.metric) text += ", " + shown(name, value);
  return text;
}

nlohmann::ordered_json evaluation_json(const TaskDataset& data, const TaskEvaluation& evaluation) {
  nlohmann::ordered_json json = {{"examples", data.examples()}, {"loss", evaluation.loss}};
  for (const auto& [name, value] : evaluation.scores.values) json[name] = value;
  if (!evaluation.scores.confusion.empty()) {
    json["labels"] = data.labels().names();
    json["confusion"] = evaluation.scores.confusion;
  }
  for (std::size_t i = 0; i < evaluation.scores.classes.size(); ++i) {
    const ClassFigures& figures = evaluation.scores.classes[i];
    json["classes"].push_back({{"label", data.labels().names()[i]},
                               {"support", figures.support},
                               {"precision", figures.score.precision},
                               {"recall", figures.score.recall},
                               {"f1", figures.score.f1},
                               {"auc", figures.auc}});
  }
  return json;
}

std::string results_text(const nlohmann::ordered_json& results) {
  return results.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

ModelOutput task_output(const Model& model, Batch batch, const RunContext& run) {
  ModelOutput out = model(std::move(batch.input), run);
  if (model.config().head == Head::multiple_choice)
    out.logits = reshape(out.logits, {out.logits.dim(0) / batch.choices, batch.choices});
  return out;
}

std::vector<SampleOutputs> sample_outputs(const TaskDataset& data,
                                          std::span<const std::int64_t> samples,
                                          const ModelOutput& out) {
  return data.target() == TaskTarget::span
             ? outputs_by_sample(data, samples, out.start_logits.value(), out.end_logits.value())
             : outputs_by_sample(data, samples, out.logits.value());
}

Var task_loss(const ModelConfig& config, TaskTarget target, const ModelOutput& out,
              const Batch& batch, double normaliser) {
  const std::int64_t labels = config.num_labels();
  require_input(target != TaskTarget::value || labels == 1,
                "the files hold numbers, and the model tells {} labels", labels);
  require_input(target != TaskTarget::classes || labels > 1,
                "the files hold labels, and the model predicts a number");
  switch (target) {
    case TaskTarget::classes:
      if (!batch.weights.empty())
        return weighted_classification_loss(out.logits, batch, normaliser);
      [[fallthrough]];
    case TaskTarget::word_classes:
    case TaskTarget::choice: return classification_loss(out.logits, batch.labels, normaliser);
    case TaskTarget::label_set: return multi_label_loss(out.logits, batch.labels, normaliser);
    case TaskTarget::value: return squared_error(out.logits, batch, normaliser);
    case TaskTarget::span: {
      Var start = out.start_logits, end = out.end_logits;
      if (!config.fixed_length()) {  // else padding is read, as in transformers
        start = of_tokens(start, batch.input.offsets);
        end = of_tokens(end, batch.input.offsets);
      }
      return question_answering_loss(start, end, batch.start_positions, batch.end_positions,
                                     normaliser);
    }
    case TaskTarget::none: break;
  }
  throw Error("task_loss: the task predicts nothing");
}

}  // namespace nystrom
