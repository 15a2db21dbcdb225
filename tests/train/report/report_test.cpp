// Pages that show runs: what stands in them, hostile names and values, thinned curves, files that
// are damaged.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_checkpoint.h"
#include "train/checkpoint/model_folder.h"
#include "train/config/config_io.h"
#include "train/report/report.h"
#include "train/report/report_html.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* records = R"({"step":1,"loss":5.0,"learning_rate":0.001,"grad_norm":2.0,)"
                                R"("tokens_per_second":100.0,"peak_memory_bytes":2e9})"
                                "\n"
                                R"({"step":2,"loss":null,"learning_rate":0.002,"grad_norm":1.0,)"
                                R"("tokens_per_second":300.0,"peak_memory_bytes":2e9})"
                                "\n"
                                R"({"step":2,"validation_loss":4.5,"validation_accuracy":0.25})"
                                "\n"
                                R"({"step":3,"loss":4.0,"learning_rate":0.001,"grad_norm":1.0,)"
                                R"("tokens_per_second":200.0,"peak_memory_bytes":3e9})"
                                "\n"
                                R"({"step":3,"validation_loss":4.75,"validation_accuracy":0.5})"
                                "\n";

/// A folder as a run leaves it, without checkpoints.
fs::path write_run(
    const TemporaryFolder& folder, const std::string& name, const std::string& metrics = records,
    const std::string& options = "training: {steps: 3}\nschedule: {warmup_steps: 1}\n") {
  const fs::path run = folder / name;
  fs::create_directories(run);
  write_bytes(run / "config.yaml", to_yaml(parse_config(options, "run.yaml", start_defaults)));
  if (!metrics.empty()) write_bytes(run / "metrics.jsonl", metrics);
  return run;
}

std::string page_of(const fs::path& run) { return run_report(read_run(run), {}, {}); }

