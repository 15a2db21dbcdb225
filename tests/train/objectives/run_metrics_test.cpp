// The content of metrics.jsonl, also of a resumed run.
#include <gtest/gtest.h>

#include "tests/support/program_test.h"
#include "tests/support/recorded_metric.h"
#include "tests/support/small_text.h"

namespace nystrom::testing {
namespace {

TEST(RunMetrics, EveryStepAndEvaluationIsRecordedOnceWhenARunGoesOn) {
  const TemporaryFolder folder;
  write_small_run(folder,
                  "run_dir: run\n"
                  "schedule: {warmup_steps: 2}\n"
                  "training: {steps: 4, batch_size: 4, micro_batch_size: 4}\n"
                  "evaluation: {every: 2}\n"
                  "checkpoint: {every: 2}\n"
                  "logging: {every: 1}\n");
  for (const std::string steps : {"4", "8"})
    succeeded(run_program(folder, "pretrain run.yaml --quiet --set training.steps=" + steps));
  EXPECT_EQ(recorded_metric(folder / "run", "loss").size(), 8U);
  EXPECT_EQ(recorded_metric(folder / "run", "validation_loss").size(), 4U);
}

}  // namespace
}  // namespace nystrom::testing
