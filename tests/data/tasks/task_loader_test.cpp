// Batches of tasks. The samples of a step depend only on the seed and the step, and not on lengths,
// micro-batches or ranks.
#include "data/tasks/task_loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/check.h"
#include "tests/data/tasks/letter_tokenizer.h"
#include "tests/support/errors.h"

namespace nystrom {
namespace {

using testing::message_of;
using Numbers = std::vector<std::int64_t>;

template <class T>
std::vector<T> values_of(const Tensor& tensor) {
  return {tensor.data<T>(), tensor.data<T>() + tensor.numel()};
}

const LetterTokenizer tokenizer;

std::shared_ptr<const TaskDataset> dataset_of(TaskKind kind, const std::vector<Example>& examples,
                                              std::int64_t length = 32) {
  TaskConfig task{.kind = kind, .stride = 2};
  const TaskEncoder encoder(resolve_task(task),
                            has_labels(kind) ? LabelSet({"O", "B-X"}) : LabelSet(), tokenizer,
                            length);
  return std::make_shared<TaskDataset>(TaskDataset::from(encoder, examples, false));
}

/// Texts of 1 to 20 letters with different first letters.
std::shared_ptr<const TaskDataset> texts(int count) {
  std::vector<Example> examples;
  for (int i = 0; i < count; ++i) {
    examples.push_back({.text = static_cast<char>('A' + i) +
                                std::string(static_cast<std::size_t>(i * 7 % 20), 'x'),
                        .label = i % 2 == 0 ? "O" : "B-X",
                        .labelled = true});
  }
  return dataset_of(TaskKind::classification, examples);
}

TaskLoaderOptions options_of(std::int64_t batch, std::int64_t micro_batch) {
  return {.batch_size = batch, .micro_batch_size = micro_batch, .seed = 5};
}

/// Maps sample ids to the first letter of each sequence, which identifies the sample.
std::map<std::int64_t, std::int64_t> uses(const std::vector<Batch>& batches) {
  std::map<std::int64_t, std::int64_t> result;
  for (const Batch& batch : batches)
    for (std::int64_t i = 0; i < batch.input.sequences(); ++i)
      result[batch.sample_ids.data<std::int64_t>()[i]] =
          batch.input.input_ids
              .data<std::int64_t>()[batch.input.offsets[static_cast<std::size_t>(i)] + 1];
  return result;
}

TEST(TaskLoader, AStepHoldsTheSameSamplesInAnyMicroBatches) {
  const auto data = texts(23);
  TaskLoader whole(data, options_of(8, 8)), small(data, options_of(8, 3));
  const SampleOrder order(23, 5);
  for (std::int64_t step = 0; step < 9; ++step) {
    const auto expected = uses(whole.next());
    EXPECT_EQ(uses(small.next()), expected);
    for (const auto& [place, letter] : expected) EXPECT_EQ(letter, 'A' + order(place));
    EXPECT_EQ(expected.begin()->first, step * 8);
    EXPECT_EQ(expected.rbegin()->first, step * 8 + 7);
  }
}

TEST(TaskLoader, ShortSamplesMeetShortOnes) {
  TaskLoader loader(texts(23), options_of(16, 4));
  const auto batches = loader.next();
  ASSERT_EQ(batches.size(), 4);
  std::int64_t before = 0;
  for (const Batch& batch : batches) {
    const Numbers& offsets = batch.input.offsets;
    for (std::size_t i = 1; i < offsets.size(); ++i) {
      EXPECT_GE(offsets[i] - offsets[i - 1], before);
      before = offsets[i] - offsets[i - 1];
    }
  }
  EXPECT_GT(batches[3].tokens, batches[0].tokens);
}

TEST(TaskLoader, RanksShareAStep) {
  const auto data = texts(23);
  TaskLoader alone(data, options_of(8, 2));
  const auto expected = uses(alone.next());
  std::map<std::int64_t, std::int64_t> both;
  for (int rank = 0; rank < 3; ++rank) {
    TaskLoader loader(
        data, {.batch_size = 8, .micro_batch_size = 2, .seed = 5, .rank = rank, .world_size = 3});
    both.merge(uses(loader.next()));
    EXPECT_EQ(loader.step_targets(), 8);
  }
  EXPECT_EQ(both, expected);
}

TEST(TaskLoader, StartsAtAnyStep) {
  const auto data = texts(23);
  TaskLoader from_start(data, options_of(8, 3)), later(data, options_of(8, 3), 4);
  for (int i = 0; i < 4; ++i) from_start.next();
  EXPECT_EQ(from_start.step(), 4);
  EXPECT_EQ(uses(from_start.next()), uses(later.next()));
}

TEST(TaskLoader, RefusesDataWithoutLabels) {
  Example example{.text = "a"};
  const auto data = dataset_of(TaskKind::classification, {example});
  EXPECT_EQ(message_of([&] { TaskLoader(data, options_of(8, 8)); }),
            "task loader: example 0 (counted from 0) has no label");
  EXPECT_EQ(
      message_of([&] { TaskLoader(dataset_of(TaskKind::classification, {}), options_of(8, 8)); }),
      "task loader: the data set has no samples");
}

TEST(TaskBatches, AreRowsOneBehindAnotherWithTypes) {
  const Example first{.text = "abcde", .label = "B-X", .labelled = true},
      second{.text = "a", .pair = "b", .label = "B-X", .labelled = true};
  const auto data = dataset_of(TaskKind::classification, {first, second});
  const Batch batch = make_task_batch(*data, Numbers{0, 1}, Numbers{7, 9});
  EXPECT_EQ(batch.input.offsets, (Numbers{0, 7, 12}));
  EXPECT_EQ(batch.input.input_ids.shape(), Shape{12});
  EXPECT_EQ(values_of<std::int64_t>(batch.input.token_type_ids),
            (Numbers{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(values_of<std::int64_t>(batch.labels), (Numbers{1, 1}));
  EXPECT_EQ(values_of<std::int64_t>(batch.sample_ids), (Numbers{7, 9}));
  EXPECT_EQ(batch.tokens, 12);
  EXPECT_EQ(batch.targets, 2);
  EXPECT_FALSE(make_task_batch(*data, Numbers{0}, Numbers{0}).input.token_type_ids.defined());
}

TEST(TaskBatches, LabelFirstTokensOfWords) {
  Example example{.words = {"ab", "c"}, .labels = {"B-X", "O"}, .labelled = true};
  const Batch batch =
      make_task_batch(*dataset_of(TaskKind::tokens, {example}), Numbers{0}, Numbers{0});
  EXPECT_EQ(values_of<std::int64_t>(batch.labels), (Numbers{-100, 1, -100, 0, -100}));
  EXPECT_EQ(batch.targets, 2);
}

TEST(TaskBatches, HaveARowForEachChoice) {
  const std::vector<Example> examples(
      2, Example{.text = "a", .choices = {"b", "cd", "e"}, .choice = 2, .labelled = true});
  const Batch batch =
      make_task_batch(*dataset_of(TaskKind::choice, examples), Numbers{1, 0}, Numbers{4, 5});
  EXPECT_EQ(batch.input.sequences(), 6);
  EXPECT_EQ(batch.choices, 3);
  EXPECT_EQ(values_of<std::int64_t>(batch.sample_ids), (Numbers{12, 13, 14, 15, 16, 17}));
  EXPECT_EQ(values_of<std::int64_t>(batch.labels), (Numbers{2, 2}));
}

TEST(TaskBatches, HoldPositionsOfAnswersAndNumbers) {
  Example question{.text = "q", .pair = "abc", .answers = {{"bc", 1}}, .labelled = true};
  const Batch spans =
      make_task_batch(*dataset_of(TaskKind::questions, {question}), Numbers{0}, Numbers{0});
  EXPECT_EQ(values_of<std::int64_t>(spans.start_positions), Numbers{4});
  EXPECT_EQ(values_of<std::int64_t>(spans.end_positions), Numbers{5});
  EXPECT_FALSE(spans.labels.defined());
  Example number{.text = "a", .value = 2.5, .labelled = true};
  const Batch values =
      make_task_batch(*dataset_of(TaskKind::regression, {number}), Numbers{0}, Numbers{0});
  EXPECT_EQ(values_of<float>(values.labels), std::vector<float>{2.5F});
  number.labelled = false;
  EXPECT_FALSE(make_task_batch(*dataset_of(TaskKind::regression, {number}), Numbers{0}, Numbers{0})
                   .labels.defined());
}

TEST(TaskEvaluationLoader, GivesEverySampleOnce) {
  const auto data = texts(23);
  std::multiset<std::int64_t> seen;
  for (int rank = 0; rank < 2; ++rank) {
    TaskEvaluationLoader loader(data, {.micro_batch_size = 4, .rank = rank, .world_size = 2});
    while (const auto batch = loader.next())
      seen.insert(batch->samples.begin(), batch->samples.end());
  }
  EXPECT_EQ(seen.size(), 23);
  EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 23);
}

}  // namespace
}  // namespace nystrom
