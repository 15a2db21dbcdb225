// A step on a task must not depend on padding or on the division into micro-batches.

#include <gtest/gtest.h>

#include "data/tokenizers/tokenizer_folder.h"
#include "tests/support/tiny_checkpoint.h"
#include "train/config/config.h"
#include "train/loop/train_step.h"
#include "train/objectives/task_data.h"
#include "train/objectives/task_evaluation.h"

namespace nystrom::testing {
namespace {

struct Kind {
  TaskKind kind;
  std::vector<std::string> labels = {};
  Pooling pooling = Pooling::first;
  Pairs pairs = Pairs::joined;
  bool multi_label = false;
  Semantics semantics = Semantics::nystrom;  // transformers: its exact case
};
std::string name_of(const Kind& kind) {
  return std::string(enum_name(kind.kind)) + (kind.pairs == Pairs::towers ? "_towers" : "") +
         (kind.pooling == Pooling::mean ? "_mean" : "") + (kind.multi_label ? "_label_sets" : "") +
         (kind.semantics == Semantics::transformers ? "_as_transformers" : "");
}
void PrintTo(const Kind& kind, std::ostream* out) {
  *out << name_of(kind);
}  // NOLINT: GoogleTest's name

class TaskLoss : public ::testing::TestWithParam<Kind> {
 protected:
  TaskLoss() {
    write_tiny_tokenizer(folder_ / "tokenizer");
    tokenizer_ = open_tokenizer(folder_ / "tokenizer");
    config_ = tiny_masked_lm();
    config_.head = head_of(GetParam().kind);
    config_.pooling = GetParam().pooling;
    config_.pairs = GetParam().pairs;
    config_.attention.semantics = GetParam().semantics;
    if (GetParam().semantics == Semantics::transformers)
      config_.segment_means_seq_len = config_.attention.num_landmarks;
    config_.labels = GetParam().kind == TaskKind::regression ? std::vector<std::string>{"LABEL_0"}
                                                             : GetParam().labels;
    TaskConfig task;
    task.kind = GetParam().kind;
    task.stride = 2;
    if (GetParam().multi_label) task.multi_label = true;
    reader_ = std::make_unique<TaskReader>(resolve_task(task), LabelSet(GetParam().labels),
                                           tokenizer_, config_, length);
    data_ = reader_->from(examples());
  }

  /// Examples with texts of three to ten words.
  static std::vector<Example> examples() {
    const std::vector<std::string> lines = tiny_lines(40, 7);
    std::vector<Example> result;
    for (std::size_t i = 0; i + 4 <= lines.size(); i += 4) {
      Example example;
      example.labelled = true;
      example.text = lines[i];
      if (GetParam().pairs == Pairs::towers) example.pair = lines[i + 1];
      switch (GetParam().kind) {
        case TaskKind::classification:
          for (std::size_t label = 0; GetParam().multi_label && label < 3; ++label)
            if ((i / 4) >> label & 1) example.labels.push_back(GetParam().labels[label]);
          if (!GetParam().multi_label) example.label = GetParam().labels[i / 4 % 3];
          break;
        case TaskKind::regression: example.value = static_cast<double>(i); break;
        case TaskKind::tokens:
          for (std::size_t at = 0; at < example.text.size();
               at = example.text.find(' ', at) == std::string::npos
                        ? example.text.size()
                        : example.text.find(' ', at) + 1) {
            example.words.push_back(example.text.substr(at, example.text.find(' ', at) - at));
            example.labels.push_back(GetParam().labels[example.words.size() % 3]);
          }
          break;
        case TaskKind::questions:
          example.text = "the sea";
          example.pair = lines[i] + " " + lines[i + 1] + " " + lines[i + 2];
          example.answers = {{lines[i + 1], static_cast<std::int64_t>(lines[i].size() + 1)}};
          break;
        case TaskKind::choice:
          example.choices = {lines[i + 1], lines[i + 2], lines[i + 3]};
          example.choice = static_cast<std::int64_t>(i / 4 % 3);
          break;
        case TaskKind::features:
        case TaskKind::embeddings: break;
      }
      result.push_back(std::move(example));
    }
    return result;
  }