bool holds(const std::string& page, const std::string& part) {
  return page.find(part) != page.npos;
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(RunRecord, HoldsCurvesEvaluationsAndTheBest) {
  const TemporaryFolder folder;
  const RunRecord run = read_run(write_run(folder, "run"));
  EXPECT_EQ(run.steps, 3);
  EXPECT_EQ(run.total_steps, 3);
  EXPECT_TRUE(run.notes.empty());
  EXPECT_EQ(run.curves.at("loss").steps, (std::vector<double>{1, 2, 3}));
  EXPECT_TRUE(std::isnan(run.curves.at("loss").values[1]));
  ASSERT_EQ(run.evaluations.size(), 2U);
  EXPECT_EQ(run.metric_name(), "loss");
  EXPECT_EQ(run.best()->step, 2);
}

TEST(RunRecord, OfATaskIsJudgedByItsMetric) {
  const TemporaryFolder folder;
  const RunRecord run = read_run(
      write_run(folder, "run", records, "task: {kind: classification}\ntraining: {epochs: 1}\n"));
  EXPECT_EQ(run.metric_name(), "accuracy");
  EXPECT_EQ(run.best()->step, 3);
  EXPECT_EQ(run.total_steps, std::nullopt);
}

TEST(RunRecord, NotesWhatIsDamaged) {
  const TemporaryFolder folder;
  const std::string damaged =
      std::string(records) +
      "{\"step\":4,\"loss\"\n{\"step\":2,\"loss\":1.0}\n[]\n{\"step\":5,\"loss\":\"low\"}\n" +
      "{\"step\":6,\"loss\":3.0}\n{\"step\":7,\"lo";
  const RunRecord run = read_run(write_run(folder, "run", damaged));
  EXPECT_EQ(run.steps, 6);
  ASSERT_EQ(run.notes.size(), 1U);
  EXPECT_TRUE(
      run.notes[0].starts_with("4 of 11 lines of metrics.jsonl were left out; metrics.jsonl:6:"))
      << run.notes[0];
}

TEST(RunRecord, ReadsTheLog) {
  const TemporaryFolder folder;
  const fs::path path =
      write_run(folder, "run", records, "task: {kind: classification}\ntraining: {epochs: 1}\n");
  write_bytes(path / "log.txt",
              "2026-01-01T00:00:00Z training 1234 parameters on 2 threads in run, to step 9\n"
              "2026-01-01T00:00:01Z warning: step 2 skipped\n2026-01-01T00:00:02Z stopped early: 3 "
              "evaluations\n");
  const RunRecord run = read_run(path);
  EXPECT_EQ(run.parameters, 1234);
  EXPECT_EQ(run.total_steps, 9);
  EXPECT_TRUE(run.stopped_early);
  EXPECT_EQ(run.warnings, std::vector<std::string>{"2026-01-01T00:00:01Z warning: step 2 skipped"});
  EXPECT_EQ(run.log_end.size(), 3U);
}

TEST(Report, HasAPictureForEachMetricAndTheSettings) {
  const TemporaryFolder folder;
  const std::string page = page_of(write_run(folder, "run"));
  EXPECT_EQ(count_of(page, "<svg "), 6);
  for (const char* title :
       {"Loss", "Accuracy", "Learning rate", "Norm of the gradient", "Throughput", "Peak memory"}) {
    EXPECT_TRUE(holds(page, std::string(">") + title + "</text>")) << title;
  }
  EXPECT_TRUE(holds(page, "step 3 of 3, finished"));
  EXPECT_TRUE(holds(page, "loss 4.5 at step 2"));
  EXPECT_TRUE(holds(page, "200 (median)"));
  EXPECT_TRUE(holds(page, "3.00 GB"));
  EXPECT_TRUE(holds(page,
                    "<td class=\"text\">training.<wbr>steps</td><td class=\"text\">3</td><td "
                    "class=\"text\">500000</td>"));
  EXPECT_EQ(count_of(page, "<tr class=\"best\">"), 1);
}

/// Nothing in a page names another file, and its policy forbids loading one.
TEST(Report, NeedsNothingElse) {
  const TemporaryFolder folder;
  const std::string page = page_of(write_run(folder, "run"));
  EXPECT_TRUE(holds(page, "default-src 'none'"));
  for (const char* part : {"<script", "<link", "@import", "url(", "src="})
    EXPECT_FALSE(holds(page, part)) << part;
}

TEST(Report, EscapesWhateverStandsInARun) {
  const TemporaryFolder folder;
  const std::string hostile = "<script>alert(1)</script>", attribute = "\" onload=\"x";
  const fs::path path = write_run(
      folder, "a<b>\"&'", "{\"step\":1,\"<img src=x>\":1.0,\"validation_</svg><b>\":2.0}\n",
      "data: {train: [\"" + hostile + "\"], cache: \"\\\" onload=\\\"x\"}\n");
  write_bytes(path / "log.txt",
              "2026-01-01T00:00:00Z warning: " + hostile + attribute + "\x01\xff\n");
  MaskSamples samples;
  samples.texts = {hostile};
  samples.steps = {{1, {{{{0.5, 3, hostile, hostile}}}}}};
  StudyFindings study{
      {hostile}, {"<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>"}};
  const RunRecord run = read_run(path);
  for (const std::string& page :
       {run_report(run, samples, study),
        comparison_report({run, run}, {hostile, {hostile}, {{hostile}}})}) {
    for (const char* part :
         {"<script", "<img src=x", "</svg><b>", "a<b>", "\x01", "\xff", " onload=\"x"})
      EXPECT_FALSE(holds(page, part)) << part;
    EXPECT_TRUE(holds(page, "&lt;script&gt;alert(1)&lt;/script&gt;"));
    EXPECT_TRUE(holds(page, "\\x01\\xff"));
  }
}

TEST(Report, OfARunWithoutRecordsSaysSo) {
  const TemporaryFolder folder;
  const std::string page = page_of(write_run(folder, "run", ""));
  EXPECT_TRUE(holds(page, "there is no metrics.jsonl yet"));
  EXPECT_TRUE(holds(page, "No evaluation yet."));
  EXPECT_TRUE(holds(page, "step 0 of 3, still going or stopped"));
  EXPECT_FALSE(holds(page, "<svg"));
}

TEST(Report, MetricsThatDifferInANumberShareAPicture) {
  const TemporaryFolder folder;
  const std::string page = page_of(write_run(
      folder, "run", "{\"step\":1,\"residual_layer_0\":1.0,\"residual_layer_11\":2.0}\n"));
  EXPECT_EQ(count_of(page, "<svg "), 1);
  EXPECT_TRUE(holds(page, ">Residual layer #</text>"));
  EXPECT_TRUE(holds(page, ">residual_layer_11</text>"));
}

TEST(Report, ShowsMasksAsTheRunFilledThem) {
  const TemporaryFolder folder;
  const fs::path path = write_run(folder, "run");
  const auto record = [](int step, const std::string& text, const std::string& word) {
    return "{\"step\":" + std::to_string(step) + ",\"samples\":[{\"text\":\"" + text +
           "\",\"masks\":[[{\"token_str\":\"" + word + "\",\"score\":0.5}]]}]}\n";
  };
  write_bytes(path / "fill-masks.jsonl", record(1, "old [MASK]", "one") +
                                             record(2, "new [MASK]", "two") +
                                             record(3, "new [MASK]", "three") + "{\"step\":4");
  const std::string page = run_report(read_run(path), read_mask_samples(path), {});
  EXPECT_TRUE(holds(page, "new [MASK]"));
  EXPECT_FALSE(holds(page, "old [MASK]")) << "the texts were changed";
  EXPECT_TRUE(
      holds(page, "<tr><td class=\"number\">3</td><td class=\"text\">“three” 50 %</td></tr>"));
  write_bytes(path / "fill-masks.jsonl", record(1, "new [MASK]", "one") + "{\"step\":2}\n");
  EXPECT_TRUE(holds(run_report(read_run(path), read_mask_samples(path), {}),
                    "fill-masks.jsonl:2: is no record of filled masks"));
}

TEST(Report, ShowsStepsUnderEachOther) {
  const TemporaryFolder folder;
  MaskSamples samples;
  samples.texts = {"the [MASK]"};
  samples.steps = {{1, {{{{0.25, 3, "sea", "the sea"}}}}},
                   {2, {{{{0.5, 3, "sky", "the sky"}, {0.125, 4, "sea", "the sea"}}}}}};
  const std::string page = run_report(read_run(write_run(folder, "run")), samples, {});
  EXPECT_TRUE(
      holds(page, "<tr><td class=\"number\">1</td><td class=\"text\">“sea” 25 %</td></tr>"));
  EXPECT_TRUE(holds(page,
                    "<tr class=\"best\"><td class=\"number\">2</td><td class=\"text\">“sky” 50 %, "
                    "“sea” 12 %</td></tr>"));
}

TEST(Report, ComparesCurvesMetricsAndSettings) {
  const TemporaryFolder folder;
  const std::string better = std::string(records) + "{\"step\":4,\"validation_loss\":3.5}\n";
  const RunRecord first = read_run(write_run(folder, "first"));
  const RunRecord second = read_run(write_run(
      folder, "second", better, "training: {steps: 4}\nschedule: {warmup_steps: 1}\nseed: 7\n"));
  const std::string page = comparison_report({first, second}, {});
  EXPECT_TRUE(holds(page, "2 runs compared"));
  EXPECT_EQ(count_of(page, "<svg "), 7) << "training and validation apart";
  EXPECT_TRUE(holds(
      page, "<td class=\"text\">seed</td><td class=\"text\">42</td><td class=\"text\">7</td>"));
  EXPECT_FALSE(holds(page, "<td class=\"text\">optimizer.<wbr>learning_<wbr>rate</td>"))
      << "is the same";
  EXPECT_EQ(count_of(page, "<tr class=\"best\">"), 1);
  EXPECT_GT(page.find("<tr class=\"best\">"), page.find("step 3 of 3, finished"))
      << "the second run";
}

TEST(Chart, ThinnedCurvesKeepTheirPeaksEndsAndBreaks) {
  ChartSeries series;
  for (int i = 0; i < 100000; ++i) {
    series.x.push_back(i);
    series.y.push_back(std::sin(i * 0.001));
  }
  series.y[54321] = 1000;
  series.y[12345] = -1000;
  series.y[77777] = std::numeric_limits<double>::quiet_NaN();
  const ChartSeries thin = thinned(series, 2000);
  EXPECT_LE(thin.x.size(), 2000U);
  EXPECT_GE(thin.x.size(), 1000U);
  EXPECT_EQ(thin.x.front(), 0);
  EXPECT_EQ(thin.x.back(), 99999);
  EXPECT_TRUE(std::is_sorted(thin.x.begin(), thin.x.end()));
  EXPECT_EQ(std::count(thin.y.begin(), thin.y.end(), 1000), 1);
  EXPECT_EQ(std::count(thin.y.begin(), thin.y.end(), -1000), 1);
  EXPECT_EQ(std::count_if(thin.y.begin(), thin.y.end(), [](double y) { return std::isnan(y); }), 1);
  const ChartSeries few{"few", {1, 2}, {3, 4}};
  EXPECT_EQ(thinned(few, 8).y, few.y);
}

TEST(ReportHtml, EncodesPictures) {
  EXPECT_TRUE(holds(html_image("M", ""), "base64,TQ==\""));
  EXPECT_TRUE(holds(html_image("Ma", ""), "base64,TWE=\""));
  EXPECT_TRUE(holds(html_image("Man", ""), "base64,TWFu\""));
}

TEST(ReportCommand, ShowsWhatTheBestCheckpointFills) {
  const TemporaryFolder folder;
  const fs::path run = write_run(folder, "run");
  Outcome outcome = run_program(folder, "report run --quiet --text 'the [MASK] was calm'");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "run/report.html\n");
  EXPECT_TRUE(holds(read_bytes(run / "report.html"), "neither config.json nor checkpoints"));
}

