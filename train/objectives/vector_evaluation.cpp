#include "train/objectives/vector_evaluation.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/checksum.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/labels.h"
#include "data/tasks/task_metrics.h"
#include "train/objectives/logistic_regression.h"
#include "train/objectives/text_embedder.h"

namespace nystrom {
namespace {

/// Texts as vectors, [rows, d] f32, and their labels.
struct LabelledVectors {
  Tensor vectors;
  std::vector<std::int64_t> labels;
};

LabelledVectors read_labelled(TextEmbedder& embedder, const TaskConfig& task,
                              const std::vector<std::string>& patterns, const LabelSet& known,
                              std::vector<std::string>& warnings) {
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
  add_new_notes(warnings, warnings_of(skipped));
  result.vectors = Tensor::from(values, {std::ssize(result.labels), embedder.width()});
  return result;
}

/// A hash of each row of vectors.
std::vector<Digest> row_digests(const Tensor& vectors) {
  std::vector<Digest> digests;
  for (std::int64_t row = 0; row < vectors.dim(0); ++row) {
    Checksum checksum;
    checksum.update(vectors.data<float>() + row * vectors.dim(1),
                    static_cast<std::size_t>(vectors.dim(1)) * sizeof(float));
    digests.push_back(checksum.digest());
  }
  return digests;
}

}  // namespace

double cosine(const Tensor& a, std::int64_t i, const Tensor& b, std::int64_t j) {
  const std::int64_t width = a.dim(1);
  const float *const x = a.data<float>() + i * width, *const y = b.data<float>() + j * width;
  double product = 0, x_squares = 0, y_squares = 0;
  for (std::int64_t c = 0; c < width; ++c) {
    product += static_cast<double>(x[c]) * y[c];
    x_squares += static_cast<double>(x[c]) * x[c];
    y_squares += static_cast<double>(y[c]) * y[c];
  }
  const double lengths = std::sqrt(x_squares * y_squares);
  return lengths > 0 ? product / lengths : 0;
}

VectorScores evaluate_pairs(TextEmbedder& first, TextEmbedder& second, const TaskConfig& task,
                            const std::vector<std::string>& patterns) {
  std::vector<std::string> texts, pairs;
  std::vector<double> scores, cosines;
  std::int64_t bytes = 0;
  const auto flush = [&] {
    if (texts.empty()) return;
    const Tensor a = first(texts), b = second(pairs);
    for (std::int64_t row = 0; row < a.dim(0); ++row) cosines.push_back(cosine(a, row, b, row));
    texts.clear();
    pairs.clear();
    bytes = 0;
  };
  SkippedRows skipped;
  for_each_example(task, patterns, Labelled::required, skipped, [&](Example&& example) {
    refuse_blank(example.text, example);
    refuse_blank(*example.pair, example);
    bytes += std::ssize(example.text) + std::ssize(*example.pair);
    texts.push_back(std::move(example.text));
    pairs.push_back(std::move(*example.pair));
    scores.push_back(*example.value);
    if (is_full_block(std::ssize(texts), bytes, first.options().batch_size)) flush();
  });
  flush();
  require_input(!scores.empty(), "{}", describe_unreadable(patterns, skipped));
  const double spearman = spearman_correlation(cosines, scores);
  require_input(std::isfinite(spearman),
                "{} pairs have no correlation: their scores or their cosines are all equal",
                scores.size());
  return {{{"pairs", std::ssize(scores)}},
          {{"spearman", spearman}, {"pearson", pearson_correlation(cosines, scores)}},
          warnings_of(skipped)};
}

VectorScores evaluate_classes(TextEmbedder& embedder, const TaskConfig& task) {
  require_input(
      *task.multi_label == false,
      "task.multi_label is true, and the vectors are sorted into one class each; leave it "
      "out, or give each text one label");
  const LabelSet labels = task_labels(task);
  std::vector<std::string> warnings;
  std::int64_t trained = 0;
  std::set<Digest> known;
  const LogisticRegression classifier = [&] {
    const LabelledVectors train = read_labelled(embedder, task, task.train, labels, warnings);
    trained = std::ssize(train.labels);
    for (const Digest& row : row_digests(train.vectors)) known.insert(row);
    return LogisticRegression(train.vectors, train.labels, labels.size());
  }();
  const LabelledVectors test = read_labelled(embedder, task, task.validation, labels, warnings);
  const std::vector<std::int64_t> said = classifier.predict(test.vectors);
  const auto overlap = std::ranges::count_if(
      row_digests(test.vectors), [&](const Digest& row) { return known.contains(row); });
  if (overlap > 0)
    warnings.push_back(
        fmt::format("{} of {} texts to test are among those to train on, as the model reads them; "
                    "their score is no test",
                    overlap, test.labels.size()));
  return {{{"texts to train on", trained},
           {"texts to test", std::ssize(test.labels)},
           {"labels", labels.size()}},
          {{"accuracy", accuracy(test.labels, said)}, {"f1_macro", macro_f1(test.labels, said)}},
          std::move(warnings)};
}

}  // namespace nystrom
