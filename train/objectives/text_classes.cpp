#include "train/objectives/text_classes.h"

#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/labels.h"
#include "data/tasks/task_metrics.h"
#include "train/objectives/logistic_regression.h"
#include "train/objectives/text_blocks.h"

namespace nystrom {
namespace {

/// Texts as vectors, [rows, d] f32, and their labels.
struct LabelledVectors {
  Tensor vectors;
  std::vector<std::int64_t> labels;
};

LabelledVectors read_vectors(TextEmbedder& embedder, const TaskConfig& task,
                             const std::vector<std::string>& patterns, const LabelSet& known) {
  LabelledVectors result;
  std::vector<float> values;
  TextBlocks blocks(embedder, [&](const std::vector<Example>& examples, const Tensor& vectors) {
    const auto* data = vectors.data<float>();
    values.insert(values.end(), data, data + vectors.numel());
    for (const Example& example : examples) {
      const std::int64_t label = known.find(*example.label);
      require_input(label >= 0, "{}: the label '{}' is not in the files to train on; their {}",
                    example.place(), printable(*example.label), describe(known));
      result.labels.push_back(label);
    }
  });
  SkippedRows skipped;
  for_each_example(task, patterns, Labelled::required, skipped, [&](Example&& example) {
    refuse_blank(example.text, example);
    blocks.add(std::move(example));
  });
  blocks.finish();
  require_input(!result.labels.empty(), "{}", describe_unreadable(patterns, skipped));
  result.vectors = Tensor::from(values, {std::ssize(result.labels), embedder.width()});
  return result;
}

}  // namespace

ClassScores evaluate_classes(TextEmbedder& embedder, const TaskConfig& task) {
  const LabelSet labels = task_labels(task);
  ClassScores scores;
  scores.labels = labels.size();
  const LogisticRegression classifier = [&] {
    const LabelledVectors train = read_vectors(embedder, task, task.train, labels);
    scores.train = std::ssize(train.labels);
    return LogisticRegression(train.vectors, train.labels, labels.size());
  }();
  const LabelledVectors test = read_vectors(embedder, task, task.validation, labels);
  scores.test = std::ssize(test.labels);
  const std::vector<std::int64_t> said = classifier.predict(test.vectors);
  scores.accuracy = accuracy(test.labels, said);
  scores.f1_macro = macro_f1(test.labels, said);
  return scores;
}

}  // namespace nystrom