  /// Returns the losses, and all parameters after three steps with dropout.
  std::vector<double> trained(std::int64_t micro_batch_size) const {
    const auto model = make_model(config_, DType::f64);
    Optimizer optimizer(model->parameters(), {});
    TaskLoaderOptions options;
    options.batch_size = 6;
    options.micro_batch_size = micro_batch_size;
    options.seed = 3;
    TaskLoader loader(data_, options);
    std::vector<double> result;
    for (std::uint64_t step = 1; step <= 3; ++step) {
      const std::vector<Batch> batches = loader.next();
      const auto targets = static_cast<double>(loader.step_targets());
      StepOptions step_options;
      step_options.learning_rate = 1e-3;
      step_options.step = step;
      const auto loss = [&](std::size_t part, const RunContext& run) {
        return task_loss(config_, data_->target(), task_output(*model, batches[part], run),
                         batches[part], targets);
      };
      result.push_back(optimizer_step(optimizer, batches, loss, step_options).loss);
    }
    const std::vector<double> values = model->parameters().masters().to_doubles();
    result.insert(result.end(), values.begin(), values.end());
    return result;
  }

  static constexpr std::int64_t length = 24;
  TemporaryFolder folder_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  ModelConfig config_;
  std::unique_ptr<TaskReader> reader_;
  std::shared_ptr<const TaskDataset> data_;
};

TEST_P(TaskLoss, DependsOnNoMicroBatches) {
  const std::vector<double> full = trained(6), buckets = trained(2);
  ASSERT_EQ(full.size(), buckets.size());
  double largest = 0, worst = 0;
  for (std::size_t i = 0; i < full.size(); ++i) {
    largest = std::max(largest, std::abs(full[i]));
    worst = std::max(worst, std::abs(full[i] - buckets[i]));
  }
  EXPECT_LE(worst, 1e-10 * largest);
}

TEST_P(TaskLoss, EvaluationDependsOnNoBatches) {
  const auto model = make_model(config_, DType::f64);
  Communicator alone;
  const TaskEvaluation full = evaluate_task(*model, data_, 16, alone);
  const TaskEvaluation buckets = evaluate_task(*model, data_, 3, alone);
  EXPECT_NEAR(full.loss, buckets.loss, 1e-10 * std::abs(full.loss));
  EXPECT_EQ(full.scores.metric, buckets.scores.metric);
  EXPECT_NEAR(full.scores.decisive, buckets.scores.decisive, 1e-10);
}

TEST(MultiLabelLoss, IsTheMeanBinaryCrossEntropyOfEachRow) {
  const std::vector<double> x{2, -1, 0, 40, -30, 1.5};
  const std::vector<std::int64_t> y{1, 0, 1, 1, 0, 0};
  double expected = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    expected += std::max(x[i], 0.0) - x[i] * static_cast<double>(y[i]) +
                std::log1p(std::exp(-std::abs(x[i])));
  const Var logits(Tensor::from(x, {2, 3}));
  const Tensor labels = Tensor::from(y, {2, 3});
  EXPECT_NEAR(multi_label_loss(logits, labels).value().item(), expected / 6, 1e-14);
  EXPECT_NEAR(multi_label_loss(logits, labels, 8).value().item(), expected / 24, 1e-14);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, TaskLoss,
    ::testing::Values(
        Kind{TaskKind::classification, {"a", "b", "c"}}, Kind{TaskKind::regression, {}},
        Kind{TaskKind::tokens, {"B-X", "I-X", "O"}}, Kind{TaskKind::questions, {}},
        Kind{TaskKind::choice, {}}, Kind{TaskKind::classification, {"a", "b", "c"}, Pooling::mean},
        Kind{TaskKind::classification, {"a", "b", "c"}, Pooling::first, Pairs::joined, true},
        Kind{TaskKind::classification, {"a", "b", "c"}, Pooling::mean, Pairs::towers},
        Kind{TaskKind::regression, {}, Pooling::first, Pairs::towers},
        Kind{.kind = TaskKind::questions, .semantics = Semantics::transformers},
        Kind{.kind = TaskKind::tokens,
             .labels = {"B-X", "I-X", "O"},
             .semantics = Semantics::transformers}),
    [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace nystrom::testing
