#include "train/task_evaluation.h"

#include "core/check.h"
#include "train/task_loss.h"

namespace nystrom {

TaskEvaluation evaluate_task(const Model& model, const std::shared_ptr<const TaskDataset>& dataset, const PaddingOptions& padding,
                             std::int64_t batch_size, const std::function<void(std::int64_t)>& progress) {
  TaskScorer scorer(dataset);
  TaskLoaderOptions options;
  options.batch_size = options.micro_batch_size = batch_size;
  options.padding = padding;
  TaskEvaluationLoader loader(dataset, options);
  TaskEvaluation result;
  std::int64_t done = 0, targets = 0;
  while (const auto batch = loader.next()) {
    const ModelOutput out = task_output(model, *batch);
    result.loss += task_loss(model.config(), dataset->target(), out, *batch, 1).value().item();
    targets += batch->targets;
    if (dataset->target() == TaskTarget::span) {
      scorer.add(*batch, out.start_logits.value().to(cpu_device), out.end_logits.value().to(cpu_device));
    } else {
      scorer.add(*batch, out.logits.value().to(cpu_device));
    }
    done += static_cast<std::int64_t>(batch->samples.size());
    if (progress) progress(done);
  }
  if (targets > 0) result.loss /= static_cast<double>(targets);
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
