// nystrom report as a program.
#include <gtest/gtest.h>

#include "tests/support/run_program.h"
#include "tests/train/report/run_folder.h"
#include "train/report/report_html.h"

namespace nystrom::testing {
namespace {

TEST(ReportCommand, ShowsWhatTheBestCheckpointFills) {
  const TemporaryFolder folder;
  const fs::path run = write_run(folder, "run");
  Outcome outcome = run_program(folder, "report run --quiet --text 'the [MASK] was calm'");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "run/report.html\n");
  EXPECT_TRUE(holds(read_bytes(run / "report.html"), "neither config.json nor checkpoints"));
}

/// The page shows the files of approximation --output RUN/approximation: sentences and charts of
/// every study.
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
                 "runs": [{"seed": 3, "run_dir": "old/rate=1/seed-3", "steps": 3, "best_step": 2,
                           "metric": "accuracy", "value": 0.5}]}]})");
  const Outcome outcome = run_program(folder, "report sweep");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string page = read_bytes(folder / "sweep" / "report.html");
  EXPECT_TRUE(holds(page, "accuracy, mean"));
  EXPECT_TRUE(holds(page, "rate=1/<wbr>seed-3"));
}

}  // namespace
}  // namespace nystrom::testing
