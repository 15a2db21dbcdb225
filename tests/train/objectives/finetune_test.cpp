// Every kind of task learns a toy with the program, is evaluated, and predicts correctly.
#include "tests/support/finetune_fixture.h"
#include "tests/train/objectives/feature_task.h"

namespace nystrom::testing {
namespace {

TEST_F(FinetuneTest, LearnsToClassify) {
  configure_classification();
  train();
  expect_says(last_.err, "  labels: people 104, water 88\n");
  EXPECT_GE(measured("accuracy", "dev.tsv"), 0.95);
  const json guesses = predicted("'the old sea was calm' 'men sang'");
  EXPECT_EQ(guesses[0][0].at("label"), "water");
  EXPECT_EQ(guesses[1][0].at("label"), "people");
  EXPECT_NEAR(guesses[0][0].at("score").get<double>() + guesses[0][1].at("score").get<double>(), 1,
              1e-9);
}

/// The run has 72 steps. A constant decay would leave a share of 0.93 of the initial weights in the
/// average, and an accuracy of about one half.
TEST_F(FinetuneTest, AnAverageOfAShortRunClassifiesToo) {
  configure_classification("epochs: 6, ema: 0.999");
  train();
  EXPECT_GE(measured("accuracy", "dev.tsv"), 0.95);
}

TEST_F(FinetuneTest, LearnsANumberOfAPair) {
  Words words(3);
  for (const auto& [name, count] : {std::pair("train.csv", 192), std::pair("dev.csv", 48)}) {
    std::string text = "a,b,score\n";
    for (int i = 0; i < count; ++i) {
      const bool sea = words.below(2) == 0;
      text += words.text(1, 5) + "," + (sea ? "sea " : "men ") + words.text(1, 4) + "," +
              (sea ? "1.5" : "-0.5") + "\n";
    }
    write_bytes(folder_ / name, text);
  }
  write_task_run("epochs: 6",
                 "kind: regression, train: [train.csv], validation: [dev.csv], columns: {text: a, "
                 "pair: b, label: score}");
  train();
  EXPECT_GE(measured("pearson", "dev.csv"), 0.95);
  EXPECT_NEAR(predicted("'the old' --pair 'sea was calm'")[0].at("value").get<double>(), 1.5, 0.5);
}

TEST_F(FinetuneTest, LearnsToTagWords) {
  Words words(4);
  for (const auto& [name, count] : {std::pair("train.conll", 128), std::pair("dev.conll", 32)}) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      for (const std::string& word : words.words(1, 6)) text += word + " O\n";
      text += words.below(2) == 0 ? "old B-PLACE\nsea I-PLACE\n\n" : "men B-WHO\nsang O\n\n";
    }
    write_bytes(folder_ / name, text);
  }
  write_task_run("epochs: 12", "kind: tokens, train: [train.conll], validation: [dev.conll]");
  train();
  EXPECT_GE(measured("f1", "dev.conll"), 0.9);
  const json found = predicted("'the men sang'")[0];
  ASSERT_EQ(found.size(), 1u) << found;
  EXPECT_EQ(found[0].at("entity_group"), "WHO");
  EXPECT_EQ(found[0].at("word"), "men");
  EXPECT_EQ(found[0].at("start"), 4);
  EXPECT_EQ(found[0].at("end"), 7);
}

TEST_F(FinetuneTest, LearnsToAnswer) {
  Words words(5);
  for (const auto& [name, count] : {std::pair("train.json", 160), std::pair("dev.json", 40)}) {
    json paragraphs = json::array();
    for (int i = 0; i < count; ++i) {
      const std::string before = words.text(1, 40), answer = words.below(2) == 0 ? "sea" : "men";
      const json question = {
          {"id", std::to_string(i)},
          {"question", "the old"},
          {"answers", {{{"text", answer}, {"answer_start", before.size() + 1}}}}};
      paragraphs.push_back(
          {{"context", before + " " + answer + " " + words.text(1, 5)}, {"qas", {question}}});
    }
    write_bytes(folder_ / name,
                json{{"data", {{{"title", "t"}, {"paragraphs", paragraphs}}}}}.dump());
  }
  write_task_run("epochs: 8",
                 "kind: questions, train: [train.json], validation: [dev.json], stride: 4");
  train();
  expect_says(last_.err, " windows, ", "long contexts are cut");
  EXPECT_GE(measured("f1", "dev.json"), 0.8);
  const json answers = predicted("'the old' --pair 'the pale sea was calm'")[0];
  EXPECT_EQ(answers[0].at("answer"), "sea");
  EXPECT_EQ(answers[0].at("start"), 9);
  EXPECT_EQ(answers[0].at("end"), 12);
}

TEST_F(FinetuneTest, LearnsToChoose) {
  Words words(6);
  for (const auto& [name, count] : {std::pair("train.jsonl", 192), std::pair("dev.jsonl", 48)}) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      const auto right = words.below(3);
      json choices = json::array();
      for (std::size_t c = 0; c < 3; ++c)
        choices.push_back(words.text(1, 3) + (c == right ? " sea" : " men"));
      text +=
          json{{"before", words.text(1, 4)}, {"endings", choices}, {"right", right}}.dump() + "\n";
    }
    write_bytes(folder_ / name, text);
  }
  write_task_run("epochs: 6",
                 "kind: choice, train: [train.jsonl], validation: [dev.jsonl], columns: {text: "
                 "before, choices: [endings], label: right}");
  train();
  EXPECT_GE(measured("accuracy", "dev.jsonl"), 0.9);
  EXPECT_EQ(predicted("'the old' --choice 'calm men' --choice 'calm sea'")[0][0].at("choice"),
            "calm sea");
}

TEST_F(FinetuneTest, LearnsClassesOfFeatures) {
  write_features(folder_ / "train.h5", true, 256, 7);
  write_features(folder_ / "dev.h5", true, 64, 8);
  write_bytes(folder_ / "run.yaml", features_model);
  train();
  EXPECT_GE(measured("accuracy", "dev.h5"), 0.85);
  const json guesses = predicted("dev.h5");
  ASSERT_EQ(guesses.size(), 64u);
  EXPECT_TRUE(guesses[0][0].at("label") == "0" || guesses[0][0].at("label") == "1") << guesses[0];
  run("report run --quiet --threads 1");
  const std::string page = read_bytes(folder_ / "run" / "report.html");
  expect_says(page, "64 examples of the validation data.");
  expect_hides(page, "the 20 wrong predictions");
}

TEST_F(FinetuneTest, LearnsNumbersOfFeatures) {
  write_features(folder_ / "train.h5", false, 256, 7);
  write_features(folder_ / "dev.h5", false, 64, 8);
  write_bytes(folder_ / "run.yaml", features_model);
  train();
  EXPECT_GE(measured("pearson", "dev.h5"), 0.85);
  EXPECT_EQ(predicted("dev.h5").size(), 64u);
}

}  // namespace
}  // namespace nystrom::testing
