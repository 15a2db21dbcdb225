// The content of metrics.jsonl, also of a resumed run.
#include <gtest/gtest.h>

#include "tests/support/program_test.h"
#include "tests/support/recorded_metric.h"
#include "tests/support/small_text.h"
#include "tests/support/temporary_folder.h"

namespace nystrom::testing {
namespace {

TEST(RunMetrics, EveryStepAndEvaluationIsRecordedOnceWhenARunGoesOn) {
  const TemporaryFolder folder;
  write_small_text(folder / "text.txt");
  std::ofstream(folder / "run.yaml")
      << "run_dir: run\n"
         "model: {hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: "
         "16, "
         "max_position_embeddings: 16, attention: {num_landmarks: 4, conv_kernel_size: 3}}\n"
         "tokenizer: {train: {vocab_size: 32}}\n"
         "data: {train: [text.txt], validation_fraction: 0.1, documents: lines, sequence_length: "
         "16, cache: cache}\n"
         "schedule: {warmup_steps: 2}\n"
         "training: {steps: 4, batch_size: 4, micro_batch_size: 4}\n"
         "evaluation: {every: 2}\n"
         "checkpoint: {every: 2}\n"
         "logging: {every: 1}\n";
  for (const std::string steps : {"4", "8"}) {
    succeeded(run_program(folder, "pretrain run.yaml --quiet --set training.steps=" + steps));
  }
  EXPECT_EQ(recorded_metric(folder / "run", "loss").size(), 8U);
  EXPECT_EQ(recorded_metric(folder / "run", "validation_loss").size(), 4U);
}

}  // namespace
}  // namespace nystrom::testing
