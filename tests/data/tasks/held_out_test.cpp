// The share of the training examples that validates.
#include "data/tasks/examples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/check.h"
#include "data/tasks/task_dataset.h"
#include "tests/data/tasks/letter_tokenizer.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

using Texts = std::vector<std::string>;

class HeldOut : public FolderTest {
 protected:
  HeldOut() { task_.kind = TaskKind::classification; }

  void write(const std::string& text, const std::string& name = "train.jsonl") {
    write_bytes(folder_ / name, text);
    task_.train = {(folder_ / name).string()};
  }
  /// The texts of both parts.
  std::pair<Texts, Texts> parts(double fraction, std::int64_t seed = 42) {
    task_.validation_fraction = fraction;
    const TaskConfig task = resolve_task(task_);
    const TaskSources sources = task_sources(task, seed);
    const auto texts = [&](const ExampleSource& source) {
      Texts found;
      SkippedRows skipped;
      for_each_example(task, source, Labelled::required, skipped, [&](const Example& example) {
        found.push_back(example.text);
        for (const std::string& label : example.labels) ++labels_[label];
        if (example.label) ++labels_[*example.label];
      });
      return found;
    };
    Texts train = texts(sources.train);
    train_labels_ = std::exchange(labels_, {});
    return {std::move(train), texts(sources.validation)};
  }

  TaskConfig task_;
  std::map<std::string, int> labels_, train_labels_;  // of the validation examples; of the others
};

std::string rows(int count, const std::function<std::string(int)>& label) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += fmt::format("{{\"text\": \"text {}\", \"label\": {}}}\n", i, label(i));
  return text;
}

TEST_F(HeldOut, IsTheShareOfEachLabel) {
  write(rows(200, [](int i) { return i % 10 == 0 ? "\"rare\"" : "\"often\""; }));
  const auto [train, held] = parts(0.2);
  EXPECT_EQ(train.size(), 160);
  EXPECT_EQ(held.size(), 40);
  EXPECT_EQ(labels_, (std::map<std::string, int>{{"rare", 4}, {"often", 36}}));
  std::set<std::string> all(train.begin(), train.end());
  all.insert(held.begin(), held.end());
  EXPECT_EQ(all.size(), 200u) << "no example is lost";
}

TEST_F(HeldOut, LeavesAnExampleOfEachLabelToTrainOn) {
  write(rows(60, [](int i) { return i < 5 ? fmt::format("\"class {}\"", i) : "\"often\""; }));
  parts(0.4);
  EXPECT_EQ(train_labels_.size(), 6u);
}

TEST_F(HeldOut, IsDrawnBySeedAndInputsAlone) {
  const std::string first = rows(40, [](int i) { return i % 2 ? "\"a\"" : "\"b\""; });
  std::string last;
  for (std::size_t end = first.size(); end > 0;) {
    const std::size_t begin = end < 2 ? 0 : first.rfind('\n', end - 2) + 1;
    last += first.substr(begin, end - begin);
    end = begin;
  }
  write(first);
  auto held = parts(0.25).second;
  EXPECT_EQ(parts(0.25).second, held);
  EXPECT_NE(parts(0.25, 43).second, held);
  write(last);
  auto reversed = parts(0.25).second;
  std::ranges::reverse(reversed);
  EXPECT_EQ(reversed, held);
}

TEST_F(HeldOut, EqualInputsStayOnOneSide) {
  std::string text;
  for (int i = 0; i < 300; ++i)
    text += fmt::format("{{\"text\": \"text {}\", \"label\": \"{}\"}}\n", i % 60, i % 3);
  write(text);
  const auto [train, held] = parts(0.2);
  const std::set<std::string> known(train.begin(), train.end());
  for (const std::string& each : held) EXPECT_FALSE(known.contains(each)) << each;
  EXPECT_NEAR(static_cast<double>(held.size()), 60, 15);
}

