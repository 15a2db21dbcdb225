#include "train/task_evaluation.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/check.h"
#include "train/task_loss.h"

namespace nystrom {

namespace {

/// What the model said to some batches, as text to exchange: of each the samples, then one or two outputs. All numbers are f64.
class OutputsText {
 public:
  void add(const TaskBatch& batch, const std::vector<Tensor>& outputs) {
    put(static_cast<double>(batch.samples.size()));
    for (const std::int64_t sample : batch.samples) put(static_cast<double>(sample));
    for (const Tensor& output : outputs) {
      const std::vector<double> values = output.contiguous().to_doubles();
      put(static_cast<double>(values.size()));
      text_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
    }
  }
  const std::string& text() const { return text_; }

 private:
  void put(double value) { text_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  std::string text_;
};

/// Gives `scorer` what such a text holds.
void score_outputs(const std::string& text, TaskTarget target, TaskScorer& scorer) {
  std::vector<double> numbers(text.size() / sizeof(double));
  std::memcpy(numbers.data(), text.data(), text.size());
  std::size_t place = 0;
  const auto tensor = [&] {
    const auto count = static_cast<std::size_t>(numbers[place++]);
    const std::span<const double> values = std::span(numbers).subspan(place, count);
    place += count;
    return Tensor::from(values, {static_cast<std::int64_t>(count)});
  };
  while (place < numbers.size()) {
    TaskBatch batch;
    for (auto left = static_cast<std::size_t>(numbers[place++]); left > 0; --left)
      batch.samples.push_back(static_cast<std::int64_t>(numbers[place++]));
    const Tensor first = tensor();
    if (target == TaskTarget::span)
      scorer.add(batch, first, tensor());
    else
      scorer.add(batch, first);
  }
}

}  // namespace

TaskEvaluation evaluate_task(const Model& model, const std::shared_ptr<const TaskDataset>& dataset, const PaddingOptions& padding,
                             std::int64_t batch_size, Communicator& communicator, const std::function<void(std::int64_t)>& progress) {
  TaskScorer scorer(dataset);
  TaskLoaderOptions options;
  options.batch_size = options.micro_batch_size = batch_size;
  options.padding = padding;
  options.rank = communicator.rank();
  options.world_size = communicator.size();
  TaskEvaluationLoader loader(dataset, options);
  OutputsText outputs;
  std::vector<double> losses(static_cast<std::size_t>((dataset->size() + batch_size - 1) / batch_size), 0);
  double targets = 0;
  for (std::int64_t number = options.rank; const auto batch = loader.next(); number += options.world_size) {
    const ModelOutput out = task_output(model, *batch);
    losses[static_cast<std::size_t>(number)] = task_loss(model.config(), dataset->target(), out, *batch, 1).value().item();
    targets += static_cast<double>(batch->targets);
    if (dataset->target() == TaskTarget::span)
      outputs.add(*batch, {out.start_logits.value(), out.end_logits.value()});
    else
      outputs.add(*batch, {out.logits.value()});
    if (progress) progress(std::min((number + options.world_size) * batch_size, dataset->size()));
  }
  targets = communicator.sum(targets);
  losses = communicator.sum(losses);
  for (const std::string& text : communicator.gather(outputs.text())) score_outputs(text, dataset->target(), scorer);
  TaskEvaluation result;
  result.loss = std::accumulate(losses.begin(), losses.end(), 0.0);
  if (targets > 0) result.loss /= targets;
  result.scores = scorer.scores();
  return result;
}

std::string describe(const TaskScores& scores) {
  std::string text = fmt::format("{} {:.4f}", scores.metric, scores.decisive);
  for (const auto& [name, value] : scores.values) {
    if (name != scores.metric) text += fmt::format(", {} {:.4f}", name, value);
  }
  return text;
}

}  // namespace nystrom