/// What approximation --output RUN/approximation leaves is read back into the page: sentences of
/// every study, and its pictures.
TEST(ReportCommand, ShowsTheStudiesOfARun) {
  const TemporaryFolder folder;
  const fs::path run = write_run(folder, "run");
  EXPECT_FALSE(holds(page_of(run), "Quality of the approximation"));
  for (const char* study : {"matrices --length 6 --trials 2",
                            "cost --shortest 16 --longest 32 --heads 1 --head-dim 8 --repeats 1"})
    ASSERT_EQ(run_program(folder, std::string("approximation ") + study +
                                      " --output run/approximation --quiet")
                  .code,
              0);
  const StudyFindings found = read_study(run);
  ASSERT_EQ(found.pictures.size(), 3U);
  EXPECT_EQ(found.pictures[2], read_bytes(run / "approximation" / "matrices-errors.svg"));
  ASSERT_GE(found.verdict.size(), 3U);
  ASSERT_EQ(run_program(folder, "report run --quiet").code, 0);
  const std::string page = read_bytes(run / "report.html");
  EXPECT_TRUE(holds(page, ">Quality of the approximation</h2>"));
  for (const std::string& sentence : found.verdict)
    EXPECT_TRUE(holds(page, html_text(sentence))) << sentence;
  for (const std::string& picture : found.pictures)
    EXPECT_TRUE(holds(page, html_image(picture, "picture of the approximation study")));
}

TEST(ReportCommand, OfADamagedStudyNamesTheFile) {
  const TemporaryFolder folder;
  const fs::path run = write_run(folder, "run");
  fs::create_directory(run / "approximation");
  write_bytes(run / "approximation" / "cost.json", "{}");
  const Outcome outcome = run_program(folder, "report run --quiet");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "nystrom: run/approximation/cost.json: is no study of nystrom approximation\n");
}

TEST(ReportCommand, OfASweepComparesItsRuns) {
  const TemporaryFolder folder;
  write_run(folder, "sweep/rate=1/seed-3");
  write_bytes(folder / "sweep" / "summary.json",
              R"({"metric": "accuracy", "points": [
                {"options": ["rate=1"], "mean": 0.5, "deviation": 0,
                 "runs": [{"run_dir": "old/rate=1/seed-3"}]}]})");
  const Outcome outcome = run_program(folder, "report sweep");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string page = read_bytes(folder / "sweep" / "report.html");
  EXPECT_TRUE(holds(page, "accuracy (mean)"));
  EXPECT_TRUE(holds(page, "rate=1/<wbr>seed-3"));
}

}  // namespace
}  // namespace nystrom::testing
