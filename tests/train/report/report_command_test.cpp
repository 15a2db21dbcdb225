// nystrom report as a program.
#include <gtest/gtest.h>

#include "tests/support/program_test.h"
#include "tests/train/report/run_folder.h"
#include "train/report/report_html.h"

namespace nystrom::testing {
namespace {

using ReportCommand = ProgramTest;

TEST_F(ReportCommand, ShowsWhatTheBestCheckpointFills) {
  const fs::path run_dir = write_run(folder_, "run");
  EXPECT_EQ(run("report run --quiet --text 'the [MASK] was calm'").out, "run/report.html\n");
  expect_says(read_bytes(run_dir / "report.html"), "neither config.json nor checkpoints");
}

/// The page shows the files of approximation --output RUN/approximation: sentences and charts of
/// every study.
TEST_F(ReportCommand, ShowsTheStudiesOfARun) {
  const fs::path run_dir = write_run(folder_, "run");
  expect_hides(page_of(run_dir), "Quality of the approximation");
  for (const char* study : {"matrices --length 6 --trials 2",
                            "cost --shortest 16 --longest 32 --heads 1 --head-dim 8 --repeats 1"})
    run(std::string("approximation ") + study + " --output run/approximation --quiet");
  const StudyFindings found = read_study(run_dir);
  ASSERT_EQ(found.pictures.size(), 3U);
  EXPECT_EQ(found.pictures[2], read_bytes(run_dir / "approximation" / "matrices-errors.svg"));
  ASSERT_GE(found.verdict.size(), 3U);
  run("report run --quiet");
  const std::string page = read_bytes(run_dir / "report.html");
  expect_says(page, ">Quality of the approximation</h2>");
  for (const std::string& sentence : found.verdict) expect_says(page, html_text(sentence));
  for (const std::string& picture : found.pictures)
    expect_says(page, html_image(picture, "picture of the approximation study"));
}

TEST_F(ReportCommand, OfACheckpointAsksForItsRun) {
  const fs::path checkpoint = write_run(folder_, "run/checkpoints/step-1");
  write_bytes(checkpoint / "MANIFEST.json", "{}");
  expect_refused(
      "report run/checkpoints/step-1",
      "run/checkpoints/step-1: is a checkpoint; expected the run_dir of nystrom pretrain "
      "or finetune");
  EXPECT_FALSE(fs::exists(checkpoint / "report.html"));
}

TEST_F(ReportCommand, OfADamagedStudyNamesTheFile) {
  const fs::path run_dir = write_run(folder_, "run");
  write_bytes(run_dir / "approximation" / "cost.json", "{}");
  expect_refused("report run --quiet",
                 "run/approximation/cost.json: is no study of nystrom approximation");
}

TEST_F(ReportCommand, OfASweepComparesItsRuns) {
  write_run(folder_, "sweep/rate=1/seed-3");
  write_bytes(folder_ / "sweep" / "summary.json",
              R"({"metric": "accuracy", "points": [
                {"options": ["rate=1"], "mean": 0.5, "deviation": 0,
                 "runs": [{"seed": 3, "run_dir": "old/rate=1/seed-3", "steps": 3, "best_step": 2,
                           "metric": "accuracy", "value": 0.5}]}]})");
  run("report sweep");
  const std::string page = read_bytes(folder_ / "sweep" / "report.html");
  expect_says(page, "accuracy, mean");
  expect_says(page, "rate=1/<wbr>seed-3");
}

}  // namespace
}  // namespace nystrom::testing
