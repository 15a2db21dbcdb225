// Logistic regression of vectors, and the evaluation of labelled texts.
#include "train/objectives/vector_evaluation.h"

#include <gtest/gtest.h>

#include "core/base/stop_signals.h"
#include "tests/support/errors.h"
#include "tests/support/tiny_checkpoint.h"

namespace nystrom::testing {
namespace {

/// 60 vectors of 4 pseudo-random numbers from −1 to 1.
std::vector<double> random_vectors() {
  std::vector<double> values;
  std::uint32_t seed = 3;
  for (int i = 0; i < 60 * 4; ++i) {
    seed = seed * 1664525U + 1013904223U;
    values.push_back(static_cast<double>(seed >> 8) / (1 << 23) - 1);
  }
  return values;
}

void expect_near(const Tensor& found, const std::vector<double>& expected) {
  const std::vector<double> values = found.to_doubles();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-4) << i;
}

// The expected values are those of scikit-learn 1.9.1: LogisticRegression(C=1, tol=1e-12).
TEST(LogisticRegression, EqualsScikitLearn) {
  const std::vector<double> values = random_vectors();
  std::vector<std::int64_t> labels;
  for (std::size_t row = 0; row < values.size(); row += 4)
    labels.push_back(values[row] > 0.3 ? 0 : values[row + 1] + values[row + 2] > 0 ? 1 : 2);
  const Tensor vectors = Tensor::from(values, {60, 4});
  const LogisticRegression regression(vectors, labels, 3);
  expect_near(regression.weight(), {2.569204003, 0.5032024201, 0.1170448085, -0.5541219775,
                                    -1.5611333318, 0.9732095625, 1.1599797986, 0.2910297559,
                                    -1.0080706713, -1.4764119825, -1.2770246071, 0.2630922215});
  expect_near(regression.bias(), {-0.3675535149, 0.1571025662, 0.2104509487});
  const std::vector<std::int64_t> said = regression.predict(vectors);
  int wrong = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) wrong += said[i] != labels[i];
  EXPECT_EQ(wrong, 5);
}

TEST(LogisticRegression, OfTwoClassesHasThePenaltyOfOneVector) {
  const std::vector<double> values = random_vectors();
  std::vector<std::int64_t> labels;
  for (std::size_t row = 0; row < values.size(); row += 4) labels.push_back(values[row] > 0.3);
  const LogisticRegression regression(Tensor::from(values, {60, 4}), labels, 2);
  // scikit-learn's vector is the difference of the two rows, which are opposite.
  const double w[] = {3.1989047686, 0.6156611428, -0.0090069982, -0.6327996236}, b = -1.3676035889;
  expect_near(regression.weight(),
              {-w[0] / 2, -w[1] / 2, -w[2] / 2, -w[3] / 2, w[0] / 2, w[1] / 2, w[2] / 2, w[3] / 2});
  const std::vector<double> bias = regression.bias().to_doubles();
  EXPECT_NEAR(bias[1] - bias[0], b, 1e-4);
}

TEST(LogisticRegression, EndsAtASignal) {
  const Tensor vectors = Tensor::from(random_vectors(), {60, 4});
  const EndAtSignals stop("stopped");
  std::raise(SIGTERM);
  EXPECT_THROW(LogisticRegression(vectors, std::vector<std::int64_t>(60), 2), Interrupted);
}

class TextClassesTest : public ::testing::Test {
 protected:
  TextClassesTest() {
    std::string rows = "text\tlabel\n";
    for (int i = 0; i < 100; ++i) rows += "the sea was calm\tsea\nmen sang\tmen\nold ships\tsea\n";
    write("train.tsv", rows);
    write("test.tsv", "text\tlabel\nthe sea was calm\tsea\nmen sang\tmen\n");
  }
  void write(const std::string& name, const std::string& text) {
    write_bytes(folder_ / name, text);
  }
  std::string place(const char* name) const { return (folder_ / name).string(); }
  VectorScores evaluate(TaskConfig task = {}) {
    task.kind = TaskKind::classification;
    task = resolve_task(task);
    task.train = {place("train.tsv")};
    task.validation = {place("test.tsv")};
    EmbeddingOptions options;
    options.sequence_length = 24;
    options.normalize = false;
    TextEmbedder embedder(*tiny_.model, tiny_.tokenizer, options);
    return evaluate_classes(embedder, task);
  }

  TemporaryFolder folder_;
  TinyCheckpoint tiny_{folder_ / "model"};
};

TEST_F(TextClassesTest, ScoresTextsOutsideTheTrainingFiles) {
  const VectorScores result = evaluate();
  EXPECT_EQ(result.counts[0].second, 300) << "to train on";
  EXPECT_EQ(result.counts[1].second, 2) << "to test";
  EXPECT_EQ(result.counts[2].second, 2) << "labels";
  EXPECT_EQ(result.scores[0].second, 1) << "accuracy";
  EXPECT_EQ(result.scores[1].second, 1) << "f1_macro";
}

TEST_F(TextClassesTest, RowsThatAreLeftOutAreTold) {
  write("test.tsv", "text\tlabel\nthe sea\tsea\n \tsea\n");
  TaskConfig task;
  task.bad_rows = BadRows::skip;
  EXPECT_EQ(evaluate(task).warnings,
            std::vector<std::string>{"1 rows left out; the first: " + place("test.tsv") +
                                     ":3: a text is blank"});
}

TEST_F(TextClassesTest, ATextHasOneLabel) {
  TaskConfig task;
  task.multi_label = true;
  EXPECT_EQ(message_of([&] { evaluate(task); }),
            "task.multi_label is true, and the vectors are sorted into one class each; leave it "
            "out, or give each text one label");
}

TEST_F(TextClassesTest, WrongFilesAreRefused) {
  const auto problem = [&] { return message_of([&] { evaluate(); }); };
  write("test.tsv", "text\tlabel\nthe sea\tship\n");
  EXPECT_EQ(problem(), place("test.tsv") +
                           ":2: the label 'ship' is not in the files to train on; their labels "
                           "are 'men' and 'sea'");
  write("train.tsv", "text\tlabel\nthe sea\tsea\n");
  EXPECT_EQ(problem(), place("train.tsv") +
                           ": all labels are 'sea'; there is nothing to learn: name the others in "
                           "task.labels");
}

}  // namespace
}  // namespace nystrom::testing