TEST_F(HeldOut, ATextThatRepeatsOftenIsNotTheWholeShare) {
  write(rows(20, [](int) { return "\"a\""; }) + std::string([] {
          std::string same;
          for (int i = 0; i < 80; ++i) same += "{\"text\": \"ok\", \"label\": \"b\"}\n";
          return same;
        }()));
  const auto [train, held] = parts(0.1);
  EXPECT_EQ(std::ranges::count(train, "ok"), 80);
  EXPECT_EQ(held.size(), 2u);
}

TEST_F(HeldOut, SetsOfLabelsCountByTheirRarest) {
  task_.multi_label = true;
  write(rows(100, [](int i) {
    return i % 10 == 0 ? "[\"rare\", \"often\"]" : i % 4 == 1 ? "[]" : "[\"often\"]";
  }));
  const auto [train, held] = parts(0.2);
  EXPECT_EQ(held.size(), 20u);
  EXPECT_EQ(labels_["rare"], 2);
}

TEST_F(HeldOut, EachOfSeveralLabelsKeepsAnExampleToTrainOn) {
  task_.multi_label = true;
  const char* labels[] = {R"(["B", "Z"])", R"(["C", "Z"])", R"(["B"])", R"(["C"])"};
  write(rows(4, [&](int i) { return labels[i]; }));
  for (std::int64_t seed = 0; seed < 10; ++seed) {
    parts(0.5, seed);
    EXPECT_EQ(train_labels_.size(), 3u) << seed;
  }
}

TEST_F(HeldOut, QuestionsOnOneContextStayTogether) {
  task_.kind = TaskKind::questions;
  std::string paragraphs;
  for (int i = 0; i < 20; ++i) {
    std::string questions;
    for (int j = 0; j < 3; ++j)
      questions += fmt::format(
          R"({}{{"id": "{}-{}", "question": "q {}", "answers": [{{"text": "sea", "answer_start": 4}}]}})",
          j > 0 ? ", " : "", i, j, i);
    paragraphs += fmt::format(R"({}{{"context": "the sea {}", "qas": [{}]}})", i > 0 ? ", " : "", i,
                              questions);
  }
  write("{\"data\": [{\"paragraphs\": [" + paragraphs + "]}]}", "train.json");
  const auto [train, held] = parts(0.25);
  EXPECT_EQ(held.size(), 15u);
  const std::set<std::string> known(train.begin(), train.end());
  for (const std::string& question : held) EXPECT_FALSE(known.contains(question));
}

TEST_F(HeldOut, NumbersAndWordsHaveNoClasses) {
  task_.kind = TaskKind::regression;
  write(rows(50, [](int i) { return std::to_string(i); }));
  EXPECT_EQ(parts(0.1).second.size(), 5u);
}

TEST_F(HeldOut, UnreadableRowsShiftNothing) {
  task_.bad_rows = BadRows::skip;
  const std::string good = rows(30, [](int i) { return i % 2 ? "\"a\"" : "\"b\""; });
  write(good);
  const auto held = parts(0.2).second;
  write("{\"text\": 1\n" + good + "no row\n");
  EXPECT_EQ(parts(0.2).second, held);
}

TEST_F(HeldOut, FewExamplesAreRefused) {
  write(rows(3, [](int) { return "\"a\""; }));
  EXPECT_EQ(input_error([&] { parts(0.1); }),
            "task.validation_fraction 0.1: of 3 examples, 3 of them different, it holds none out: "
            "each label keeps one to train on; give more examples or a larger fraction");
}

TEST_F(HeldOut, WithoutAFractionTheFilesDecide) {
  task_.train = {"a.tsv"};
  task_.validation = {"b.tsv"};
  const TaskSources sources = task_sources(resolve_task(task_), 1);
  EXPECT_EQ(sources.train.patterns, task_.train);
  EXPECT_EQ(sources.validation.patterns, task_.validation);
  EXPECT_TRUE(sources.train.takes(0) && sources.validation.takes(7));
}

}  // namespace
}  // namespace nystrom
