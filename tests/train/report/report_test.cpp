// Pages about runs: their content, hostile names and values, thinned curves, damaged files.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/report/run_folder.h"
#include "train/report/report_html.h"

namespace nystrom::testing {
namespace {

TEST(RunHistory, HoldsCurvesEvaluationsAndTheBest) {
  const TemporaryFolder folder;
  const RunHistory run = read_run_history(write_run(folder, "run"));
  EXPECT_EQ(run.steps, 3);
  EXPECT_EQ(run.total_steps, 3);
  EXPECT_TRUE(run.notes.empty());
  EXPECT_EQ(run.curves.at("loss").x, (std::vector<double>{1, 2, 3}));
  EXPECT_TRUE(std::isnan(run.curves.at("loss").y[1]));
  ASSERT_EQ(run.evaluations.size(), 2U);
  EXPECT_EQ(run.metric_name(), "loss");
  EXPECT_EQ(run.best()->step, 2);
}

TEST(RunHistory, OfATaskIsJudgedByItsMetric) {
  const TemporaryFolder folder;
  const RunHistory run = read_run_history(
      write_run(folder, "run", records, "task: {kind: classification}\ntraining: {epochs: 1}\n"));
  EXPECT_EQ(run.metric_name(), "accuracy");
  EXPECT_EQ(run.best()->step, 3);
  EXPECT_EQ(run.total_steps, std::nullopt);
}

TEST(RunHistory, NotesWhatIsDamaged) {
  const TemporaryFolder folder;
  const std::string damaged =
      std::string(records) +
      "{\"step\":4,\"loss\"\n{\"step\":2,\"loss\":1.0}\n[]\n{\"step\":5,\"loss\":\"low\"}\n" +
      "{\"step\":6,\"loss\":3.0}\n{\"step\":7,\"lo";
  const RunHistory run = read_run_history(write_run(folder, "run", damaged));
  EXPECT_EQ(run.steps, 6);
  ASSERT_EQ(run.notes.size(), 1U);
  EXPECT_TRUE(
      run.notes[0].starts_with("4 of 11 lines of metrics.jsonl were left out; metrics.jsonl:6:"))
      << run.notes[0];
}

/// Each layer has four metrics. The names beyond the limit have no curve, and all lines are read.
TEST(RunHistory, ReadsTheRunOfADeepModel) {
  for (const int layers : {60, 300}) {
    const TemporaryFolder folder;
    std::string deep = records;
    for (int layer = 0; layer < 4 * layers; ++layer)
      deep += fmt::format("{{\"step\":4,\"layer_{}_error\":1.0}}\n", layer);
    const RunHistory run = read_run_history(
        write_run(folder, "run", deep + "{\"step\":5,\"loss\":3,\"validation_loss\":3.5}\n"));
    EXPECT_EQ(run.steps, 5);
    EXPECT_EQ(run.best()->step, 5);
    EXPECT_EQ(run.curves.at("loss").y.back(), 3);
    EXPECT_EQ(run.notes.size(), layers == 60 ? 0U : 1U);
  }
}

TEST(RunHistory, NotesAStepThatIsTooLarge) {
  const TemporaryFolder folder;
  const RunHistory run = read_run_history(
      write_run(folder, "run", std::string(records) + "{\"step\":18446744073709551615}\n"));
  EXPECT_EQ(run.notes, std::vector<std::string>{
                           "1 of 6 lines of metrics.jsonl were left out; metrics.jsonl:6: step is "
                           "18446744073709551615, expected a whole number from 0 to "
                           "9007199254740992"});
}

TEST(RunHistory, ReadsTheLog) {
  const TemporaryFolder folder;
  const fs::path path =
      write_run(folder, "run", records, "task: {kind: classification}\ntraining: {epochs: 1}\n");
  write_bytes(path / "log.txt",
              "2026-01-01T00:00:00Z training 1234 parameters on 2 threads in run, to step 9\n"
              "2026-01-01T00:00:01Z warning: step 2 skipped\n2026-01-01T00:00:02Z stopped early: 3 "
              "evaluations\n");
  const RunHistory run = read_run_history(path);
  EXPECT_EQ(run.parameters, 1234);
  EXPECT_EQ(run.total_steps, 9);
  EXPECT_TRUE(run.stopped_early);
  ASSERT_EQ(run.warnings.size(), 1U);
  EXPECT_EQ(run.warnings[0].text, "step 2 skipped");
  EXPECT_EQ(run.log_end.size(), 3U);
}

TEST(RunHistory, KnowsTheErrorThatEndedTheLastStart) {
  const TemporaryFolder folder;
  const fs::path path =
      write_run(folder, "run", records, "training: {steps: 9}\nschedule: {warmup_steps: 1}\n");
  const std::string start = "T training 9 parameters on 2 threads in run\n";
  write_bytes(path / "log.txt", start + "T error: no room\n");
  EXPECT_EQ(read_run_history(path).notes, std::vector<std::string>{"ended in an error: no room"});
  for (const std::string& later :
       {start + "T error: no room\n" + start, start + "T done: 9 steps\nT error: other data\n"}) {
    write_bytes(path / "log.txt", later);
    EXPECT_EQ(read_run_history(path).error, "");
  }
}

using Report = FolderTest;

TEST_F(Report, HasAPictureForEachMetricAndTheSettings) {
  const std::string page = page_of(write_run(folder_, "run"));
  EXPECT_EQ(count_of(page, "<svg "), 6);
  for (const char* title :
       {"Loss", "Accuracy", "Learning rate", "Norm of the gradient", "Throughput", "Peak memory"}) {
    expect_says(page, std::string(">") + title + "</text>");
  }
  expect_says(page, "step 3 of 3, finished");
  expect_says(page, "loss 4.5 at step 2");
  expect_says(page, "200 (median)");
  expect_says(page, "3.00 GB");
  expect_says(page,
              "<td class=\"text\">training.<wbr>steps</td><td class=\"text\">3</td><td "
              "class=\"text\">500000</td>");
  EXPECT_EQ(count_of(page, "<tr class=\"best\">"), 1);
}

/// A page refers to no other file, and its policy forbids loading one.
TEST_F(Report, NeedsNothingElse) {
  const std::string page = page_of(write_run(folder_, "run"));
  expect_says(page, "default-src 'none'");
  for (const char* part : {"<script", "<link", "@import", "url(", "src="}) expect_hides(page, part);
}

TEST_F(Report, EscapesWhateverStandsInARun) {
  const std::string hostile = "<script>alert(1)</script>", attribute = "\" onload=\"x";
  const fs::path path = write_run(
      folder_, "a<b>\"&'", "{\"step\":1,\"<img src=x>\":1.0,\"validation_</svg><b>\":2.0}\n",
      "data: {train: [\"" + hostile + "\"], cache: \"\\\" onload=\\\"x\"}\n");
  write_bytes(path / "log.txt",
              "2026-01-01T00:00:00Z warning: " + hostile + attribute + "\x01\xff\n");
  MaskSamples samples;
  samples.texts = {hostile};
  samples.steps = {{1, {{{{0.5, 3, hostile, hostile}}}}}};
  StudyFindings study{
      {hostile}, {"<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>"}};
  TaskFindings findings = judge_labels({{hostile, hostile, attribute, false, 0.9}}, {hostile});
  findings.notes = {hostile};
  const SweepResult sweep{hostile,
                          {{{hostile + "=" + attribute}, {{1, hostile, 1, 1, hostile, 0.5}}}}};
  const RunHistory run = read_run_history(path);
  for (const std::string& page :
       {run_page(run, samples, study, findings), comparison_page({run, run}, sweep)}) {
    for (const char* part :
         {"<script", "<img src=x", "</svg><b>", "a<b>", "\x01", "\xff", " onload=\"x"})
      expect_hides(page, part);
    expect_says(page, "&lt;script&gt;alert(1)&lt;/script&gt;");
    expect_says(page, "\\x01\\xff");
  }
}

/// Held-out metrics stand before those of training, and the decisive one has the baseline.
TEST_F(Report, BeginsWithTheValidationAndItsBaseline) {
  const std::string with_baseline =
      std::string(records) + "{\"step\":4,\"validation_loss\":4.0,\"validation_baseline\":6.5}\n";
  const fs::path path = write_run(folder_, "run", with_baseline);
  EXPECT_EQ(read_run_history(path).baseline, 6.5);
  const std::string page = page_of(path);
  EXPECT_EQ(count_of(page, ">by token frequency: 6.5</text>"), 1);
  EXPECT_EQ(count_of(page, ">Baseline</text>"), 0) << "it has no chart of its own";
  expect_says(page, "<span>Baseline</span>loss 6.5, by token frequency");
  std::size_t before = 0;
  for (const char* part : {">Validation</h2>", ">Loss</text>", ">Accuracy</text>", ">Training</h2>",
                           ">Learning rate</text>"}) {
    EXPECT_GT(page.find(part), before) << part;
    before = page.find(part);
  }
}

TEST_F(Report, OfATaskBeginsWithItsMetric) {
  const std::string page = page_of(
      write_run(folder_, "run", std::string(records) + "{\"step\":4,\"validation_baseline\":0.5}\n",
                "task: {kind: classification}\ntraining: {epochs: 1}\n"));
  expect_says(page, ">always the same answer: 0.5</text>");
  EXPECT_LT(page.find(">Accuracy</text>"), page.find(">Loss</text>"));
  EXPECT_LT(page.find(">Loss</text>"), page.find(">Training</h2>"));
}

TEST_F(Report, BeginsWithAMetricThatIsNamedLikeAMean) {
  const std::string page = page_of(
      write_run(folder_, "run",
                "{\"step\":1,\"validation_loss\":4.5,\"validation_mean_average_precision\":0.25}\n",
                "task: {kind: classification, multi_label: true, metric: mean_average_precision}\n"
                "training: {epochs: 1}\n"));
  EXPECT_LT(page.find(">Mean average precision</text>"), page.find(">Loss</text>"));
}

TEST_F(Report, FoldsTheMetricsOfLayersInTheirOrder) {
  std::string record = "{\"step\":1,\"loss\":5.0";
  for (int i = 0; i < 12; ++i) record += ",\"layer_" + std::to_string(i) + "_attention_error\":0.5";
  const std::string page = page_of(write_run(folder_, "run", record + "}\n"));
  const std::size_t folded = page.find("<details><summary>1 charts of 12 layers</summary>");
  ASSERT_NE(folded, page.npos);
  std::size_t before = folded;
  for (const char* part :
       {">Difference from exact attention</text>", ">share of its norm</text>", ">layer 0</text>",
        ">layer 2</text>", ">layer 10</text>", ">layer 11</text>", "</details>"}) {
    const std::size_t place = page.find(part, before);
    ASSERT_NE(place, page.npos) << part;
    before = place;
  }
}

TEST_F(Report, CountsRepeatedWarningsInOneBox) {
  const fs::path path = write_run(folder_, "run", std::string(records) + "broken\n");
  const std::string time = "2026-01-01T00:00:01Z ";
  write_bytes(path / "log.txt", time + "warning: step 2 skipped: no finite gradient\n" + time +
                                    "warning: layer 1: rough\n" + time +
                                    "warning: layer 2: rough\n" + time +
                                    "warning: layer 1: rough\n" + time +
                                    "warning: step 17 skipped: no finite gradient\n" + time +
                                    "a line about warning: nothing\n");
  const RunHistory run = read_run_history(path);
  ASSERT_EQ(run.warnings.size(), 3U);
  EXPECT_EQ(run.warnings[0].text, "step 17 skipped: no finite gradient");
  EXPECT_EQ(run.warnings[0].count, 2);
  const std::string page = run_page(run, {}, {});
  EXPECT_EQ(count_of(page, "<div class=\"notes\">"), 1);
  expect_says(page, "<li>1 of 6 lines of metrics.jsonl were left out");
  expect_says(page, "<li>step 17 skipped: no finite gradient (2 times)</li>");
  expect_says(page, "<li>layer 1: rough (2 times)</li>");
  expect_says(page, "<li>layer 2: rough</li>");
}

TEST_F(Report, OfSeveralRunsNamesThoseWithAWarning) {
  std::vector<RunHistory> runs;
  for (const char* name : {"first", "second"}) {
    runs.push_back(read_run_history(write_run(folder_, name)));
    runs.back().name = name;
    runs.back().warnings = {{"both"}};
  }
  runs[1].warnings.push_back({"only one", 3});
  const std::string page = comparison_page(runs, {});
  EXPECT_EQ(count_of(page, "<div class=\"notes\">"), 1);
  expect_says(page, "<li>both</li>");
  expect_says(page, "<li>second: only one (3 times)</li>");
}

TEST_F(Report, OfARunWithoutRecordsSaysSo) {
  const std::string page = page_of(write_run(folder_, "run", ""));
  expect_says(page, "there is no metrics.jsonl yet");
  expect_says(page, "No evaluation yet.");
  expect_says(page, "step 0 of 3, still going or stopped");
  expect_hides(page, "<svg");
}

TEST_F(Report, MetricsThatDifferInANumberShareAPicture) {
  const std::string page = page_of(write_run(
      folder_, "run", "{\"step\":1,\"residual_layer_0\":1.0,\"residual_layer_11\":2.0}\n"));
  EXPECT_EQ(count_of(page, "<svg "), 1);
  expect_says(page, ">Residual layer #</text>");
  expect_says(page, ">residual layer 11</text>");
}

TEST_F(Report, ShowsMasksAsTheRunFilledThem) {
  const fs::path path = write_run(folder_, "run");
  const auto record = [](int step, const std::string& text, const std::string& word) {
    return "{\"step\":" + std::to_string(step) + ",\"samples\":[{\"text\":\"" + text +
           "\",\"masks\":[[{\"token_str\":\"" + word + "\",\"score\":0.5}]]}]}\n";
  };
  write_bytes(path / "fill-masks.jsonl", record(1, "old [MASK]", "one") +
                                             record(2, "new [MASK]", "two") +
                                             record(3, "new [MASK]", "three") + "{\"step\":4");
  const std::string page = run_page(read_run_history(path), read_mask_samples(path), {});
  expect_says(page, "new [MASK]");
  expect_hides(page, "old [MASK]", "the texts were changed");
  expect_says(page, "<tr><td class=\"number\">3</td><td class=\"text\">“three” 50 %</td></tr>");
  write_bytes(path / "fill-masks.jsonl", record(1, "new [MASK]", "one") + "{\"step\":2}\n");
  expect_says(run_page(read_run_history(path), read_mask_samples(path), {}),
              "fill-masks.jsonl:2: is no record of filled masks");
}

TEST_F(Report, ShowsStepsUnderEachOther) {
  MaskSamples samples;
  samples.texts = {"the [MASK]"};
  samples.steps = {{1, {{{{0.25, 3, "sea", "the sea"}}}}},
                   {2, {{{{0.996, 3, "sky", "the sky"}, {0.125, 4, "sea", "the sea"}}}}}};
  const std::string page = run_page(read_run_history(write_run(folder_, "run")), samples, {});
  expect_says(page, "<tr><td class=\"number\">1</td><td class=\"text\">“sea” 25 %</td></tr>");
  expect_says(page,
              "<tr class=\"best\"><td class=\"number\">2</td><td class=\"text\">“sky” 100 %, "
              "“sea” 12 %</td></tr>");
}

TEST_F(Report, ComparesCurvesMetricsAndSettings) {
  const std::string better = std::string(records) + "{\"step\":4,\"validation_loss\":3.5}\n";
  const RunHistory first = read_run_history(write_run(folder_, "first"));
  const RunHistory second = read_run_history(write_run(
      folder_, "second", better, "training: {steps: 4}\nschedule: {warmup_steps: 1}\nseed: 7\n"));
  const std::string page = comparison_page({first, second}, {});
  expect_says(page, "2 runs compared");
  EXPECT_EQ(count_of(page, "<svg "), 7) << "training and validation apart";
  expect_says(page,
              "<td class=\"text\">seed</td><td class=\"text\">42</td><td class=\"text\">7</td>");
  expect_hides(page, "<td class=\"text\">optimizer.<wbr>learning_<wbr>rate</td>", "is the same");
  EXPECT_EQ(count_of(page, "<tr class=\"best\">"), 1);
  EXPECT_GT(page.find("<tr class=\"best\">"), page.find("step 3 of 3, finished"))
      << "the second run";
}

TEST_F(Report, MarksNoBestOfLossesWithOtherWeights) {
  const auto run = [&](const std::string& name, const std::string& weight) {
    return read_run_history(write_run(
        folder_, name, records,
        "pretraining: {objective: replaced_tokens, discriminator_weight: " + weight + "}\n"));
  };
  const RunHistory first = run("first", "50"), same = run("same", "50"), other = run("other", "5");
  EXPECT_EQ(count_of(comparison_page({first, same}, {}), "<tr class=\"best\">"), 1);
  EXPECT_EQ(count_of(comparison_page({first, other}, {}), "<tr class=\"best\">"), 0);
}

TEST_F(Report, MarksNoBestOfRunsThatHoldOutOtherExamples) {
  const auto run = [&](const std::string& name, const std::string& options) {
    const std::string task =
        "task: {kind: classification, train: [a.tsv], validation_fraction: 0.3}\n";
    RunHistory read = read_run_history(write_run(folder_, name, records, task + options));
    read.validation = name;  // the inputs as the run encodes them
    return read;
  };
  const RunHistory first = run("first", "seed: 3\n"),
                   shorter = run("shorter", "seed: 3\ndata: {sequence_length: 24}\n"),
                   other = run("other", "seed: 7\ndata: {sequence_length: 24}\n");
  EXPECT_EQ(count_of(comparison_page({first, shorter}, {}), "<tr class=\"best\">"), 1);
  EXPECT_EQ(count_of(comparison_page({first, other}, {}), "<tr class=\"best\">"), 0);
}

TEST_F(Report, ShowsMeansAndDeviationsOfASweep) {
  const SweepPoint low{{"optimizer.learning_rate=9e-5"},
                       {{3, "a", 1, 1, "f1", 0.5}, {4, "b", 1, 1, "f1", 0.7}}};
  const SweepPoint high{{"optimizer.learning_rate=1e-4"}, {{3, "c", 1, 1, "f1", 0.8}}};
  const std::string html = html_sweep({"f1", {low, high}});
  expect_says(html,
              "<td class=\"text\">9e-5</td><td class=\"number\">2</td><td "
              "class=\"number\">0.6</td><td class=\"number\">0.1414</td><td "
              "class=\"number\">0.5</td><td class=\"number\">0.7</td>");
  expect_says(html, "<tr class=\"best\"><td class=\"text\">1e-4</td>");
  EXPECT_EQ(count_of(html, "<polyline"), 3) << "a line for each run";
  for (const char* axis : {">learning_rate</text>", ">seed</text>", ">f1</text>"})
    EXPECT_EQ(count_of(html, axis), 1) << axis;
  EXPECT_LT(html.find(">9e-5</text>"), html.find(">1e-4</text>")) << "ordered as numbers";
}

TEST_F(Report, NamesTheAxesOfASweepApart) {
  const SweepPoint point{{"evaluation.every=1", "checkpoint.every=1"},
                         {{3, "a", 1, 1, "loss", 0.5}}};
  const std::string html = html_sweep({"loss", {point}});
  for (const char* axis : {">evaluation.every</text>", ">checkpoint.every</text>"})
    EXPECT_EQ(count_of(html, axis), 1) << axis;
}

TEST_F(Report, MarksTheSmallestLossOfASweep) {
  const SweepPoint good{{"optimizer.learning_rate=9e-5"}, {{3, "a", 1, 1, "loss", 0.5}}};
  const SweepPoint bad{{"optimizer.learning_rate=1e-4"}, {{3, "b", 1, 1, "loss", 0.8}}};
  const auto best_line = [](const std::string& html) {
    const std::size_t begin = html.find("<polyline class=\"l1\"");
    return html.substr(begin, html.find("/>", begin) - begin);
  };
  const std::string html = html_sweep({"loss", {good, bad}});
  expect_says(html, "<tr class=\"best\"><td class=\"text\">9e-5</td>");
  EXPECT_EQ(best_line(html), best_line(html_sweep({"loss", {bad, good}})));
  EXPECT_NE(best_line(html), best_line(html_sweep({"f1", {good, bad}})));
  const SweepPoint equal{{"optimizer.learning_rate=1e-4"}, {{3, "c", 1, 1, "loss", 0.5}}};
  for (const auto& points : {std::vector{good, equal}, std::vector{equal, good}}) {
    const std::string rate = points[0].overrides[0].substr(points[0].overrides[0].find('=') + 1);
    const std::string tied = html_sweep({"loss", points});
    expect_says(tied, "<tr class=\"best\"><td class=\"text\">" + rate + "</td>");
    expect_says(best_line(tied), rate == "9e-5" ? "points=\"60.0,304.0 " : "points=\"60.0,44.0 ");
  }
}

/// The page and its charts are as wide as the screen; only tables scroll for themselves.
TEST(ReportHtml, FitsNarrowScreens) {
  const std::string page = html_page("title", html_table({"a"}, {{"b"}}));
  expect_says(page, "width=device-width");
  expect_says(page, "minmax(min(100%,400px),1fr)");
  expect_says(page, "figure svg,figure img{display:block;width:100%;height:auto}");
  expect_says(page, ".wide{overflow-x:auto");
  expect_says(page, "<div class=\"wide\"><table>");
}

TEST(ReportHtml, EncodesPictures) {
  expect_says(html_image("M", ""), "base64,TQ==\"");
  expect_says(html_image("Ma", ""), "base64,TWE=\"");
  expect_says(html_image("Man", ""), "base64,TWFu\"");
}

}  // namespace
}  // namespace nystrom::testing
