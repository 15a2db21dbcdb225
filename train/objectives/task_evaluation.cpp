#include "train/objectives/task_evaluation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/interruption.h"
#include "core/check.h"
#include "train/objectives/probabilities.h"
#include "train/objectives/task_loss.h"

namespace nystrom {

namespace {

/// Outputs as bytes that processes can exchange: for each sample its index, and two counts of
/// numbers with the numbers, all in f64.
std::string packed(const std::vector<SampleOutputs>& outputs) {
  std::vector<double> numbers;
  for (const SampleOutputs& each : outputs) {
    numbers.push_back(static_cast<double>(each.sample));
    for (const std::vector<double>* part : {&each.first, &each.last}) {
      numbers.push_back(static_cast<double>(part->size()));
      numbers.insert(numbers.end(), part->begin(), part->end());
    }
  }
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double)};
}

/// Unpacks the bytes of packed() and adds them to `scorer`.
void score_outputs(const std::string& bytes, TaskScorer& scorer) {
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
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

}  // namespace

TaskEvaluation evaluate_task(const Model& model, const std::shared_ptr<const TaskDataset>& dataset,
                             std::int64_t batch_size, Communicator& communicator,
                             const std::function<void(std::int64_t)>& progress) {
  TaskScorer scorer(dataset);
  TaskLoaderOptions options;
  options.batch_size = options.micro_batch_size = batch_size;
  options.equal_lengths = model.config().needs_equal_lengths();
  options.rank = communicator.rank();
  options.world_size = communicator.size();
  TaskEvaluationLoader loader(dataset, options);
  const std::int64_t batches = loader.batches();
  std::vector<double> losses(static_cast<std::size_t>(batches), 0);
  double targets = 0;
  // In each round every process computes one batch, then all processes score the batches of all.
  // Only the outputs of one round are in memory.
  for (std::int64_t begin = 0; begin < batches; begin += options.world_size) {
    check_interruption();
    std::string own;
    if (const auto batch = loader.next()) {
      const ModelOutput out = task_output(model, *batch);
      losses[static_cast<std::size_t>(begin + options.rank)] =
          task_loss(model.config(), dataset->target(), out, *batch, 1).value().item();
      targets += static_cast<double>(batch->targets);
      own = packed(sample_outputs(*dataset, batch->samples, out));
    }
    for (const std::string& bytes : communicator.gather(own)) score_outputs(bytes, scorer);
    if (progress)
      progress(std::min(begin + options.world_size, batches) * dataset->size() / batches);
  }
  targets = communicator.sum(targets);
  losses = communicator.sum(losses);
  TaskEvaluation result;
  result.loss = std::accumulate(losses.begin(), losses.end(), 0.0);
  if (targets > 0) result.loss /= targets;
  require_finite(std::span(&result.loss, 1));
  result.scores = scorer.scores();
  if (result.scores.metric == "loss") result.scores.decisive = result.loss;
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

}  // namespace nystrom
