// Trains every attention kind from YAML with the program: pretraining, resuming, evaluation,
// extension, fine-tuning.
#include "tests/support/finetune_fixture.h"
#include "tests/support/small_text.h"

namespace nystrom::testing {
namespace {

/// Each kind with its further options of model.attention.
const std::pair<const char*, const char*> kinds[] = {
    {"softmax", ""},
    {"double_softmax", ""},
    {"linear", ""},
    {"performer", ", num_features: 16"},
    {"linformer", ", projected_length: 8, projection_sharing: per_head"},
    {"reformer", ", num_hashes: 2, bucket_size: 8"}};

class RivalRun : public ProgramTest,
                 public ::testing::WithParamInterface<std::pair<const char*, const char*>> {
 protected:
  void SetUp() override {
    write_small_run(
        folder_,
        "schedule: {warmup_steps: 1, decay: constant}\n"
        "training: {steps: 6, batch_size: 8, micro_batch_size: 4, dtype: f32}\n"
        "logging: {tensorboard: false}\n",
        std::string("conv_kernel_size: 5, kind: ") + GetParam().first + GetParam().second, 2);
  }
  std::string weights(const std::string& run_dir) {
    return read_bytes(folder_ / run_dir / "checkpoints" / "step-6" / "model.safetensors");
  }
};

TEST_P(RivalRun, IsPretrainedResumedAndEvaluated) {
  const std::string pretrain = "pretrain run.yaml --threads 1 --set run_dir=";
  run(pretrain + "straight");
  run(pretrain + "resumed --set training.steps=3");
  expect_says(run(pretrain + "resumed").err, "resuming at step 3\n");
  EXPECT_EQ(weights("resumed"), weights("straight"));
  const json evaluation =
      json::parse(run("evaluate resumed --text text.txt --threads 1 --json").out);
  EXPECT_GT(evaluation.at("tokens"), 300);
  EXPECT_GT(evaluation.at("loss"), 0);
  EXPECT_LT(evaluation.at("loss"), 5) << "uniform over the vocabulary: 3.5";
  if (GetParam().first == std::string("linformer")) return;  // has weights for each position
  run("extend resumed longer --length 40");
  run("pretrain run.yaml --threads 1 --set run_dir=more --set model.from=longer --set "
      "model.max_position_embeddings=40 --set data.sequence_length=40 --set training.steps=1");
}

INSTANTIATE_TEST_SUITE_P(Kinds, RivalRun, ::testing::ValuesIn(kinds),
                         [](const auto& test) { return std::string(test.param.first); });

class RivalTask : public FinetuneTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(RivalTask, IsLearned) {
  configure_classification();
  run(std::string("finetune run.yaml --threads 1 --set model.attention.projected_length=8 --set "
                  "model.attention.kind=") +
      GetParam());
  EXPECT_GT(measured("accuracy", "dev.tsv"), 0.8);
}

INSTANTIATE_TEST_SUITE_P(Kinds, RivalTask, ::testing::Values("performer", "linformer"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace nystrom::testing
