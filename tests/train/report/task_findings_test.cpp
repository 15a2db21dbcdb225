// The predictions of a task in its report: confusions, calibration, the most wrong examples.
#include "train/report/task_findings.h"
#include "tests/support/finetune_fixture.h"
#include "tests/train/report/run_folder.h"
#include "train/report/report_html.h"

namespace nystrom::testing {
namespace {

JudgedExample example(const std::string& truth, const std::string& predicted, double confidence) {
  return {"text of " + truth, truth, predicted, truth == predicted, confidence};
}

TEST(TaskFindings, CountConfusionsByTruthAndPrediction) {
  const TaskFindings findings = judge_labels(
      {example("a", "a", 0.9), example("a", "b", 0.6), example("b", "b", 0.8)}, {"a", "b", "c"});
  EXPECT_EQ(findings.judged, 3);
  EXPECT_EQ(findings.confusions,
            (std::vector<std::vector<std::int64_t>>{{1, 1, 0}, {0, 1, 0}, {0, 0, 0}}));
}

/// Two bins: 0.9 on average and half right; 0.55 and all right. The error is
/// (2 · |0.5 − 0.9| + 2 · |1 − 0.55|) / 4.
TEST(TaskFindings, CalibrationErrorIsThatOfTenBins) {
  const TaskFindings findings =
      judge_labels({example("a", "a", 0.92), example("a", "b", 0.92 - 0.01),
                    example("b", "b", 0.55), example("a", "a", 0.55)},
                   {"a", "b"});
  ASSERT_EQ(findings.bins.size(), 10U);
  EXPECT_EQ(findings.bins[9].count, 2);
  EXPECT_NEAR(findings.bins[9].confidence, 0.915, 1e-12);
  EXPECT_NEAR(findings.bins[9].accuracy, 0.5, 1e-12);
  EXPECT_NEAR(findings.calibration_error, (2 * 0.415 + 2 * 0.45) / 4, 1e-12);
  const TaskFindings perfect = judge_labels({example("a", "a", 1)}, {"a", "b"});
  EXPECT_EQ(perfect.bins[9].count, 1) << "a confidence of 1 belongs to the last bin";
  EXPECT_EQ(perfect.calibration_error, 0);
}

TEST(TaskFindings, ListsTheMostConfidentErrors) {
  std::vector<JudgedExample> examples = {example("a", "a", 1)};
  for (int i = 0; i < 30; ++i) examples.push_back(example("a", "b", 0.5 + i / 100.0));
  examples.push_back(example("a", "b", std::nan("")));
  const TaskFindings findings = judge_labels(examples, {"a", "b"});
  ASSERT_EQ(findings.wrong.size(), 20U);
  EXPECT_EQ(findings.wrong[0].confidence, 0.79);
  EXPECT_EQ(findings.wrong[19].confidence, 0.6);
}

TEST(TaskFindings, OfValuesListTheLargestErrors) {
  std::vector<JudgedExample> examples(3);
  for (int i = 0; i < 3; ++i) {
    examples[i].value = i;
    examples[i].predicted_value = i == 1 ? 5 : i + 0.5;
  }
  const TaskFindings findings = judge_values(examples);
  EXPECT_TRUE(findings.bins.empty());
  EXPECT_EQ(findings.wrong[0].predicted_value, 5);
  const std::string html = html_findings(findings);
  expect_says(html, ">predicted value</text>");
  expect_says(html, "the 3 largest errors");
}

TEST(TaskFindings, ShowAMatrixOrTheMostFrequentConfusions) {
  const std::string few = html_findings(judge_labels({example("a", "b", 0.9)}, {"a", "b"}));
  expect_says(few, "<table class=\"matrix\">");
  expect_says(few, "rgba(217,95,2,0.50)\">1<small>100 %</small>");
  expect_says(few, "expected calibration error 0.900, over 10 bins");
  std::vector<std::string> labels;
  for (int i = 0; i < 40; ++i) labels.push_back("label " + std::to_string(i));
  const std::string many =
      html_findings(judge_labels({example("label 3", "label 7", 0.9)}, labels));
  expect_hides(many, "<table class=\"matrix\">");
  expect_says(many, "The most frequent confusions of 40 labels.");
  EXPECT_EQ(html_findings({}), "");
}

using TaskStatistics = FinetuneTest;

TEST_F(TaskStatistics, PredictsTheValidationFilesWithTheBestCheckpoint) {
  configure_classification("epochs: 2");
  train();
  run("report run --quiet --threads 1");
  const std::string page = read_bytes(folder_ / "run" / "report.html");
  expect_says(page, "48 examples of the validation data.");
  expect_says(page, "<th>people</th><th>water</th>");
  expect_says(page, ">Calibration</text>");
  run("report run --quiet --threads 1 --examples 5");
  expect_says(read_bytes(folder_ / "run" / "report.html"),
              "Only the first 5 validation examples are judged.");
  write_bytes(folder_ / "dev.tsv", read_bytes(folder_ / "dev.tsv") + "water\tthe sea\n");
  run("report run --quiet --threads 1");
  expect_says(read_bytes(folder_ / "run" / "report.html"),
              "The validation data are not judged: they have changed since the training");
  EXPECT_EQ(refusal("export run exported --verify --quiet"),
            "nystrom: --verify: the validation data have changed since the training; name others "
            "by --text\n");
  EXPECT_FALSE(fs::exists(folder_ / "exported"));
  fs::remove(folder_ / "dev.tsv");
  run("report run --quiet --threads 1");
  expect_says(read_bytes(folder_ / "run" / "report.html"),
              "The validation data are not judged: &#39;dev.tsv&#39; matches no file");
}

TEST_F(TaskStatistics, JudgesTheAnswersThatEvaluateMeasures) {
  Words words(3, {"the", "sea", "was", "calm"});
  std::string text;
  for (int i = 0; i < 60; ++i) {
    const std::string context = words.text(10, 20) + " sea";
    const json answers = {{"text", json::array({"sea"})},
                          {"answer_start", json::array({context.find("sea")})}};
    text += json{{"question", "the old"}, {"context", context}, {"answers", answers}}.dump() + "\n";
  }
  const std::string file = (folder_ / "dev.jsonl").string();
  write_bytes(file, text);
  write_task_run("epochs: 1", "kind: questions, train: [" + file + "], validation: [" + file + "]");
  train();
  Log log(/*quiet=*/true);
  const TaskFindings findings =
      find_task_errors(read_run_history(folder_ / "run"), 100, cpu_device, log);
  ASSERT_EQ(findings.judged, 60);
  double right = 0;
  for (const CalibrationBin& bin : findings.bins)
    right += bin.accuracy * static_cast<double>(bin.count) / 60;
  EXPECT_NEAR(right, measured("exact_match", file), 1e-9);
}

TEST_F(TaskStatistics, JudgesTheWordsOfSentences) {
  std::string text;
  for (int i = 0; i < 12; ++i) text += "the O\nsea B-PLACE\nwas O\ncalm O\n\n";
  write_bytes(folder_ / "train.conll", text);
  write_task_run("epochs: 1", "kind: tokens, train: [train.conll], validation: [train.conll]");
  train();
  run("report run --quiet --threads 1");
  const std::string page = read_bytes(folder_ / "run" / "report.html");
  expect_says(page, "48 words of the validation data.");
  expect_says(page, "<th>B-PLACE</th>");
}

}  // namespace
}  // namespace nystrom::testing
